package chaos

import (
	"syscall"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestRollingRestart: under load each node in turn is asked to stop, and started
// again. Calls that outlast the lease by far run on to their end; partitions go
// to the others and come back. Nothing at all is delivered twice, and each node
// exits with 0.
//
// Case C95: a partition that leaves and comes back is loaded again, and no timer
// of the first time is left. Case C100: on a polite shutdown the beats go on
// until the last result is stored, so that no peer takes running work. Case C113:
// during a drain nothing new is taken and no result is thrown away.
//
// At last a node that has handed everything over and waits for a call is asked to
// stop again, and ends at once. What it is cut off from comes again.
//
// What a hand-over costs is promised of all of them: of those of each node that
// stops, and of those of what it gets back when it is there again.
func TestRollingRestart(t *testing.T) {
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	for _, n := range c.All {
		n.Extra = []string{"--drain-timeout", "60s"}
	}
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 60, time.Second, l.ledger.URL)
	l.add("long", 6, 5*time.Second, l.ledger.After(7*time.Second))
	l.seconds(6)
	for range envInt(t, "BELFRY_CHAOS_RESTARTS", 3) {
		n := c.All[len(l.history.Faults)%len(c.All)]
		l.anywhere()
		over := l.hit(Restarted, n)
		began := time.Now()
		l.drain(c, n)
		if err := n.Wait(slow(t, 70*time.Second)); err != nil {
			t.Fatalf("%s was asked to stop: %v\n%s", n.Name, err, lastLines(n.Log(), 60))
		}
		t.Logf("%s has stopped after %s", n.Name, time.Since(began).Round(time.Millisecond))
		c.Start(n)
		over()
		l.recovered(c)
	}
	l.seconds(2)
	n := c.All[0]
	over := l.hit(Restarted, n)
	l.drain(c, n)
	c.WaitTaken(n, slow(t, 5*time.Second))
	l.seconds(1) // so that each partition has delivered elsewhere
	over()
	if !n.Running() {
		t.Errorf("%s has stopped, though calls of 7 s run", n.Name)
	}
	over = l.hit(Killed, n)
	began := time.Now()
	_ = n.Signal(syscall.SIGTERM)       // it may have ended
	_ = n.Wait(slow(t, 10*time.Second)) // not with 0
	over()
	const interrupted = 130
	if took := time.Since(began); took > slow(t, time.Second) || n.ExitCode() != interrupted {
		t.Errorf("after the second signal %s ended with %d after %s", n.Name, n.ExitCode(), took)
	}
	l.recovered(c)
	l.seconds(2)
	l.finishOn(c)
	changes := l.history.Changes()
	t.Logf("late at a change of owner: %s", check.Spread(changes))
	within(t, "a change of owner", changes, 0.99, 300*time.Millisecond)
}

// drain asks a node to stop, and waits until it says that it is not ready.
func (l *load) drain(c *Nodes, n *Node) {
	l.t.Helper()
	n.planned = true
	if err := n.Signal(syscall.SIGTERM); err != nil {
		l.t.Fatal(err)
	}
	c.Await("the node is not ready", slow(l.t, 10*time.Second), func() (any, bool) { return "ready", !n.Ready() })
}
