package cql

import (
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
	"github.com/belfry-scheduler/belfry/persistence/storetest"
)

// TestNothingIsPreparedLate: once a store is open none of its calls waits for a
// server to prepare a statement.
func TestNothingIsPreparedLate(t *testing.T) {
	s, p := setup(t).proxied()
	var mu sync.Mutex
	late := 0
	p.Decide(func(r cqlproxy.Request) cqlproxy.Action {
		mu.Lock()
		defer mu.Unlock()
		if r.Op == frame.OpPrepare {
			late++
			t.Logf("prepared late: %v", r.Statements)
		}
		return cqlproxy.Pass()
	})
	if _, err := s.Cluster(t.Context(), storetest.Constants()); err != nil {
		t.Fatal(err)
	}
	c := newChain(t, s, 0)
	row := persistence.Row{Slice: 1, JobID: "j", Status: job.Active, State: []byte("state")}
	c.must("commit", c.commit(persistence.Batch{Rows: []persistence.Row{row}, History: []persistence.HistoryRow{line(1)}}))
	if _, err := c.settle(uuid.New()); err != nil {
		t.Error(err)
	}
	_, err := s.Get(t.Context(), 0, 1, "j", "")
	c.must("get", err)
	c.must("load", s.Load(t.Context(), 0, 0, 192, func(persistence.Row) error { return nil }))
	_, _, _, err = s.List(t.Context(), persistence.Position{}, 10)
	c.must("list", err)
	for _, before := range []*persistence.Cursor{nil, {ScheduledFor: line(2).ScheduledFor}} {
		_, err = s.Executions(t.Context(), 0, today, "j", before, 10)
		c.must("executions", err)
	}
	_, err = s.Attempts(t.Context(), 0, today, "j", line(1).ScheduledFor, line(1).ExecutionID)
	c.must("attempts", err)
	row.Delete = true
	c.must("commit", c.commit(persistence.Batch{Rows: []persistence.Row{row}}))
	c.must("release", s.Release(t.Context(), c.held, uuid.New()))
	eventually(t, "the history is copied", func() bool { idle, _ := s.outbox(0).idle(); return idle })
	mu.Lock()
	defer mu.Unlock()
	if late > 0 {
		t.Errorf("%d statements were prepared at their first use", late)
	}
}
