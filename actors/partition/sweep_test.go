package partition

import (
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// rowsOf counts the stored rows whose item has a prefix; "" is the jobs' own.
func (w *world) rowsOf(item string) int {
	n := 0
	for k := range w.store.rows {
		if item == "" && k[1] == "" || item != "" && strings.HasPrefix(k[1], item) {
			n++
		}
	}
	return n
}

// TestFinishedJobsAreSwept: after the retention, at most so many a second, and
// never those whose execution is not over.
func TestFinishedJobsAreSwept(t *testing.T) {
	w := newWorld(t)
	ids := w.inPartition(201)
	for _, id := range ids[:200] {
		w.register(id, "2026-01-01T00:00:10Z")
	}
	w.fate.outcome = func(x *belfryv1.Delivery) *belfryv1.Result {
		if x.GetJobId() == ids[200] {
			return nil
		}
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED}
	}
	w.register(ids[200], "2026-01-01T00:00:10Z")
	w.advance(time.Minute)
	w.ask(&belfryv1.Command{JobId: ids[200], Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}})
	w.crash() // the running call is lost, and is not tried again
	w.boot()
	if n := w.rowsOf(""); n != 201 {
		t.Fatalf("%d rows before the retention", n)
	}
	w.advance(w.cfg.Retention - 51*time.Second)
	if n := w.rowsOf(""); n < 200 {
		t.Fatalf("%d rows are left just before the retention ends", n)
	}
	most, last := 0, w.rowsOf("")
	for range 30 {
		w.advance(time.Second)
		most, last = max(most, last-w.rowsOf("")), w.rowsOf("")
	}
	if most == 0 || most > w.cfg.SweepPerSec+w.cfg.SweepPerSec { // a second of ours may touch two of the clock's
		t.Errorf("up to %d rows were swept in a second", most)
	}
	w.advance(2 * time.Minute)
	if n := len(w.state.jobs); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

// TestCommandsAreForgotten: a keyed command is recognised for a day, also after
// a restart, and then its row goes.
func TestCommandsAreForgotten(t *testing.T) {
	w := newWorld(t)
	trigger := func() *belfryv1.Answer {
		return w.ask(&belfryv1.Command{Id: "k", Keyed: true, JobId: "a", Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
	}
	w.register("a", "0 0 1 1 *")
	first := trigger().GetExecution().GetExecutionId()
	w.advance(23 * time.Hour)
	w.crash()
	w.boot()
	if again := trigger().GetExecution().GetExecutionId(); again != first || again == "" {
		t.Errorf("after a restart: %q, not %q", again, first)
	}
	if n := w.rowsOf("cmd/"); n != 1 {
		t.Errorf("%d remembered commands", n)
	}
	w.advance(time.Hour + time.Second)
	if n := w.rowsOf("cmd/"); n != 0 {
		t.Errorf("%d remembered commands after a day", n)
	}
	if other := trigger().GetExecution().GetExecutionId(); other == first || other == "" {
		t.Errorf("after a day: %q", other)
	}
}

// TestHistoryExpires: days past the retention are dropped, and the job's list of
// days with them.
func TestHistoryExpires(t *testing.T) {
	w := newWorld(t)
	w.cfg.Retention = 7 * 24 * time.Hour
	w.crash()
	w.boot()
	w.register("a", "0 * * * *")
	w.advance(30 * 24 * time.Hour)
	oldest := w.now.Add(-8 * 24 * time.Hour).UnixMilli()
	for _, h := range w.store.history {
		if h.ScheduledFor < oldest {
			t.Fatalf("a row of %s is left", job.Instant(h.ScheduledFor))
		}
	}
	if n := len(w.store.history); n < 7*24-1 {
		t.Errorf("only %d rows are left", n)
	}
	if n := len(w.state.jobs["a"].past.days); n > 9 {
		t.Errorf("the job lists %d days", n)
	}
}

// TestDeadLettersStay: they outlive their job's row.
func TestDeadLettersStay(t *testing.T) {
	w := newWorld(t)
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 404, Final: true}
	}
	w.register("a", "2026-01-01T00:00:10Z")
	w.advance(w.cfg.Retention + time.Minute)
	if w.rowsOf("") != 0 || w.rowsOf("dead/") != 1 {
		t.Errorf("%d jobs, %d dead letters", w.rowsOf(""), w.rowsOf("dead/"))
	}
	for k, r := range w.store.rows {
		if k[1] != "" && (r.Slice < job.DeadSliceOffset || r.Slice >= job.SideSliceOffset) {
			t.Errorf("the dead letter is in slice %d", r.Slice)
		}
	}
}
