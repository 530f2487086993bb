package partition

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// stall lets the store answer nothing until the returned function is called.
func (w *world) stall() (release func()) {
	var out []Commit
	w.fate.commit = func() verdict { return silent }
	w.stalled = func(c Commit) { out = append(out, c) }
	return func() {
		w.fate.commit, w.stalled = nil, nil
		for _, c := range out {
			w.store.apply(c.Batch)
			w.step(Applied{w.store.fence})
		}
	}
}

func result(d delivery, outcome belfryv1.Result_Outcome) *belfryv1.Result {
	ref, _ := job.ParseExecutionID(d.id)
	return &belfryv1.Result{ExecutionId: d.id, JobId: ref.JobID, Attempt: d.attempt, Epoch: d.epoch, Outcome: outcome, Error: "x"}
}

// TestResultIsAcknowledgedWhenItIsDurable: also one that is reported again while
// its batch is on the way, after a success and after a failure that is retried.
func TestResultIsAcknowledgedWhenItIsDurable(t *testing.T) {
	for name, outcome := range map[string]belfryv1.Result_Outcome{
		"success": belfryv1.Result_OUTCOME_SUCCEEDED, "failure": belfryv1.Result_OUTCOME_FAILED,
	} {
		w := newWorld(t)
		w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result { return nil }
		w.register("a", "* * * * *")
		w.advance(time.Minute)
		r := result(w.deliveries[0], outcome)
		w.held = append(w.held, r)
		release := w.stall()
		for range 3 {
			w.step(Reported{w.worker, []*belfryv1.Result{r}})
		}
		if len(w.held) != 1 {
			t.Errorf("%s: acknowledged before it is durable", name)
		}
		release()
		if len(w.held) != 0 {
			t.Errorf("%s: not acknowledged when it is durable", name)
		}
		if n := len(w.state.deciding); n != 0 {
			t.Errorf("%s: %d results are being decided for ever", name, n)
		}
	}
}

// TestUpdateIsNotSentBeforeItIsDurable: a slot that was armed waits for the batch
// that gives it its new spec.
func TestUpdateIsNotSentBeforeItIsDurable(t *testing.T) {
	w := newWorld(t)
	w.register("a", "* * * * *")
	w.advance(59*time.Second + 700*time.Millisecond) // 00:01 is armed
	release := w.stall()
	w.register("a", "*/1 * * * *")
	w.advance(time.Second)
	if n := len(w.deliveries); n != 0 {
		t.Errorf("%d deliveries under a spec that is not stored", n)
	}
	release()
	if n := len(w.deliveries); n != 1 {
		t.Errorf("%d deliveries once it is", n)
	}
}

// TestClockStepsBackWhileArming: the flight's timer goes off before its row is
// durable, and then the clock is stepped back. It is sent at its instant.
func TestClockStepsBackWhileArming(t *testing.T) {
	w := newWorld(t)
	w.register("a", "* * * * *")
	w.now = origin.Add(59*time.Second + 600*time.Millisecond)
	release := w.stall()
	w.step(Tick{}) // arms 00:01
	w.now = origin.Add(60*time.Second + 100*time.Millisecond)
	w.step(Tick{})
	w.now = origin.Add(59*time.Second + 800*time.Millisecond)
	release()
	if n := len(w.deliveries); n != 0 {
		t.Fatalf("%d deliveries before the instant", n)
	}
	w.advance(time.Second)
	if n := len(w.deliveries); n != 1 {
		t.Errorf("%d deliveries", n)
	}
}

// TestNothingBeginsAfterDelete: a delivery that a full worker gives back after
// its job was deleted is not sent again.
func TestNothingBeginsAfterDelete(t *testing.T) {
	w := newWorld(t)
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result { return nil }
	w.register("a", "* * * * *")
	w.advance(time.Minute)
	d := w.deliveries[0]
	w.running = map[string]*job1{} // it is still on its way to the worker
	w.ask(&belfryv1.Command{JobId: "a", Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}})
	w.step(Busied{From: w.worker, Deliveries: []*belfryv1.DeliveryRef{{ExecutionId: d.id, Attempt: d.attempt}}})
	w.step(Offered{From: w.worker, ID: 1, Slots: 10})
	w.advance(time.Minute)
	if n := len(w.deliveries); n != 1 {
		t.Errorf("%d deliveries", n)
	}
	if l := w.lines("a"); len(l) != 1 || l[0].status != "cancelled" {
		t.Errorf("%+v", l)
	}
}

// TestNewScheduleHasTheSlotsBeforeAKeptOne: with a long arm-ahead a slot is kept
// that lies after others of the new schedule.
func TestNewScheduleHasTheSlotsBeforeAKeptOne(t *testing.T) {
	w := newWorld(t)
	w.cfg.ArmAhead = 8 * time.Second
	w.crash()
	w.boot()
	w.register("a", "*/5 * * * * *", func(s *job.Spec) { s.Schedule.Seconds = true })
	w.advance(100 * time.Millisecond) // 00:00:05 is armed
	w.register("a", "* * * * * *", func(s *job.Spec) { s.Schedule.Seconds = true })
	w.advance(6 * time.Second)
	if n := len(w.deliveries); n != 6 {
		t.Errorf("%d deliveries in six seconds: %v", n, w.deliveries)
	}
}

// TestBackwardStepWhileStoreIsAway: the batch is retried after its pause, not
// when the clock has come back to where it was.
func TestBackwardStepWhileStoreIsAway(t *testing.T) {
	w := newWorld(t)
	w.fate.commit = func() verdict { return unavailable }
	if a := w.register("a", "* * * * *"); a != nil {
		t.Fatalf("answered: %v", a)
	}
	w.now = w.now.Add(-time.Hour)
	w.step(Tick{})
	w.fate.commit = nil
	w.advance(2 * time.Second)
	if w.store.commits == 0 {
		t.Error("the batch waits for the hour to pass")
	}
}

// TestRefusedJobLetsGoOfEverything: a job whose row the store refuses has
// nothing in flight afterwards.
func TestRefusedJobLetsGoOfEverything(t *testing.T) {
	w := newWorld(t)
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result { return nil }
	w.register("a", "0 0 1 1 *")
	for range 5 {
		w.ask(&belfryv1.Command{JobId: "a", Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
	}
	w.refuse = func(b persistence.Batch) bool { return b.Rows[0].Status == job.Active }
	w.ask(&belfryv1.Command{JobId: "a", Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
	if n := len(w.state.running); n != 0 || w.state.jobs["a"].status != job.Faulty {
		t.Errorf("%d in flight, %s", n, w.state.jobs["a"].status)
	}
}
