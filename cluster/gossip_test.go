package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Membership in virtual time: the network is in memory, everything else is as
// in production.

const (
	addrA = "10.0.0.1:7946"
	addrB = "10.0.0.2:7946"
	addrC = "10.0.0.3:7946"
)

// three starts nodes a, b and c.
func three(t *testing.T, n *testNet, more ...func(*MembersConfig)) (a, b, c *testMember) {
	t.Helper()
	a = n.start(t, addrA, incarnation("a"), more...)
	b = n.start(t, addrB, incarnation("b"), append(more, joining(addrA))...)
	c = n.start(t, addrC, incarnation("c"), append(more, joining(addrA))...)
	pass(time.Second)
	for _, m := range []*testMember{a, b, c} {
		sees(t, m, "a", "b", "c")
	}
	return a, b, c
}

// TestManyAtOnce: nodes that come together are everywhere soon, and do not wait
// for the next exchange of whole lists.
func TestManyAtOnce(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T) {
			n := newTestNet()
			all := []*testMember{n.start(t, addrA, incarnation("a"))}
			for i := range 6 {
				all = append(all, n.start(t, fmt.Sprintf("10.0.1.%d:7946", i+1), incarnation(fmt.Sprint("n", i)), joining(addrA)))
			}
			pass(time.Second)
			for _, m := range all {
				sees(t, m, "a", "n0", "n1", "n2", "n3", "n4", "n5")
			}
		})
	}
}

// TestKilledIsMissed measures from the last word of a node to the moment when
// all others have dropped it.
func TestKilledIsMissed(t *testing.T) {
	for name, test := range map[string]struct {
		kill  int
		limit time.Duration
	}{
		"one of three": {1, 2200 * time.Millisecond},
		"two of three": {2, 4200 * time.Millisecond}, // nobody confirms a suspicion
	} {
		t.Run(name, func(t *testing.T) {
			var longest, sum time.Duration
			const runs = 30
			for i := range runs {
				bubble(t, func(t *testing.T) {
					a, b, c := three(t, newTestNet())
					pass(time.Duration(i) * 37 * time.Millisecond) // into another phase of the probes
					dead := []*testMember{c, b}[:test.kill]
					began := time.Now()
					for _, m := range dead {
						m.kill()
					}
					a.await(t, "the deaths", func(v *View) bool { return len(v.Members) == 3-test.kill })
					if test.kill == 1 {
						b.awaitNodes(t, "a", "b")
					}
					took := time.Since(began)
					sum, longest = sum+took, max(longest, took)
				})
			}
			t.Logf("%d runs: mean %v, longest %v", runs, sum/runs, longest)
			if longest > test.limit {
				t.Errorf("noticed after %v, want at most %v", longest, test.limit)
			}
		})
	}
}

// TestLeft: who says that it goes is dropped at once.
func TestLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b, c := three(t, newTestNet())
		began := time.Now()
		if err := c.Leave(time.Second); err != nil {
			t.Fatal(err)
		}
		c.Close()
		a.awaitNodes(t, "a", "b")
		b.awaitNodes(t, "a", "b")
		if took := time.Since(began); took > 600*time.Millisecond {
			t.Errorf("dropped after %v", took)
		}
		pass(time.Minute)
		sees(t, a, "a", "b")
		if err := c.Leave(time.Second); err == nil {
			t.Error("left after the end")
		}
	})
}

