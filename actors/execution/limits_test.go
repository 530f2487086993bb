package execution

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// testLimits are limits for a worker with 512 slots.
func testLimits(hosts map[string]job.HostLimit) *limits {
	cfg := DefaultConfig().Limits
	cfg.Hosts.Hosts = hosts
	return newLimits(cfg, 512)
}

func (l *limits) host(name string) *host {
	return l.of(name, time.Now(), &pledges{offers: map[int64]*offer{}})
}

// call is one call that ends at once; false: it did not begin.
func (h *host) call(result *belfryv1.Result) bool {
	done, no := h.begin(time.Now())
	if no != nil {
		return false
	}
	h.running--
	done(counts(result))
	return true
}

// calls makes n calls, and says how many began.
func (h *host) calls(n int, result *belfryv1.Result) (begun int) {
	for range n {
		if h.call(result) {
			begun++
		}
	}
	return begun
}

var (
	answered200 = &belfryv1.Result{Outcome: succeededOutcome, StatusCode: 200}
	answered404 = &belfryv1.Result{Outcome: failedOutcome, StatusCode: 404}
	answered500 = &belfryv1.Result{Outcome: failedOutcome, StatusCode: 500, Unavailable: true}
	cancelled   = &belfryv1.Result{Outcome: unknownOutcome}
)

// TestC89OnlyAFailingHostOpensItsCircuit: client errors and our own
// cancellations say nothing about a host, and one host nothing about another.
func TestC89OnlyAFailingHostOpensItsCircuit(t *testing.T) {
	for name, c := range map[string]struct {
		calls []*belfryv1.Result
		begun int // of so many rounds
	}{
		"404":                      {[]*belfryv1.Result{answered404}, 20},
		"cancelled":                {[]*belfryv1.Result{cancelled}, 20},
		"500":                      {[]*belfryv1.Result{answered500}, 10},
		"400 and 500":              {[]*belfryv1.Result{answered404, answered500}, 10},
		"two jobs, one bad":        {[]*belfryv1.Result{answered200, answered500}, 10},
		"most calls succeed":       {[]*belfryv1.Result{answered200, answered200, answered500}, 20},
		"lost, and the host is up": {[]*belfryv1.Result{answered200, answered200, answered200, {Outcome: unknownOutcome, Unavailable: true}}, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := testLimits(nil)
			h := l.host("a.example")
			rounds := 0
			for range 20 {
				all := true
				for _, r := range c.calls {
					all = h.call(r) && all
				}
				if all {
					rounds++
				}
			}
			if rounds != c.begun {
				t.Errorf("%s: %d rounds of calls were let through, want %d", name, rounds, c.begun)
			}
			if !l.host("b.example").call(answered200) {
				t.Errorf("%s: another host is shut off", name)
			}
		})
	}
}

// TestFailuresLongAgoAreForgotten.
func TestFailuresLongAgoAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testLimits(nil).host("a")
		for range 5 {
			if h.calls(9, answered500) != 9 {
				t.Fatal("the circuit is open")
			}
			time.Sleep(window + time.Second)
		}
	})
}

// TestHalfOpenIsTriedByFew: a probe that fails opens the circuit again, one whose
// answer says nothing leaves it as it is, and three that succeed close it (C89).
func TestHalfOpenIsTriedByFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(nil)
		h := l.host("a")
		h.calls(20, answered500)
		since := time.Now()
		if _, no := h.begin(since); no == nil || no.why != circuitOpen || !no.since.Equal(since) || no.next.Sub(since) < 10*time.Second {
			t.Fatalf("refusal %+v", no)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if n := h.calls(5, answered404); n != 5 {
			t.Fatalf("%d neutral probes", n)
		}
		var done []func(error)
		for {
			d, no := h.begin(time.Now())
			if no != nil {
				break
			}
			done = append(done, d)
		}
		if len(done) != probes {
			t.Fatalf("%d probes at once", len(done))
		}
		done[0](errUnavailable)
		if h.running--; h.call(answered200) {
			t.Fatal("a failed probe did not open it")
		}
		done[1](nil) // of the time before
		done[2](nil)
		h.running -= 2
		time.Sleep(10*time.Second + time.Millisecond)
		if n := h.calls(probes, answered200); n != probes {
			t.Fatalf("%d probes", n)
		}
		states := ""
		for _, c := range l.changes {
			states += circuitStates[c.state] + " "
		}
		if states != "open half_open open half_open closed " {
			t.Errorf("it was %s", states)
		}
	})
}

