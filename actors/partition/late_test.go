package partition

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

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

// TestLateCompletions: the worker of an expired lease says twice at once that it
// succeeded, and the dead letter cannot be read at first. It has to ask again, and
// is taken once.
func TestLateCompletions(t *testing.T) {
	w := newWorld(t)
	w.register("q35", "0 0 1 1 *", func(s *job.Spec) { s.Target, s.Retry.MaxAttempts = job.Target{Queue: &job.QueueTarget{Name: "q"}}, 1 })
	w.ask(&belfryv1.Command{JobId: "q35", Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
	g := w.claim(&belfryv1.Claim{Queue: "q", Worker: "w", Max: 1, LeaseMs: 10_000}).GetAnswers()[0].GetGrant()
	w.advance(10 * time.Second)
	w.unreadable = 1
	complete := func(id string) *belfryv1.Command {
		return &belfryv1.Command{Id: id, JobId: "q35", Action: &belfryv1.Command_Complete{
			Complete: &belfryv1.Complete{ExecutionId: g.GetExecutionId(), Lease: g.GetLease(), Succeeded: true, Output: "done"},
		}}
	}
	for _, want := range [][2]belfryv1.Refusal_Code{ // of the two answers
		{belfryv1.Refusal_CODE_UNAVAILABLE, belfryv1.Refusal_CODE_UNAVAILABLE},
		{belfryv1.Refusal_CODE_UNSPECIFIED, belfryv1.Refusal_CODE_UNAVAILABLE},
		{belfryv1.Refusal_CODE_UNSPECIFIED, belfryv1.Refusal_CODE_UNSPECIFIED},
	} {
		w.nextRef++
		w.step(Asked{Ref: w.nextRef, Commands: []*belfryv1.Command{complete("first"), complete("second")}})
		for i, a := range w.answers[w.nextRef].(*belfryv1.Answers).GetAnswers() {
			if code := a.GetRefusal().GetCode(); code != want[i] {
				t.Errorf("completion %d: %v, want %v", i, a, want[i])
			}
		}
	}
	if c := w.state.jobs["q35"].past.counters; c.succeeded != 1 || c.failed != 0 || len(w.dead("q35")) != 0 || len(w.state.late) != 0 {
		t.Errorf("%+v, dead letters %v, on their way %v", c, w.dead("q35"), w.state.late)
	}
	for _, h := range w.store.newest() {
		r := new(belfryv1.Record)
		if err := proto.Unmarshal(h.Record, r); err != nil || r.GetStatus() != string(job.Succeeded) || r.GetWorker() != "w" {
			t.Errorf("attempt %d: %v, %v", h.Attempt, r, err)
		}
		if h.Attempt == 1 && (r.GetLease() != g.GetLease() || r.GetOutput() != "done") {
			t.Errorf("its lease and output are lost: %v", r)
		}
	}
}
