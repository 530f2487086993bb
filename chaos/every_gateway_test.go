package chaos

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestEveryGateway: jobs are changed and run by hand through all nodes in turn,
// while one joins, and one dies without notice and comes back. Whatever each node
// believes of who owns what: a change that was acknowledged by one is seen
// through all, and a trigger is one execution, however often and wherever it was
// repeated.
//
// Case C103: membership is no proof of ownership, and an address that is out of
// date is dropped when it refuses.
func TestEveryGateway(t *testing.T) {
	t.Parallel()
	c := NewNodes(t, cassandra.Start(t, 1), 3)
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 60, time.Second, l.ledger.URL)
	late := c.Add("")
	h := newHands(t, c, 4)
	l.seconds(1)
	l.join(c, late)
	l.recovered(c)
	n := c.All[l.random.IntN(3)]
	over := l.hit(Killed, n)
	n.Kill()
	over()
	c.WaitTaken(n, slow(t, RecoveryBound))
	l.join(c, n)
	l.recovered(c)
	h.rest()
	h.check()
	l.finishOn(c)
}

// hands are jobs that are due once a year, and are changed and triggered all the
// time, each by one hand.
type hands struct {
	t      *testing.T
	c      *Nodes
	ledger *Ledger
	nodes  []*Process
	all    []*hand
	stop   chan struct{}
	work   sync.WaitGroup
}

// hand is what one of them did, and was told.
type hand struct {
	job       string
	changes   int             // acknowledged; the last one is the description
	revision  int64           // of the last one
	triggered map[string]bool // ids that were acknowledged
	err       error
}

func newHands(t *testing.T, c *Nodes, count int) *hands {
	t.Helper()
	ledger, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	h := &hands{t: t, c: c, ledger: ledger, stop: make(chan struct{})}
	for _, n := range c.All {
		h.nodes = append(h.nodes, &Process{Listen: n.Listen})
	}
	var jobs []map[string]any
	for i := range count {
		one := &hand{job: fmt.Sprintf("hand-%d", i), triggered: map[string]bool{}}
		h.all = append(h.all, one)
		jobs = append(jobs, map[string]any{"job_id": one.job, "schedule_expr": "0 0 1 1 *", "target": ledger.URL})
	}
	if good, bad, err := c.Import(jobs); err != nil || good != count {
		t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, count, bad, err)
	}
	for i, one := range h.all {
		h.work.Go(func() { h.use(one, i) })
	}
	return h
}

// use changes and triggers a job again and again.
func (h *hands) use(one *hand, first int) {
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for at := first; ; at++ {
		var job struct {
			Revision int64 `json:"revision"`
		}
		one.err = h.through(at, func(p *Process) error {
			return p.send(http.MethodPatch, "/v1/jobs/"+one.job, "", map[string]any{"description": fmt.Sprint(one.changes + 1)}, http.StatusOK, &job)
		})
		if one.err == nil && job.Revision <= one.revision {
			one.err = fmt.Errorf("change %d of %s is revision %d, and the one before was %d", one.changes+1, one.job, job.Revision, one.revision)
		}
		if one.err != nil {
			return
		}
		one.changes, one.revision = one.changes+1, job.Revision
		key := rand.Text()
		var run struct {
			ID string `json:"execution_id"`
		}
		one.err = h.through(at, func(p *Process) error {
			return p.send(http.MethodPost, "/v1/jobs/"+one.job+"/trigger", key, struct{}{}, http.StatusAccepted, &run)
		})
		if one.err != nil {
			return
		}
		one.triggered[run.ID] = true
		select {
		case <-pause.C:
		case <-h.stop:
			return
		}
	}
}

// through has one node do something, and when it is gone or cannot do it now the
// next ones.
func (h *hands) through(first int, do func(*Process) error) (err error) {
	for at, end := first, time.Now().Add(anyWithin); time.Now().Before(end); at++ {
		if err = do(h.nodes[at%len(h.nodes)]); err == nil || !passes(err) {
			return err
		}
		if at%len(h.nodes) == 0 {
			<-time.After(20 * time.Millisecond)
		}
	}
	return err
}

// rest ends the work.
func (h *hands) rest() {
	close(h.stop)
	h.work.Wait()
}

// check compares what was acknowledged with what every node shows, and with what
// was delivered.
func (h *hands) check() {
	h.t.Helper()
	want := map[string]bool{}
	for _, one := range h.all {
		if one.err != nil {
			h.t.Errorf("%s: %v", one.job, one.err)
			continue
		}
		h.t.Logf("%s: %d changes and triggers", one.job, one.changes)
		maps.Copy(want, one.triggered)
		h.checkOne(one)
	}
	receipts, _ := h.ledger.Receipts()
	got := map[string]bool{}
	for _, r := range receipts {
		got[r.Execution] = true
		if r.Key != r.Execution {
			h.t.Errorf("%s came under the key %s", r.Execution, r.Key)
		}
	}
	if !maps.Equal(got, want) {
		h.t.Errorf("%d executions were triggered, and %d came", len(want), len(got))
	}
}

// checkOne compares what the nodes say of one job, once nothing of it runs.
func (h *hands) checkOne(one *hand) {
	h.t.Helper()
	for _, n := range h.nodes {
		var job struct {
			Description string `json:"description"`
			Revision    int64  `json:"revision"`
		}
		if _, err := n.get("/v1/jobs/"+one.job, &job); err != nil || job.Description != fmt.Sprint(one.changes) || job.Revision != one.revision {
			h.t.Errorf("%s at %s: %+v, %v; change %d was acknowledged, revision %d", one.job, n.Listen, job, err, one.changes, one.revision)
		}
		var records []Record
		h.c.Await("all that was triggered is decided", slow(h.t, RecoveryBound), func() (any, bool) {
			var err error
			records, err = n.Executions(one.job)
			return err, err == nil && settled(records)
		})
		ids := map[string]bool{}
		for _, r := range records {
			ids[r.ExecutionID] = true
			if r.Status != "succeeded" {
				h.t.Errorf("%s ended as %s: %s", r.ExecutionID, r.Status, r.Reason)
			}
		}
		if len(records) != len(ids) || !maps.Equal(ids, one.triggered) {
			h.t.Errorf("%s at %s: %d records, %v of them not acknowledged", one.job, n.Listen, len(records), difference(ids, one.triggered))
		}
	}
}

func difference(a, b map[string]bool) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(a)), func(k string) bool { return b[k] })
}
