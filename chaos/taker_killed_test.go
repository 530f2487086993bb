package chaos

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestTakerKilled: a node dies, and as soon as another has taken a partition of it,
// and while it loads what that holds, it dies too. The third has everything within
// the recovery bound, and nothing is lost, early or under a second id: a load that
// was not finished leaves no trace.
//
// BELFRY_CHAOS_TAKERS sets how often (1).
func TestTakerKilled(t *testing.T) {
	t.Parallel()
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	c.StartAll()
	l := onNodes(t, c)
	var idle []map[string]any // to be loaded
	for i := range 5000 {
		idle = append(idle, map[string]any{"job_id": fmt.Sprint("idle-", i), "schedule_expr": "0 0 1 1 *", "target": l.ledger.URL})
	}
	if good, bad, err := c.Import(idle); err != nil || good != len(idle) {
		t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, len(idle), bad, err)
	}
	l.add("tick", 40, time.Second, l.ledger.URL)
	for range envInt(t, "BELFRY_CHAOS_TAKERS", 1) {
		l.seconds(2)
		l.anywhere()
		first := c.All[l.random.IntN(len(c.All))]
		before := len(c.Takeovers())
		over := l.hit(Killed, first)
		first.Kill()
		over()
		var taker *Node
		c.Await("a partition is taken", slow(t, RecoveryBound), func() (any, bool) {
			taken := c.Takeovers()[before:]
			if len(taken) > 0 {
				taker = c.All[slices.IndexFunc(c.All, func(n *Node) bool { return n.Name == taken[0].Node })]
			}
			return taken, len(taken) > 0
		})
		over = l.hit(Killed, taker)
		taker.Kill()
		over()
		c.WaitTaken(taker, slow(t, RecoveryBound))
		l.join(c, first)
		l.join(c, taker)
		l.recovered(c)
	}
	l.seconds(2)
	l.finishOn(c)
}
