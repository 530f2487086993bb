package partition

import (
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func limited(perSecond float64, burst int) func(*job.Spec) {
	return func(s *job.Spec) { s.RateLimit = job.RateLimit{PerSecond: perSecond, Burst: burst} }
}

// perWindow is the most deliveries in any window of a length.
func (w *world) perWindow(d time.Duration) (most int) {
	for i := range w.deliveries {
		n := 0
		for _, x := range w.deliveries[i:] {
			if x.at.Sub(w.deliveries[i].at) < d {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestRateLimitOfAJob is exact: a burst, and then one each time that there is a
// token, in due order.
func TestRateLimitOfAJob(t *testing.T) {
	w := newWorld(t)
	w.register("a", "0 0 1 1 *", limited(2, 3))
	for range 20 {
		w.trigger()
	}
	if n := len(w.deliveries); n != 3 {
		t.Fatalf("%d at once", n)
	}
	if got, want := w.waiting("a"), "waiting: rate limit until 2026-01-01T00:00:0"; !strings.HasPrefix(got, want) {
		t.Errorf("%q", got)
	}
	w.advance(8 * time.Second)
	if n := len(w.deliveries); n != 19 {
		t.Errorf("%d in 8 s, want 19", n)
	}
	w.advance(time.Minute)
	if n := len(w.deliveries); n != 20 {
		t.Fatalf("%d in all", n)
	}
	for i, x := range w.deliveries[3:] {
		if want := origin.Add(time.Duration(i+1) * 500 * time.Millisecond); !x.at.Equal(want) {
			t.Errorf("delivery %d at %s, want %s", i+3, x.at, want)
		}
	}
}

// TestRateLimitCountsWhatIsBegun: retries do, and what a worker gives back does
// not.
func TestRateLimitCountsWhatIsBegun(t *testing.T) {
	w := newWorld(t)
	w.register("a", "0 0 1 1 *", limited(1, 1), func(s *job.Spec) {
		s.Retry.InitialBackoff, s.Retry.Jitter = 100*time.Millisecond, job.NoJitter
	})
	w.fate.outcome = func(x *belfryv1.Delivery) *belfryv1.Result {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 500}
	}
	n := 0
	w.fate.busy = func() bool { n++; return n == 1 }
	w.trigger()
	if len(w.deliveries) != 1 {
		t.Fatalf("%d deliveries after one was given back and offered for", len(w.deliveries))
	}
	w.advance(10 * time.Second)
	if n, most := len(w.deliveries), w.perWindow(time.Second); n != 5 || most != 1 {
		t.Errorf("%d attempts, %d in a second", n, most)
	}
}

// TestRateLimitSurvivesATakeover: what the former owner sent counts, also when
// nobody recorded it.
func TestRateLimitSurvivesATakeover(t *testing.T) {
	for name, answers := range map[string]bool{"recorded": true, "not recorded": false} {
		w := newWorld(t)
		w.register("a", "0 0 1 1 *", limited(0.1, 5))
		if !answers {
			w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result { return nil }
		}
		for range 8 {
			w.trigger()
		}
		if len(w.deliveries) != 5 {
			t.Fatalf("%s: %d at once", name, len(w.deliveries))
		}
		w.fate.outcome = nil
		w.crash()
		w.now = w.now.Add(3 * time.Second)
		w.boot()
		w.advance(time.Second)
		if n := len(w.deliveries); n != 5 {
			t.Errorf("%s: %d more right after the takeover", name, n-5)
		}
		w.advance(5 * time.Minute)
		if n := len(w.deliveries); n < 8 {
			t.Errorf("%s: %d in the end", name, n)
		}
		if most := w.perWindow(10 * time.Second); most > 6 {
			t.Errorf("%s: %d in 10 s, and 6 may be", name, most)
		}
	}
}

// TestRateLimitOutlivesAClockStep: back by an hour, which nobody waits for.
func TestRateLimitOutlivesAClockStep(t *testing.T) {
	w := newWorld(t)
	w.register("a", "0 0 1 1 *", limited(1, 1))
	for range 5 {
		w.trigger()
	}
	w.advance(1500 * time.Millisecond)
	w.now = w.now.Add(-time.Hour)
	w.step(Tick{Judge: true})
	w.trigger()
	w.advance(10 * time.Second) // the others are not due yet, as the clock says now
	if n := len(w.deliveries); n != 3 {
		t.Errorf("%d deliveries", n)
	}
	w.advance(time.Hour)
	if n := len(w.deliveries); n != 6 {
		t.Errorf("%d deliveries in the end", n)
	}
}

// TestRateLimitExpires: what waits for a token for too long is a dead letter.
func TestRateLimitExpires(t *testing.T) {
	w := newWorld(t)
	w.register("a", "0 0 1 1 *", limited(0.01, 1), func(s *job.Spec) { s.Retry.MaxElapsed = 150 * time.Second })
	for range 5 {
		w.trigger()
	}
	w.advance(10 * time.Minute)
	if n, dead := len(w.deliveries), w.deadLetters(); n != 2 || len(dead) != 3 || dead[0].GetReason() != "expired" {
		t.Errorf("%d deliveries, dead letters %v", n, dead)
	}
}

// TestOpenCircuitFails: a job that does not want to wait uses its attempts up.
func TestOpenCircuitFails(t *testing.T) {
	ids := laneJobs(t, 2)
	w := newLanesWorld(t, map[string]string{ids[0]: "h", ids[1]: "h"}, nil, "w1")
	w.register(ids[0], "0 0 1 1 *", func(s *job.Spec) {
		s.Target.HTTP.URL, s.OnOpenCircuit, s.Retry.MaxAttempts = "https://h/hook", job.OpenCircuitFail, 2
	})
	w.run(ids[0], 1)
	w.run(ids[1], 1)
	open := Busied{Host: "h", Reason: belfryv1.Busy_REASON_CIRCUIT, Since: w.now.UnixMilli(), RetryIn: time.Hour.Milliseconds()}
	w.refuseAll(open)
	if s := w.state; len(s.running) != 2 || s.lanes.n != 1 {
		t.Fatalf("%d in flight, %d wait", len(s.running), s.lanes.n)
	}
	w.run(ids[0], 1) // while it is open
	w.advance(time.Minute)
	dead := w.deadLetters()
	if len(dead) != 2 || dead[0].GetAttempts() != 2 || dead[0].GetReason() != "attempts exhausted" {
		t.Fatalf("dead letters %v", dead)
	}
	if got := w.took(); got != "" {
		t.Errorf("sent %q", got)
	}
	if got := w.waiting(ids[1]); !strings.HasPrefix(got, "waiting: circuit open since ") {
		t.Errorf("the other job: %q", got)
	}
	w.setWorkers("w1", "w2") // whose circuit is closed, as far as we know
	w.run(ids[0], 1)
	if got, want := w.took(), ids[1]+" "+ids[0]; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}
