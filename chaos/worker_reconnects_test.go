package chaos

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestWorkerReconnects: one worker serves three owners, and one of them is
// restarted every few seconds. The others go on, the worker finds the restarted
// one again by itself, and nothing that it has is put back and made again, also
// what it began for an owner that has gone.
//
// Case C107. BELFRY_CHAOS_RESTARTS sets how often (3).
func TestWorkerReconnects(t *testing.T) {
	t.Parallel()
	const every = 5 * time.Second
	c := NewNodes(t, cassandra.Start(t, 1), 0)
	owners := []*Node{c.Add("gateway,scheduler"), c.Add("gateway,scheduler"), c.Add("gateway,scheduler")}
	worker := c.Add("worker")
	c.Reached = func(n *Node) bool { return n != worker }
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 50, time.Second, l.ledger.URL)
	l.add("call", 10, time.Second, l.ledger.After(1500*time.Millisecond))
	l.seconds(2)
	again := time.NewTicker(every)
	defer again.Stop()
	for i := range envInt(t, "BELFRY_CHAOS_RESTARTS", 3) {
		over := l.hit(Restarted, owners[0])
		c.Terminate(owners[0])
		c.Start(owners[0])
		over()
		if i > 0 {
			<-again.C
		}
	}
	l.recovered(c)
	l.seconds(1)
	l.finishOn(c)
	if n := l.history.Repeats(); n > 0 {
		t.Errorf("%d deliveries were repeated", n)
	}
}