// TestRestarted: a node that is killed and started again, soon or late, on its
// address or on another, is back within a second, and is never there twice.
func TestRestarted(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration
		addr  string
	}{
		"at once":                     {time.Millisecond, addrC},
		"at once, another address":    {time.Millisecond, "10.0.0.4:7946"},
		"after 2 s":                   {2 * time.Second, addrC},
		"after 60 s, another address": {time.Minute, "10.0.0.4:7946"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newTestNet()
				a, b, c := three(t, n)
				c.kill()
				pass(test.after)
				again := n.start(t, test.addr, incarnation("c"), joining(addrA))
				pass(time.Second)
				for _, m := range []*testMember{a, b, again} {
					m.awaitMember(t, again)
					sees(t, m, "a", "b", "c")
				}
				if again.Replaced() {
					t.Error("replaced by its predecessor")
				}
				pass(5 * time.Second)
				for _, m := range []*testMember{a, b, again} {
					sees(t, m, "a", "b", "c")
					m.mu.Lock()
					if len(m.peers) != 2 {
						t.Errorf("%s: %d others in the list", m.cfg.Self.Node, len(m.peers))
					}
					m.mu.Unlock()
				}
			})
		})
	}
}

// TestAllReplaced: every node is replaced by one on another address, one after
// another, and nobody's Join names the addresses in use.
func TestAllReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		a, b, c := three(t, n)
		alive := []*testMember{a, b, c}
		for i := range alive {
			alive[i].kill()
			addr := fmt.Sprintf("10.0.1.%d:7946", i+1)
			alive[i] = n.start(t, addr, incarnation(string(rune('a'+i))), joining(alive[(i+1)%3].Gossip()))
			pass(5 * time.Second)
		}
		for _, m := range alive {
			sees(t, m, "a", "b", "c")
		}
	})
}

// TestReplaced: of two processes with one name the earlier one learns that it
// has to stop.
func TestReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		a, _, c := three(t, n)
		twin := n.start(t, "10.0.0.4:7946", incarnation("c"), joining(addrA))
		pass(3 * time.Second)
		if !c.Replaced() || twin.Replaced() || a.Replaced() {
			t.Errorf("replaced: old %t, new %t, another node %t", c.Replaced(), twin.Replaced(), a.Replaced())
		}
		for _, m := range []*testMember{a, c, twin} {
			m.awaitMember(t, twin)
			sees(t, m, "a", "b", "c")
		}
	})
}

// TestClockWentBack: the clock was set back before a node was started again, so
// its dead predecessor is the later one until its death is noticed. That does
// not stop the living one.
func TestClockWentBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		a, _, c := three(t, n)
		c.kill()
		self := incarnation("c")
		self.Started -= time.Hour.Milliseconds()
		again := n.start(t, addrC, self, joining(addrA))
		for range 100 {
			pass(100 * time.Millisecond)
			if _, ok := again.View().Find(self.Owner()); !ok || again.Replaced() {
				t.Fatalf("replaced %t, in its own view %t", again.Replaced(), ok)
			}
		}
		a.awaitMember(t, again)
	})
}

// TestSplit: halves that were apart until both had forgotten each other find
// each other by themselves (hashicorp/memberlist#222), also when the name that
// they joined by is gone.
func TestSplit(t *testing.T) {
	for name, named := range map[string]bool{"by the name": true, "by what was seen": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newTestNet()
				var gone atomic.Bool
				dns := func(c *MembersConfig) {
					c.Join = []string{"belfry"}
					c.resolve = func(context.Context, string) ([]string, error) {
						if gone.Load() {
							return nil, errors.New("no such name")
						}
						return []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nil
					}
				}
				a := n.start(t, addrA, incarnation("a"), dns)
				b := n.start(t, addrB, incarnation("b"), dns)
				c := n.start(t, addrC, incarnation("c"), dns)
				pass(time.Second)
				sees(t, a, "a", "b", "c")
				gone.Store(!named)
				n.split(addrC)
				pass(120 * time.Second)
				sees(t, a, "a", "b")
				sees(t, b, "a", "b")
				sees(t, c, "c")
				if known := listed(c); known != 1 {
					t.Fatalf("memberlist still knows %d nodes: this split proves nothing", known)
				}
				n.split()
				began := time.Now()
				for _, m := range []*testMember{a, b, c} {
					m.awaitNodes(t, "a", "b", "c")
				}
				limit := 7 * time.Second // Rejoin and a quarter
				if !named {
					limit = 18 * time.Second // 120 s / 16, in steps of Rejoin, and a dial that was under way
				}
				if took := time.Since(began); took > limit {
					t.Errorf("together again after %v", took)
				}
			})
		})
	}
}

