package chaos

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestDrainTooShort: a node is asked to stop, and has less time than its calls
// take. It exits with 0 in its time; calls that have ended by then are recorded
// as what they were, and those that were cut are made again by the other node,
// also of jobs that may be tried once only. What is due during the drain is the
// other node's, on time. Case C113.
func TestDrainTooShort(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second
	c := NewNodes(t, cassandra.Start(t, 1), 2)
	for _, n := range c.All {
		n.Extra = []string{"--drain-timeout", limit.String()}
	}
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 40, time.Second, l.ledger.URL)
	l.add("short", 10, 2*time.Second, l.ledger.After(time.Second))
	l.add("long", 10, 10*time.Second, l.ledger.After(8*time.Second))
	l.await(func(r Receipt) bool { return r.Job == "long-009" })
	n := c.All[0]
	over := l.hit(Killed, n) // of the calls that it cuts
	began := time.Now()
	c.Terminate(n)
	over()
	if took := time.Since(began); took > slow(t, limit+2*time.Second) {
		t.Errorf("with a limit of %s the node has stopped after %s", limit, took)
	}
	l.recovered(c)
	l.seconds(2)
	l.finishOn(c)
	if l.history.Repeats() == 0 {
		t.Error("no call was cut")
	}
	for _, r := range l.history.Receipts {
		if r.Attempt > 1 && r.Job[:4] != "long" {
			t.Errorf("attempt %d of %s, whose call had the time to end", r.Attempt, r.Execution)
		}
	}
}

// await waits for a delivery.
func (l *load) await(is func(Receipt) bool) {
	l.t.Helper()
	for {
		l.flow(1)
		all, _ := l.ledger.Receipts()
		for _, r := range all {
			if is(r) {
				return
			}
		}
	}
}
