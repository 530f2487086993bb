package partition

import (
	"slices"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestTwoLateSuccesses: both attempts of a dead letter report success at once.
// It is turned once: one more success, one failure less. The other result is
// dropped, and acknowledged when it comes again.
func TestTwoLateSuccesses(t *testing.T) {
	w := newWorld(t)
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 500}
	}
	w.register("a", "2026-01-01T00:01:00Z", func(s *job.Spec) { s.Retry.MaxAttempts = 2 })
	w.advance(5 * time.Minute)
	id := w.dead("a")[0]
	for attempt := range int32(2) {
		w.held = append(w.held, &belfryv1.Result{ExecutionId: id, JobId: "a", Attempt: attempt + 1, Epoch: w.state.life, Outcome: belfryv1.Result_OUTCOME_SUCCEEDED})
	}
	for _, want := range []int{1, 0} {
		w.step(Reported{w.worker, slices.Clone(w.held)})
		if n := len(w.held); n != want {
			t.Errorf("%d results are not acknowledged, want %d", n, want)
		}
		if c := w.state.jobs["a"].past.counters; c.succeeded != 1 || c.failed != 0 || len(w.dead("a")) != 0 {
			t.Errorf("%+v, dead letters %v", c, w.dead("a"))
		}
	}
	if n := len(w.state.late); n != 0 {
		t.Errorf("%d successes are still on their way", n)
	}
}
