package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestDrainTooShort: a node is asked to stop while it makes twenty calls: some
// succeed and some fail within its time, and half of them take longer. It exits
// with 0 in its time. What has ended by then is recorded as what it was, and an
// attempt that was cut as unknown; whether another follows is up to the job, which
// the other node has by then. What is due during the drain is the other node's,
// on time, and nothing of it comes twice. Case C113.
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
	n := c.All[0]
	calls := newCalls(t, c, n)
	over := l.hit(Restarted, n)
	began := time.Now()
	c.Terminate(n)
	over()
	if took := time.Since(began); took > slow(t, limit+2*time.Second) {
		t.Errorf("with a limit of %s the node has stopped after %s", limit, took)
	}
	l.recovered(c)
	calls.check()
	l.finishOn(c)
	if n := l.history.Repeats(); n > 0 {
		t.Errorf("%d of the others' deliveries were repeated", n)
	}
}

// calls are executions that a node is in the middle of.
type calls struct {
	t      *testing.T
	c      *Nodes
	ledger *Ledger
	jobs   map[string]fate
}

// fate is what is to become of a call.
type fate struct {
	script   Script
	attempts int    // that the job allows
	status   string // in the end
	made     []int  // attempts, as the target sees them
	unknown  int    // of them, as the record has it
}

// fates are those of case C113: so many calls each.
var fates = []struct {
	name  string
	calls int
	fate
}{
	{"good", 5, fate{Script{After: time.Second}, 3, "succeeded", []int{1}, 0}},
	{"bad-once", 2, fate{Script{After: time.Second, Status: http.StatusInternalServerError}, 1, "failed", []int{1}, 0}},
	{"bad", 3, fate{Script{After: time.Second, Status: http.StatusInternalServerError}, 3, "failed", []int{1, 2, 3}, 0}},
	{"long-once", 5, fate{Script{After: time.Minute, UpTo: 1}, 1, "failed", []int{1}, 1}},
	{"long", 5, fate{Script{After: time.Minute, UpTo: 1}, 3, "succeeded", []int{1, 2}, 1}},
}

// newCalls begins them at a node that owns their jobs, and returns when all run.
func newCalls(t *testing.T, c *Nodes, n *Node) *calls {
	t.Helper()
	ledger, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	x := &calls{t: t, c: c, ledger: ledger, jobs: map[string]fate{}}
	owned := c.OwnedBy(n)
	var jobs []map[string]any
	for _, f := range fates {
		for i, left := 0, f.calls; left > 0; i++ {
			id := fmt.Sprintf("%s-%d", f.name, i)
			if !slices.Contains(owned, partitionOf(id)) {
				continue
			}
			left--
			x.jobs[id] = f.fate
			jobs = append(jobs, map[string]any{
				"job_id": id, "schedule_expr": "0 0 1 1 *", "target": ledger.At(f.script), "timeout": "2m",
				"retry": map[string]any{"max_attempts": f.attempts, "initial_backoff": "200ms"},
			})
		}
	}
	if good, bad, err := c.Import(jobs); err != nil || good != len(jobs) {
		t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, len(jobs), bad, err)
	}
	for id := range x.jobs {
		if err := n.Post("/v1/jobs/"+id+"/trigger", struct{}{}, http.StatusAccepted); err != nil {
			t.Fatal(err)
		}
	}
	if !ledger.WaitFor(len(jobs), slow(t, 10*time.Second)) {
		t.Fatalf("%d calls of %d run", ledger.Len(), len(jobs))
	}
	return x
}

// check wants each call's fate, once all are decided.
func (x *calls) check() {
	x.t.Helper()
	made := map[string][]int{}
	records := map[string]Record{}
	for id := range x.jobs {
		x.c.Await(id+" is decided", slow(x.t, 20*time.Second), func() (any, bool) {
			all, err := x.c.Executions(id)
			if err == nil && len(all) == 1 {
				records[id] = all[0]
			}
			return all, err == nil && len(all) == 1 && settled(all)
		})
	}
	receipts, _ := x.ledger.Receipts()
	for _, r := range receipts {
		made[r.Job] = append(made[r.Job], r.Attempt)
	}
	for id, want := range x.jobs {
		r := records[id]
		if r.Status != want.status || r.AttemptCount != len(want.made) || r.Unknown != want.unknown || !slices.Equal(made[id], want.made) {
			x.t.Errorf("%s: %s (%s) after %d attempts, %d of them unknown; the target has seen attempts %v, want %+v",
				id, r.Status, r.Reason, r.AttemptCount, r.Unknown, made[id], want)
		}
	}
}
