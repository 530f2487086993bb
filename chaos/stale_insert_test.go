package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestStaleInsert: jobs are registered at the node that owns their partitions, just
// as it is stopped where it stands. When others own these, the same ids are
// registered there, with another schedule. The former owner goes on with what it
// was in the middle of: nobody gets 201 for a job that is not there, and no id has
// two. What is stored runs as whoever got the 201 has asked for.
//
// BELFRY_CHAOS_PAUSES sets how often (2).
func TestStaleInsert(t *testing.T) {
	t.Parallel()
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 30, time.Second, l.ledger.URL)
	l.seconds(2)
	for round := range envInt(t, "BELFRY_CHAOS_PAUSES", 2) {
		n := c.All[l.random.IntN(len(c.All))]
		late := newLateInserts(l, c, n, fmt.Sprint("late-", round))
		l.anywhere()
		over := l.hit(Paused, n)
		late.send(0, 1) // some of these are stored before the stop
		c.Pause(n)
		goOn := time.After(2 * TTL)
		late.send(1, 2) // these wait in its sockets
		c.Reached = func(other *Node) bool { return other != n }
		c.WaitTaken(n, slow(t, RecoveryBound))
		late.instead()
		<-goOn
		c.Resume(n)
		c.Reached = nil
		over()
		late.answered()
		l.recovered(c)
	}
	l.seconds(2)
	l.finishOn(c)
}

// lateInserts are registrations at a node that is stopped, and those of the same
// ids at others.
type lateInserts struct {
	l    *load
	c    *Nodes
	node *Process
	work sync.WaitGroup
	ids  []string
	ops  [2][]check.Op // at the node, and at another
}

func newLateInserts(l *load, c *Nodes, n *Node, name string) *lateInserts {
	x := &lateInserts{l: l, c: c, node: &Process{Listen: n.Listen}}
	const count = 12
	owned := c.OwnedBy(n)
	for i := 0; len(x.ids) < count; i++ {
		if id := fmt.Sprint(name, "-", i); slices.Contains(owned, partitionOf(id)) {
			x.ids = append(x.ids, id)
		}
	}
	x.ops = [2][]check.Op{make([]check.Op, count), make([]check.Op, count)}
	return x
}

// send registers one half of the ids, or the other, at the node, and does not wait.
func (x *lateInserts) send(half, to int) {
	for i := half * len(x.ids) / 2; i < to*len(x.ids)/2; i++ {
		x.work.Go(func() {
			x.ops[0][i] = x.register(x.ids[i], 0, func(do func(*Process) error) error { return do(x.node) })
		})
	}
}

// instead registers all ids at others.
func (x *lateInserts) instead() {
	for i, id := range x.ids {
		x.ops[1][i] = x.register(id, 500*time.Millisecond, x.another)
	}
}

// another has a node that is not stopped do something once.
func (x *lateInserts) another(do func(*Process) error) error {
	for _, n := range x.c.All {
		if x.c.Reached(n) {
			return do(&n.Process)
		}
	}
	return errors.New("every node is stopped")
}

func (x *lateInserts) register(id string, phase time.Duration, at func(func(*Process) error) error) check.Op {
	first := time.Now().Add(2 * time.Second).Truncate(time.Second).Add(phase).UTC()
	op := check.Op{Verb: check.Register, Call: time.Now(), Schedule: check.Interval{First: first, Every: time.Second}}
	err := at(func(p *Process) error {
		return p.send(http.MethodPost, "/v1/jobs", "", map[string]any{
			"job_id": id, "schedule_expr": "@every 1s", "starts_at": first.Format(time.RFC3339Nano), "target": x.l.ledger.URL,
		}, http.StatusCreated, nil)
	})
	op.Return = time.Now()
	refused := (*Refused)(nil)
	switch {
	case errors.As(err, &refused) && refused.Code < http.StatusInternalServerError:
		op.Outcome = check.Rejected
	case err != nil:
		op.Outcome = check.Unknown
	}
	return op
}

// answered waits for the answers of the node, compares them with the others', and
// adds the jobs with what is known of them.
func (x *lateInserts) answered() {
	x.l.t.Helper()
	x.work.Wait()
	told := map[check.Outcome]int{}
	for i, id := range x.ids {
		late, other := x.ops[0][i], x.ops[1][i]
		told[late.Outcome]++
		ops := []check.Op{late, other}
		switch {
		case late.Outcome == check.Accepted && other.Outcome == check.Accepted:
			x.l.t.Errorf("%s was created twice: at %s and at %s", id, late.Return, other.Return)
		case late.Outcome == check.Rejected && other.Outcome == check.Rejected:
			x.l.t.Errorf("%s was refused twice", id)
		case other.Outcome == check.Rejected: // it was there, whatever became of the answer
			late.Outcome, late.Return = check.Accepted, other.Return
			ops = []check.Op{late}
		case late.Outcome == check.Rejected || other.Outcome == check.Accepted:
			ops = []check.Op{other}
		}
		x.l.history.Jobs = append(x.l.history.Jobs, check.Job{ID: id, Ops: ops})
	}
	x.l.t.Logf("of %d registrations at the node that was stopped %d were acknowledged, %d refused, %d had no answer", len(x.ids), told[check.Accepted], told[check.Rejected], told[check.Unknown])
	if told[check.Accepted] == len(x.ids) {
		x.l.t.Error("every registration was stored before the stop")
	}
}
