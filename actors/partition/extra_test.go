package partition

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// inFirstAttempt counts what is extra and has not been tried to the end.
func (w *world) inFirstAttempt() int {
	n := 0
	for _, f := range w.state.running {
		if f.extra() && f.attempt == 1 {
			n++
		}
	}
	return n
}

// TestALongOutageDoesNotFlood: however many jobs have slots to catch up, only a
// few of those are on their way at once, the jobs take turns, and a live slot
// goes to the workers before all of them.
func TestALongOutageDoesNotFlood(t *testing.T) {
	w := newWorld(t)
	w.unchecked = true
	ids := w.inPartition(100)
	for _, id := range ids {
		w.register(id, "* * * * *", func(s *job.Spec) { s.CatchUp.Policy = job.CatchUpAll })
	}
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result { return nil } // every call hangs
	w.crash()
	w.now = w.now.Add(2 * time.Hour)
	w.boot()
	if n := w.inFirstAttempt(); n != w.state.cfg.Extra || len(w.deliveries) != n {
		t.Fatalf("%d of a catch-up are on their way, and %d were sent; the pace is %d", n, len(w.deliveries), w.state.cfg.Extra)
	}
	jobs := map[string]int{}
	for _, d := range w.deliveries {
		ref, _ := job.ParseExecutionID(d.id)
		jobs[ref.JobID]++
	}
	if len(jobs) != w.state.cfg.Extra {
		t.Errorf("%d jobs have their turn", len(jobs))
	}
	w.deliveries = nil
	w.advance(time.Minute)
	onTime := 0
	for _, d := range w.deliveries {
		if d.at.Equal(d.slot) {
			onTime++
		}
	}
	if onTime != len(ids) {
		t.Fatalf("%d live slots were sent at their instant, of %d", onTime, len(ids))
	}
	w.check(Tick{})
}

// TestWhatIsExtraGoesLast: with no slot at the workers, live executions are the
// first to get one.
func TestWhatIsExtraGoesLast(t *testing.T) {
	w := newWorld(t)
	ids := w.inPartition(2)
	w.register(ids[0], "@hourly")
	w.register(ids[1], "* * * * *")
	sends := []Send{}
	w.sends = &sends // nobody begins anything
	w.step(Workers{List: []Worker{{ID: w.worker, Draining: true}}})
	w.ask(&belfryv1.Command{JobId: ids[0], Action: &belfryv1.Command_Backfill{Backfill: &belfryv1.AskBackfill{
		From: w.now.Add(-time.Hour * 10).UnixMilli(), To: w.now.UnixMilli(), Concurrency: 10,
	}}})
	w.advance(time.Minute)
	w.step(Workers{List: []Worker{{ID: w.worker}}})
	var order []string
	for _, s := range sends {
		for _, d := range s.Dispatch.GetDeliveries() {
			order = append(order, d.GetJobId())
		}
	}
	if len(order) != 11 || order[0] != ids[1] {
		t.Errorf("sent in the order %v", order)
	}
}

// TestARetryKeepsNoOtherFromRunning: what waits for its next attempt does not
// count for the pace.
func TestARetryKeepsNoOtherFromRunning(t *testing.T) {
	w := newWorld(t)
	w.cfg.Extra = 2
	w.crash()
	w.boot()
	ids := w.inPartition(2)
	w.fate.outcome = func(x *belfryv1.Delivery) *belfryv1.Result {
		if x.GetJobId() == ids[0] {
			return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Error: "down"}
		}
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED}
	}
	for _, id := range ids {
		w.register(id, "@hourly", func(s *job.Spec) { s.Retry.InitialBackoff = time.Hour; s.Retry.MaxBackoff = time.Hour })
		w.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Backfill{Backfill: &belfryv1.AskBackfill{
			From: w.now.Add(-time.Hour * 10).UnixMilli(), To: w.now.UnixMilli(), Concurrency: 10,
		}}})
	}
	if b := w.state.jobs[ids[1]].past.backfills[0]; b.GetSucceeded() != 10 {
		t.Errorf("behind a job whose target is down: %v", b)
	}
	if n := len(w.state.jobs[ids[0]].flights()); n != 10 {
		t.Errorf("%d executions wait for their next attempt", n)
	}
}

// TestAHangingTargetKeepsNoOtherFromRunning: an execution counts for the pace for
// a while only.
func TestAHangingTargetKeepsNoOtherFromRunning(t *testing.T) {
	w := newWorld(t)
	w.cfg.Extra = 2
	w.crash()
	w.boot()
	ids := w.inPartition(2)
	w.fate.outcome = func(x *belfryv1.Delivery) *belfryv1.Result {
		if x.GetJobId() == ids[0] {
			return nil
		}
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED}
	}
	for _, id := range ids {
		w.register(id, "@hourly", func(s *job.Spec) { s.Timeout = time.Hour })
		w.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Backfill{Backfill: &belfryv1.AskBackfill{
			From: w.now.Add(-time.Hour * 10).UnixMilli(), To: w.now.UnixMilli(), Concurrency: 10,
		}}})
	}
	if b := w.state.jobs[ids[1]].past.backfills[0]; b.GetSucceeded() > 1 {
		t.Errorf("more are on their way than the pace allows: %v", b)
	}
	w.advance(2 * time.Minute)
	if b := w.state.jobs[ids[1]].past.backfills[0]; b.GetSucceeded() != 10 {
		t.Errorf("behind a job whose target hangs: %v", b)
	}
}
