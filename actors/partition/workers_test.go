package partition

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// newWorkers is a world with two remote workers, r1 before r2, that begin only
// what a test says, and one execution that was just sent to r1.
func newWorkers(t *testing.T) (w *world, x *belfryv1.DeliveryRef) {
	w = newWorld(t)
	w.sends = &[]Send{}
	w.step(Workers{List: []Worker{{ID: "r1", Remote: true}, {ID: "r2", Remote: true}}})
	w.register("a", "0 0 1 1 *", func(s *job.Spec) { s.Retry.InitialBackoff = time.Second })
	w.trigger()
	if len(*w.sends) != 1 || (*w.sends)[0].To != "r1" || !(*w.sends)[0].Dispatch.GetConfirm() {
		t.Fatalf("sent: %v", *w.sends)
	}
	d := (*w.sends)[0].Dispatch.GetDeliveries()[0]
	return w, &belfryv1.DeliveryRef{ExecutionId: d.GetExecutionId(), Attempt: d.GetAttempt()}
}

func (w *world) trigger() {
	w.ask(&belfryv1.Command{JobId: "a", Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
}

// sent fails unless these workers were sent something, in that order.
func (w *world) sent(what string, to ...WorkerID) {
	w.t.Helper()
	var got []WorkerID
	for _, s := range *w.sends {
		got = append(got, s.To)
	}
	if len(got) != len(to) {
		w.t.Fatalf("%s: sent to %v, not to %v", what, got, to)
	}
	for i := range to {
		if got[i] != to[i] {
			w.t.Fatalf("%s: sent to %v, not to %v", what, got, to)
		}
	}
}

func ofAttempt(x *belfryv1.DeliveryRef, outcome belfryv1.Result_Outcome, epoch int64) *belfryv1.Result {
	return &belfryv1.Result{ExecutionId: x.GetExecutionId(), JobId: "a", Attempt: x.GetAttempt(), Epoch: epoch, Outcome: outcome, Error: "x"}
}

// TestBusyOfAnEarlierDispatch: the worker was full and had a slot when it was
// asked again. The Busy comes late, and says nothing about the second.
func TestBusyOfAnEarlierDispatch(t *testing.T) {
	w, x := newWorkers(t)
	w.advance(time.Second)
	w.sent("unconfirmed", "r1", "r1")
	w.step(Busied{From: "r1", Number: (*w.sends)[0].Dispatch.GetNumber(), Deliveries: []*belfryv1.DeliveryRef{x}})
	w.sent("after the late Busy", "r1", "r1")
	w.step(Busied{From: "r1", Number: (*w.sends)[1].Dispatch.GetNumber(), Deliveries: []*belfryv1.DeliveryRef{x}})
	w.sent("after the Busy", "r1", "r1", "r2")
}

// TestConfirmedIsNotRepeated: until long after its timeout.
func TestConfirmedIsNotRepeated(t *testing.T) {
	w, x := newWorkers(t)
	w.step(Begun{"r1", []*belfryv1.DeliveryRef{x}})
	w.advance(w.state.running[x.GetExecutionId()].answer(w.state) - time.Second)
	w.sent("begun", "r1")
	w.advance(2 * time.Second)
	w.sent("overdue", "r1", "r1")
}

// TestAdoptedIsGivenBack: the worker had begun it for the former owner, has not
// sent it, and drains. It goes to another, under our epoch.
func TestAdoptedIsGivenBack(t *testing.T) {
	w, x := newWorkers(t)
	w.crash()
	w.now = w.now.Add(time.Second)
	w.boot()
	w.step(Workers{List: []Worker{{ID: "r1", Remote: true}, {ID: "r2", Remote: true}}})
	f := w.state.running[x.GetExecutionId()]
	w.step(Holds{"r1", []*belfryv1.DeliveryRef{x}})
	if f.worker == nil || f.worker.ID != "r1" || len(f.epochs) != 1 {
		t.Fatalf("it is with %v, epochs %v", f.worker, f.epochs)
	}
	w.step(Workers{List: []Worker{{ID: "r1", Remote: true, Draining: true}, {ID: "r2", Remote: true}}})
	w.step(Busied{From: "r1", Number: 7, Deliveries: []*belfryv1.DeliveryRef{x}})
	w.sent("given back, and r2 has not said what it holds", "r1")
	w.step(Holds{From: "r2"})
	w.sent("given back", "r1", "r2")
	if len(f.epochs) != 2 || (*w.sends)[1].Dispatch.GetEpoch() != w.state.life {
		t.Errorf("epochs %v", f.epochs)
	}
}

// TestAdoptionWaitsForWorkersNotKnownYet: one that is alive and was not heard so
// far may hold what is due, but it is waited for no longer than for a silent one.
func TestAdoptionWaitsForWorkersNotKnownYet(t *testing.T) {
	known := []Worker{{ID: "r2", Remote: true}}
	begin := func() (*world, *belfryv1.DeliveryRef) {
		w, x := newWorkers(t)
		w.crash()
		w.now = w.now.Add(time.Second)
		w.boot()
		w.step(Workers{List: known, Partial: true})
		w.step(Holds{From: "r2"})
		w.sent("all that are known have answered", "r1")
		return w, x
	}
	w, x := begin()
	w.step(Workers{List: append(known, Worker{ID: "r1", Remote: true})})
	w.step(Holds{"r1", []*belfryv1.DeliveryRef{x}})
	w.advance(w.cfg.AdoptFor)
	w.sent("r1 holds it", "r1")
	w, _ = begin()
	w.step(Workers{List: known})
	w.sent("there is no other", "r1", "r2")
	w, _ = begin()
	w.advance(w.cfg.AdoptFor)
	w.sent("the time is over", "r1", "r2")
}

// TestFirstBatchWaitsForWhatIsHeld: what no worker holds is written with all that
// a new owner has to write anyway, and is sent after one batch, not two. While
// workers are silent the rest does not wait for them for long.
func TestFirstBatchWaitsForWhatIsHeld(t *testing.T) {
	begin := func() (w *world, before int) {
		w, _ = newWorkers(t)
		w.register("a", "* * * * *")
		w.crash()
		w.now = origin.Add(time.Minute - w.cfg.ArmAhead/2)
		before = w.store.commits
		w.boot()
		w.step(Workers{List: []Worker{{ID: "r1", Remote: true}, {ID: "r2", Remote: true}}})
		w.step(Holds{From: "r1"})
		if w.store.commits != before {
			t.Fatal("the first batch has not waited")
		}
		return w, before
	}
	w, before := begin()
	w.step(Holds{From: "r2"})
	w.sent("nobody holds it", "r1", "r1")
	if n := w.store.commits - before; n != 1 {
		t.Errorf("it took %d batches", n)
	}
	w, before = begin()
	w.advance(time.Duration(gatherFor) * time.Millisecond)
	w.sent("r2 is silent", "r1")
	if n := w.store.commits - before; n != 1 {
		t.Errorf("%d batches while r2 is silent", n)
	}
}

func (f *flight) answer(s *State) time.Duration {
	return time.Duration(s.answerTime(f)) * time.Millisecond
}

// TestWithheld: what was not sent goes out after a pause; what may have been sent
// before stays with its worker.
func TestWithheld(t *testing.T) {
	w, _ := newWorkers(t)
	w.step(Withheld((*w.sends)[0]))
	w.step(Workers{List: []Worker{{ID: "r2", Remote: true}, {ID: "r1", Remote: true}}})
	w.sent("at once", "r1")
	w.advance(time.Duration(withheldPause) * time.Millisecond)
	w.sent("after the pause", "r1", "r2")
	w.advance(time.Second)
	w.sent("unconfirmed", "r1", "r2", "r2")
	w.step(Workers{List: []Worker{{ID: "r1", Remote: true}, {ID: "r2", Remote: true}}})
	w.step(Withheld((*w.sends)[2]))
	w.advance(time.Second)
	w.sent("a repeat was withheld", "r1", "r2", "r2", "r2")
}

// TestFailureOfALostWorker: another is at the attempt, and its word counts.
func TestFailureOfALostWorker(t *testing.T) {
	w, x := newWorkers(t)
	w.step(Workers{List: []Worker{{ID: "r2", Remote: true}}})
	w.sent("r1 is lost", "r1", "r2")
	w.step(Reported{"r1", []*belfryv1.Result{ofAttempt(x, belfryv1.Result_OUTCOME_FAILED, w.state.life)}})
	w.advance(900 * time.Millisecond)
	if f := w.state.running[x.GetExecutionId()]; f == nil || f.attempt != 1 {
		t.Fatal("the failure was taken")
	}
	if len(w.acks) != 1 || w.acks[0].To != "r1" {
		t.Errorf("acknowledged: %v", w.acks)
	}
	w.step(Reported{"r1", []*belfryv1.Result{ofAttempt(x, belfryv1.Result_OUTCOME_SUCCEEDED, w.state.life)}})
	if w.state.running[x.GetExecutionId()] != nil {
		t.Error("a success was not taken")
	}
}

// TestResultOfALaterEpoch is left to the owner that waits for it.
func TestResultOfALaterEpoch(t *testing.T) {
	w, x := newWorkers(t)
	x.Attempt = 7
	w.step(Reported{"r1", []*belfryv1.Result{ofAttempt(x, belfryv1.Result_OUTCOME_FAILED, w.state.life+1)}})
	if len(w.acks) != 0 {
		t.Errorf("acknowledged: %v", w.acks)
	}
	w.step(Reported{"r1", []*belfryv1.Result{ofAttempt(x, belfryv1.Result_OUTCOME_FAILED, w.state.life)}})
	if len(w.acks) != 1 {
		t.Errorf("not acknowledged: %v", w.acks)
	}
}

// TestUnwantedIsAcknowledgedWhenItsReasonIsDurable: a failure of an attempt that
// was given up is forgotten when that is stored, not before.
func TestUnwantedIsAcknowledgedWhenItsReasonIsDurable(t *testing.T) {
	w, x := newWorkers(t)
	w.step(Begun{"r1", []*belfryv1.DeliveryRef{x}})
	release := w.stall()
	w.step(Workers{List: []Worker{{ID: "r2", Remote: true}}})
	w.step(Reported{"r1", []*belfryv1.Result{ofAttempt(x, belfryv1.Result_OUTCOME_FAILED, w.state.life)}})
	if len(w.acks) != 0 {
		t.Error("acknowledged before the loss of the worker is durable")
	}
	release()
	if len(w.acks) != 1 {
		t.Errorf("acknowledged: %v", w.acks)
	}
}

// TestDeleteEndsWhatALostWorkerMayHave: it is not sent to another.
func TestDeleteEndsWhatALostWorkerMayHave(t *testing.T) {
	w, x := newWorkers(t)
	w.step(Workers{List: []Worker{{ID: "r3", Draining: true}}})
	w.ask(&belfryv1.Command{JobId: "a", Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}})
	w.step(Workers{List: []Worker{{ID: "r2", Remote: true}}})
	w.advance(time.Minute)
	w.sent("deleted", "r1")
	if l := w.lines("a"); len(l) != 1 || l[0].status != "cancelled" {
		t.Errorf("%+v", l)
	}
	if h := w.store.history[0]; h.ExecutionID != x.GetExecutionId() || h.Attempt != 1 {
		t.Errorf("the delivery has no line: %+v", w.store.history)
	}
}

// TestNothingAfterYield: no request, result, worker or instant moves the state,
// and Yielded comes once, when the batch in flight is durable.
func TestNothingAfterYield(t *testing.T) {
	w, x := newWorkers(t)
	w.register("a", "* * * * *")
	release := w.stall()
	w.trigger()
	w.step(Yield{})
	answers := len(w.answers)
	w.trigger()
	w.step(Described{Ref: 99, JobID: "a"})
	w.step(Reported{"r1", []*belfryv1.Result{ofAttempt(x, belfryv1.Result_OUTCOME_SUCCEEDED, w.state.life)}})
	w.step(Busied{From: "r1", Deliveries: []*belfryv1.DeliveryRef{x}})
	w.step(Workers{List: []Worker{{ID: "r2", Remote: true}}})
	w.advance(time.Hour)
	if len(w.answers) != answers || w.yielded != nil {
		t.Fatalf("%d answers more, yielded %v", len(w.answers)-answers, w.yielded)
	}
	release()
	if w.yielded == nil || *w.yielded != w.store.fence {
		t.Fatalf("yielded %v, and the fence is %v", w.yielded, w.store.fence)
	}
	if len(w.answers) != answers+1 {
		t.Error("the trigger that was taken before is not answered")
	}
	w.sent("yielded", "r1")
	if out := w.state.Step(w.now, Tick{}); len(out) != 0 {
		t.Errorf("afterwards: %v", out)
	}
}

// TestNothingAfterTheFence: whatever it is told.
func TestNothingAfterTheFence(t *testing.T) {
	w, x := newWorkers(t)
	w.state.Step(w.now, Fenced{})
	for _, e := range []Event{Tick{}, Busied{From: "r1", Deliveries: []*belfryv1.DeliveryRef{x}}, Offered{From: "r1", ID: 1, Slots: 9}, Yield{}} {
		if out := w.state.Step(w.now, e); len(out) != 0 {
			t.Errorf("after %T: %v", e, out)
		}
	}
}
