package partition

import (
	"testing"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestOldDeadLettersAreSwept: within a day after the retention, in pages of at
// most so many a second, also when the store could not be read at first, across
// a change of owner, and though their jobs are gone. Younger ones stay.
func TestOldDeadLettersAreSwept(t *testing.T) {
	w := newWorld(t)
	w.unchecked = true
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 400, Final: true}
	}
	ids := w.inPartition(121)
	for _, id := range ids[:120] {
		w.register(id, "2026-01-01T00:00:10Z")
	}
	w.register(ids[120], "2026-01-20T00:00:00Z")
	w.advance(w.cfg.Retention - time.Hour)
	w.crash()
	w.boot()
	w.unreadable = 2
	if n := w.rowsOf("dead/"); n != 121 {
		t.Fatalf("%d dead letters before the retention", n)
	}
	most, last := 0, w.rowsOf("dead/")
	for end := w.now.Add(25 * time.Hour); w.now.Before(end); {
		at, ok := w.state.Wake()
		if !ok || at.After(end) {
			break
		}
		w.advance(max(at.Sub(w.now).Truncate(time.Second), time.Second))
		most, last = max(most, last-w.rowsOf("dead/")), w.rowsOf("dead/")
	}
	if last != 1 || len(w.dead(ids[120])) != 1 {
		t.Errorf("%d dead letters are left, of %s %d", last, ids[120], len(w.dead(ids[120])))
	}
	if most == 0 || most > 2*w.cfg.SweepPerSec { // a second of ours may touch two of the clock's
		t.Errorf("up to %d rows were swept in a second", most)
	}
	if n := w.rowsOf(""); n != 1 {
		t.Errorf("%d jobs are left", n)
	}
	w.advance(w.cfg.Retention)
	if n := w.rowsOf("dead/"); n != 0 {
		t.Errorf("%d dead letters are left in the end", n)
	}
}
