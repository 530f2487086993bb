package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestNodeKilled: 100 executions a second on three nodes, and any of them is
// killed in the middle, again and again. Every partition of the dead node goes
// on elsewhere within the recovery bound; nothing is lost, early, or under a
// second id; what comes twice was in flight at a kill.
//
// Case C94: jobs that are all due at one instant have their owner killed a second
// before it, at it, and a second after. Each slot of a change of owner is fired,
// from the last one that was handled and not from "now". Case C103: membership is
// no proof of ownership: a node that dies without notice, and comes back while
// others act for it, makes no second delivery under its own epoch.
//
// BELFRY_CHAOS_KILLS sets how often (5).
func TestNodeKilled(t *testing.T) {
	t.Parallel()
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 100, time.Second, l.ledger.URL)
	slots := l.together("slot", 50, 4*time.Second, l.ledger.URL)
	l.seconds(2)
	for i := range envInt(t, "BELFRY_CHAOS_KILLS", 5) {
		if offsets := []time.Duration{-time.Second, 0, time.Second}; i%5 < len(offsets) {
			slots.wait(offsets[i%5])
		} else {
			l.anywhere()
		}
		n := c.All[l.random.IntN(len(c.All))]
		over := l.hit(Killed, n)
		n.Kill()
		over()
		c.WaitTaken(n, slow(t, RecoveryBound))
		l.join(c, n)
		l.recovered(c)
	}
	l.seconds(2)
	l.finishOn(c)
	times := l.history.Moves(Killed)
	t.Logf("failover of partitions with something due: %s", check.Spread(times))
	if len(times) == 0 {
		t.Error("no partition with something due has moved")
	}
	within(t, "failover", times, 0.5, 8*TTL/10)
	within(t, "failover", times, 0.99, TTL)
	within(t, "failover", times, 1, TTL*3/2)
}

// enough times make a percentile of them mean something.
const enough = 100

// within wants a share of some times to be at most so long, where there are
// enough of them for that to mean something; 1: all.
func within(t *testing.T, what string, times []time.Duration, share float64, most time.Duration) {
	t.Helper()
	if len(times) < enough && share < 1 {
		return
	}
	if is := check.Percentile(times, share); is > slow(t, most) {
		t.Errorf("%s: %.4g %% took at most %s, and %s is promised", what, 100*share, is, most)
	}
}

// TestNodeBack: a node that is killed and started again under its name, within 2 s
// or when the others have forgotten it, at the same address or at another, is
// simply back. Case C105.
//
// BELFRY_CHAOS_GAP_SECONDS is how long one is away (5); members remember the dead
// for 30 s.
func TestNodeBack(t *testing.T) {
	t.Parallel()
	gap := time.Duration(envInt(t, "BELFRY_CHAOS_GAP_SECONDS", 5)) * time.Second
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 50, time.Second, l.ledger.URL)
	l.seconds(2)
	for i, n := range c.All {
		l.anywhere()
		over := l.hit(Killed, n)
		n.Kill()
		if i > 0 {
			c.Readdress(n)
		}
		over()
		l.join(c, n)
		l.recovered(c)
		c.sees(n)
	}
	n := c.All[0]
	over := l.hit(Killed, n)
	n.Kill()
	over()
	<-time.After(gap)
	c.Readdress(n)
	l.join(c, n)
	l.recovered(c)
	c.sees(n)
	l.seconds(1)
	l.finishOn(c)
}

// sees wants every node to know another at the address that it has.
func (c *Nodes) sees(n *Node) {
	c.T.Helper()
	for _, other := range c.All {
		members, err := other.Members()
		if err != nil {
			c.T.Fatal(err)
		}
		at := slices.IndexFunc(members, func(m Member) bool { return m.Node == n.Name })
		if at < 0 || len(members) != len(c.All) || !strings.HasPrefix(members[at].Address, n.Host+":") {
			c.T.Errorf("%s sees %v, and not %s at %s", other.Name, members, n.Name, n.Host)
		}
	}
}
