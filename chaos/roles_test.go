package chaos

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestRoles: one process serves the API, two own partitions, others only make
// deliveries. When more is due than one worker can deliver, another one makes the
// backlog drain faster; when it is killed its executions go on elsewhere.
//
// Case C107: a worker that is connected to several owners goes on for the others
// while one of them restarts, and nothing that it has is put back and fired again.
func TestRoles(t *testing.T) {
	t.Parallel()
	const slots, call, rate = 8, 200 * time.Millisecond, 60 // a worker makes at most 40 deliveries a second
	c := NewNodes(t, cassandra.Start(t, 1), 0)
	gateway := c.Add("gateway")
	owners := []*Node{c.Add("scheduler"), c.Add("scheduler")}
	workers := []*Node{c.Add("worker", "--slots", "8"), c.Add("worker", "--slots", "8")}
	c.Reached = func(n *Node) bool { return n == gateway }
	c.Start(gateway, owners[0], owners[1], workers[0])
	c.WaitEven(time.Minute)
	l := onNodes(t, c)
	l.history.OnTime = 0 // it is a backlog
	l.add("tick", rate, time.Second, l.ledger.After(call))
	const most = slots * float64(time.Second) / float64(call)
	l.flow(rate)

	alone := l.measure(3 * rate)
	if alone > 1.1*most {
		t.Errorf("one worker of %d slots made %.0f calls of %s a second", slots, alone, call)
	}
	c.Start(workers[1])
	l.flow(rate)
	both := l.measure(3 * rate)
	t.Logf("one worker %.0f a second, two %.0f", alone, both)
	if both < 1.3*alone {
		t.Errorf("one worker made %.0f deliveries a second, and two made %.0f", alone, both)
	}

	over := l.hit(Restarted, owners[0])
	c.Terminate(owners[0])
	l.flow(rate)
	c.Start(owners[0])
	over()
	l.recovered(c)

	over = l.hit(Killed, workers[1])
	workers[1].Kill()
	over()
	l.flow(3 * rate)
	c.Start(workers[1])
	l.flow(rate)
	l.finishOn(c)
}

// measure is how many deliveries a second are made, over so many.
func (l *load) measure(n int) float64 {
	l.t.Helper()
	began := time.Now()
	l.flow(n)
	return float64(n) / time.Since(began).Seconds()
}