// TestDrainAfterRecoveryIsPaced: ten calls in the first second, then twice as
// many each second, and after ten seconds any.
func TestDrainAfterRecoveryIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testLimits(nil).host("a")
		h.calls(20, answered500)
		time.Sleep(10*time.Second + time.Millisecond)
		h.calls(probes, answered200)
		closed := time.Now()
		var perSecond []int
		for s := range 5 {
			n := 0
			for time.Since(closed) < time.Duration(s+1)*time.Second {
				n += h.calls(1000, answered200)
				next, timed := h.next(time.Now())
				if !timed {
					t.Fatal("nothing says when to go on")
				}
				time.Sleep(max(time.Until(next), time.Millisecond))
			}
			perSecond = append(perSecond, n)
		}
		for s, n := range perSecond {
			if want := firstRate << s; n < want*9/10-1 || n > want*12/10+1 {
				t.Errorf("%d calls in second %d, want about %d", n, s, want)
			}
		}
		time.Sleep(recoverFor)
		if n := h.calls(5000, answered200); n != 5000 {
			t.Errorf("%d calls once it has recovered", n)
		}
	})
}

// TestHostThatAsksForAPause: 429 with Retry-After, for a minute at most.
func TestHostThatAsksForAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testLimits(nil).host("a")
		h.heed(time.Now(), &belfryv1.Result{StatusCode: 429, RetryAfterMs: 5000})
		if _, no := h.begin(time.Now()); no == nil || no.why != rate || time.Until(no.next) != 5*time.Second {
			t.Errorf("refusal %+v", no)
		}
		h.heed(time.Now(), &belfryv1.Result{StatusCode: 429, RetryAfterMs: 1000}) // does not shorten it
		time.Sleep(4999 * time.Millisecond)
		if h.call(answered200) {
			t.Error("a call in the pause")
		}
		time.Sleep(time.Millisecond)
		if !h.call(answered200) {
			t.Error("no call after it")
		}
		h.heed(time.Now(), &belfryv1.Result{StatusCode: 429, RetryAfterMs: time.Hour.Milliseconds()})
		if next, _ := h.next(time.Now()); time.Until(next) != longestPause {
			t.Errorf("paused until %s", time.Until(next))
		}
	})
}

// TestHostLimitsHold: whatever begins, ends and is promised, no more calls run
// than may, and no more begin than the rate allows.
func TestHostLimitsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := job.HostLimit{
			Concurrency: rapid.IntRange(1, 6).Draw(t, "concurrency"),
			Rate:        job.RateLimit{PerSecond: rapid.Float64Range(0.5, 50).Draw(t, "rate"), Burst: rapid.IntRange(1, 5).Draw(t, "burst")},
		}
		l := newLimits(LimitsConfig{Hosts: job.HostLimits{Default: limit}}, 512)
		now := time.Unix(1_700_000_000, 0)
		h := l.of("a", now, &pledges{offers: map[int64]*offer{}})
		var begun []time.Time
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if _, no := h.begin(now); no == nil {
					begun = append(begun, now)
				} else if no.why == rate && !no.next.After(now) {
					t.Fatalf("refused, and it may begin at %v", no.next)
				}
			case 1:
				h.running = max(h.running-1, 0)
			case 2:
				if n := h.room(now); n > 0 {
					h.promise(now, n)
					h.release(now, n)
				}
			default:
				now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
			}
			if h.running > limit.Concurrency {
				t.Fatalf("%d calls at once", h.running)
			}
		}
		for i := range begun {
			for k := i; k < len(begun); k++ {
				most := float64(limit.Rate.Burst) + begun[k].Sub(begun[i]).Seconds()*limit.Rate.PerSecond + 1e-6
				if float64(k-i+1) > most {
					t.Fatalf("%d calls in %v, and %v are allowed", k-i+1, begun[k].Sub(begun[i]), most)
				}
			}
		}
	})
}

// TestHostsAreForgotten: those of which nothing is to be remembered.
func TestHostsAreForgotten(t *testing.T) {
	l := testLimits(nil)
	busy := l.host("busy")
	busy.running = 1
	for range knownHosts + 5 {
		l.host(time.Duration(len(l.hosts)).String())
	}
	if l.hosts["busy"] != busy || len(l.hosts) > knownHosts {
		t.Errorf("%d hosts are known", len(l.hosts))
	}
}