// TestOneWay: what one node sends is lost, what it is sent arrives. The others
// drop it, and it comes back.
func TestOneWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		a, b, c := three(t, n)
		n.mu.Lock()
		n.cut = func(from, _ string) bool { return from == addrC }
		n.mu.Unlock()
		pass(30 * time.Second)
		sees(t, a, "a", "b")
		sees(t, b, "a", "b")
		n.split()
		pass(20 * time.Second)
		for _, m := range []*testMember{a, b, c} {
			sees(t, m, "a", "b", "c")
		}
	})
}

// listed is how many nodes memberlist holds, dead ones included.
func listed(m *testMember) int {
	return reflect.ValueOf(m.list).Elem().FieldByName("nodes").Len()
}

// TestDeadAreForgotten: however often a node is restarted, the list does not
// grow for ever.
func TestDeadAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		a, b, c := three(t, n)
		for range 40 {
			c.kill()
			c = n.start(t, addrC, incarnation("c"), joining(addrA))
			pass(2 * time.Second)
		}
		if most := listed(a); most < 10 {
			t.Fatalf("%d in the list: the dead were never there", most)
		}
		pass(time.Minute)
		for _, m := range []*testMember{a, b, c} {
			if got := listed(m); got != 3 {
				t.Errorf("%s has %d in its list", m.cfg.Self.Node, got)
			}
		}
	})
}

// TestStrangers: another label, another key or none, and nobody is let in.
func TestStrangers(t *testing.T) {
	key := func(c *MembersConfig) { c.Label, c.Keys = "prod", [][]byte{bytes.Repeat([]byte{1}, 32)} }
	for name, other := range map[string]func(*MembersConfig){
		"label":    func(c *MembersConfig) { c.Label = "test" },
		"no label": func(c *MembersConfig) { c.Label = "" },
		"key":      func(c *MembersConfig) { c.Keys = [][]byte{bytes.Repeat([]byte{2}, 32)} },
		"no key":   func(c *MembersConfig) { c.Keys = nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newTestNet()
				a := n.start(t, addrA, incarnation("a"), key)
				b := n.start(t, addrB, incarnation("b"), key, joining(addrA))
				x := n.start(t, addrC, incarnation("x"), key, joining(addrA, addrB), other)
				pass(time.Minute)
				sees(t, a, "a", "b")
				sees(t, b, "a", "b")
				sees(t, x, "x")
			})
		})
	}
}

// TestKeyRotation: new keys are brought in on running nodes, and nobody is lost
// on the way. In the end the old key opens nothing.
func TestKeyRotation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		before, after := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 16)
		with := func(keys ...[]byte) func(*MembersConfig) { return func(c *MembersConfig) { c.Keys = keys } }
		a, b, c := three(t, n, with(before))
		pass(0)
		calls := a.calls
		for _, keys := range [][][]byte{{before, after}, {after, before}, {after}} {
			for _, m := range []*testMember{a, b, c} {
				if err := m.SetKeys(keys); err != nil {
					t.Fatal(err)
				}
				pass(5 * time.Second)
			}
		}
		if a.calls != calls {
			t.Errorf("the view changed %d times", a.calls-calls)
		}
		n.start(t, "10.0.0.4:7946", incarnation("old"), with(before), joining(addrA))
		n.start(t, "10.0.0.5:7946", incarnation("new"), with(after), joining(addrA))
		pass(20 * time.Second)
		sees(t, a, "a", "b", "c", "new")
		if len(a.keys.GetKeys()) != 1 {
			t.Error("the old key still opens what others send")
		}
		for _, bad := range [][][]byte{nil, {[]byte("short")}} {
			if err := a.SetKeys(bad); err == nil {
				t.Errorf("keys %q taken", bad)
			}
		}
	})
}

