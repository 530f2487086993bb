package chaos

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestNodePaused: a node is stopped where it stands for twice the lease, and
// goes on. The others have its partitions by then; what it still wants to send
// or write as their owner does no harm, and it comes back by itself. A pause of
// half a second moves nothing. Of one of 1.5 to 2.75 s gossip may have told the
// others, and they may have taken what the node had, although its lease is not over
// when it goes on: it must not act on that.
func TestNodePaused(t *testing.T) {
	t.Parallel()
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 60, time.Second, l.ledger.URL)
	l.seconds(2)
	times := envInt(t, "BELFRY_CHAOS_PAUSES", 3)
	for range times {
		before := len(c.Takeovers())
		n := c.All[l.random.IntN(len(c.All))]
		l.stop(c, n, 500*time.Millisecond)
		l.seconds(1)
		if now := c.Takeovers(); len(now) != before {
			t.Errorf("%s was paused for 0.5 s, and partitions moved: %v", n.Name, now[before:])
		}
	}
	for range times {
		within := 1500*time.Millisecond + time.Duration(l.random.IntN(1250))*time.Millisecond
		for _, d := range []time.Duration{within, 2 * TTL} {
			l.stop(c, c.All[l.random.IntN(len(c.All))], d)
			l.recovered(c)
		}
	}
	l.seconds(2)
	l.finishOn(c)
	moves := l.history.Moves(Paused)
	t.Logf("until another owner's first delivery: %s", check.Spread(moves))
	within(t, "failover of a paused node", moves, 1, TTL+2*time.Second)
}

// stop pauses a node anywhere in a second of work for so long. When that is
// longer than its lease, nothing is its any more by then.
func (l *load) stop(c *Nodes, n *Node, d time.Duration) {
	l.t.Helper()
	l.anywhere()
	over := l.hit(Paused, n)
	goOn := time.After(d)
	c.Pause(n)
	c.Reached = func(other *Node) bool { return other != n }
	if d > TTL {
		c.WaitTaken(n, slow(l.t, RecoveryBound))
	}
	<-goOn
	c.Resume(n)
	c.Reached = nil
	over()
}
