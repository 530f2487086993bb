package chaos

import (
	"syscall"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestAllStop: all nodes are asked to stop at once, while calls of some seconds
// run. Nobody is left to take over, so each keeps what it owns until the last
// result is recorded: every node exits with 0, long before its time is over, and
// when they are started again nothing is sent a second time.
func TestAllStop(t *testing.T) {
	t.Parallel()
	c := NewNodes(t, cassandra.Start(t, 1), 2)
	for _, n := range c.All {
		n.Extra = []string{"--drain-timeout", "40s"}
	}
	c.StartAll()
	l := onNodes(t, c)
	l.add("long", 6, time.Second, l.ledger.After(3*time.Second))
	l.seconds(5)
	began := time.Now()
	var back []func()
	for _, n := range c.All {
		n.planned = true
		back = append(back, l.hit(Restarted, n))
		if err := n.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.All {
		if err := n.Wait(slow(t, 70*time.Second)); err != nil {
			t.Errorf("%s ended with %v\n%s", n.Name, err, lastLines(n.Log(), 20))
		}
		t.Logf("%s ended after %s", n.Name, time.Since(began).Round(time.Millisecond))
	}
	c.StartAll()
	for _, over := range back {
		over()
	}
	l.recovered(c)
	l.seconds(4)
	l.finishOn(c)
}