// TestChangedIsCoalesced: while a call of Changed is slow, membership goes on,
// and all that happened is told by one more call.
func TestChangedIsCoalesced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		release := make(chan struct{})
		var told []int
		a := n.start(t, addrA, incarnation("a"), func(c *MembersConfig) {
			c.Changed = func(v *View) {
				told = append(told, len(v.Members))
				if len(told) == 2 {
					<-release
				}
			}
		})
		var others []*testMember
		for i := range 6 {
			others = append(others, n.start(t, fmt.Sprintf("10.0.1.%d:7946", i+1), incarnation(fmt.Sprint("n", i)), joining(addrA)))
		}
		pass(5 * time.Second)
		for _, m := range others {
			if len(m.View().Members) != 7 {
				t.Errorf("%s sees %v while another is slow", m.cfg.Self.Node, nodesOf(m.View()))
			}
		}
		if len(a.list.Members()) != 7 {
			t.Error("the slow one's own list stands still")
		}
		close(release)
		pass(time.Second)
		if len(told) != 3 || told[0] != 1 || told[2] != 7 {
			t.Errorf("told of %v members", told)
		}
	})
}

// TestClocks: a node whose wall clock is wrong finds out, and so that it comes
// back; the others stay as they are.
func TestClocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		var ahead atomic.Int64
		a := n.start(t, addrA, incarnation("a"))
		b := n.start(t, addrB, incarnation("b"), joining(addrA))
		wrong := func(c *MembersConfig) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		}
		c := n.start(t, addrC, incarnation("c"), joining(addrA), wrong)
		pass(3 * time.Second)
		for _, m := range []*testMember{a, b, c} {
			if v := m.JudgeClock(false); v.Off || v.Compared != 3 || !v.Agreed || v.Offset.Abs() > testDelay/2 {
				t.Errorf("%s: all clocks are good: %+v", m.cfg.Self.Node, v)
			}
		}
		ahead.Store(int64(2 * time.Second))
		if v := c.JudgeClock(false); !v.Off || (v.Offset-2*time.Second).Abs() > testDelay/2 {
			t.Errorf("right after its clock has stepped: %+v", v)
		}
		pass(10 * time.Second)
		for _, r := range a.Clocks() {
			if want := map[string]time.Duration{"c": 2 * time.Second}[r.Member.Node]; (r.Offset-want).Abs() > testDelay/2 || r.RTT != 2*testDelay {
				t.Errorf("a reads the clock of %s as %v ahead, rtt %v", r.Member.Node, r.Offset, r.RTT)
			}
		}
		if va, vb, vc := a.JudgeClock(false), b.JudgeClock(false), c.JudgeClock(true); va.Off || vb.Off || !vc.Off {
			t.Errorf("off: a %t, b %t, c %t", va.Off, vb.Off, vc.Off)
		}
		ahead.Store(0)
		if v := c.JudgeClock(true); v.Off {
			t.Errorf("its clock is right again: %+v", v)
		}
	})
}

// TestClientsHaveNoVote: however many services beside the cluster have a wrong
// clock.
func TestClientsHaveNoVote(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		a, _, _ := three(t, n)
		for i := range 5 {
			self := incarnation(fmt.Sprint("x", i))
			self.Roles = Roles{ClientRole}
			n.start(t, fmt.Sprintf("10.0.1.%d:7946", i+1), self, joining(addrA), func(c *MembersConfig) {
				c.Now = func() time.Time { return time.Now().Add(time.Hour) }
			})
		}
		pass(10 * time.Second)
		if v := a.JudgeClock(false); v.Compared != 3 || v.Off || !v.Agreed {
			t.Errorf("%+v", v)
		}
	})
}

// TestForged: what cannot be used is counted, and changes nothing.
func TestForged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		a := n.start(t, addrA, incarnation("a"))
		b := n.start(t, addrB, incarnation("b"), joining(addrA))
		pass(5 * time.Second)
		node := b.list.LocalNode()
		d := &delegate{m: a.Members}
		before := a.Clocks()
		for _, payload := range [][]byte{nil, {1}, encodeClock(time.Now())[:8], append(encodeClock(time.Now()), 0), {2, 0, 0, 0, 0, 0, 0, 0, 1}, encodeClock(time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)), encodeClock(time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC))} {
			d.NotifyPingComplete(node, 0, payload)
		}
		d.NotifyPingComplete(node, -1, encodeClock(time.Now()))
		if got := testutil.ToFloat64(a.count.refused.WithLabelValues("clock")); got != 8 {
			t.Errorf("%v answers refused", got)
		}
		if after := a.Clocks(); !slices.EqualFunc(before, after, func(x, y Clock) bool { return x.Offset == y.Offset && x.RTT == y.RTT }) {
			t.Errorf("readings changed from %v to %v", before, after)
		}
		forged := *node
		forged.Name, forged.Meta = "evil/"+b.cfg.Self.Incarnation.String(), []byte(`{"s":`)
		d.NotifyJoin(&forged)
		forged.Name = "x"
		d.NotifyJoin(&forged)
		pass(time.Second)
		sees(t, a, "a", "b")
		if got := testutil.ToFloat64(a.count.refused.WithLabelValues("meta")); got != 2 {
			t.Errorf("%v members refused", got)
		}
	})
}

// TestSeenIsBounded: addresses that nobody answers at are tried less and less,
// forgotten after a day, and never too many.
func TestSeenIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newTestNet()
		a := n.start(t, addrA, incarnation("a"), func(c *MembersConfig) {
			c.Rejoin = 20 * time.Second
			c.tune = func(c *memberlist.Config) { c.ProbeInterval, c.GossipInterval = time.Hour, time.Hour } // a day takes long else
		})
		a.mu.Lock()
		a.saw(addrA) // an earlier incarnation of ours
		if len(a.seen) != 0 {
			t.Error("our own address is remembered")
		}
		for i := range 2 * maxSeen {
			a.saw(fmt.Sprintf("10.1.%d.%d:1", i/256, i%256))
			if i == 0 {
				a.seen["10.1.0.0:1"].last = time.Now().Add(time.Second) // not the oldest
			}
		}
		if a.seen["10.1.0.0:1"] == nil || len(a.seen) != maxSeen {
			t.Errorf("%d addresses, the newest: %v", len(a.seen), a.seen["10.1.0.0:1"])
		}
		a.mu.Unlock()
		pass(time.Hour)
		a.mu.Lock()
		late := a.seen["10.1.0.0:1"]
		if age := time.Since(late.tried); age > maxBetween+a.cfg.Rejoin*5/4 {
			t.Errorf("last tried %v ago", age)
		}
		a.seen = map[string]*sighting{"10.1.0.0:1": late} // hundreds take long
		a.mu.Unlock()
		pass(24 * time.Hour)
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.seen) != 0 {
			t.Errorf("%d addresses after a day", len(a.seen))
		}
	})
}

func TestWhenTried(t *testing.T) {
	for gone, between := range map[time.Duration]time.Duration{0: 0, 16 * time.Second: time.Second, 2 * time.Minute: 7500 * time.Millisecond, 23 * time.Hour: time.Minute} {
		now := time.Now()
		s := sighting{last: now.Add(-gone), tried: now.Add(-between)}
		if !s.due(now) {
			t.Errorf("gone for %v: not tried after %v", gone, between)
		}
		if s.tried = s.tried.Add(time.Millisecond); between > 0 && s.due(now) {
			t.Errorf("gone for %v: tried again within %v", gone, between)
		}
	}
}
