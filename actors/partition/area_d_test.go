package partition

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// The rows of area D of the cases from the field that are no script: see
// testdata/area_d.txt, overlap.txt, fleetdata/overlap.txt and linksdata/cut.txt for
// the others.

// C78: a job that names no timeout has one, so that no run is stuck for ever.
func TestCaseC78EveryRunHasATimeout(t *testing.T) {
	w := newWorld(t)
	var got []time.Duration
	w.fate.outcome = func(x *belfryv1.Delivery) *belfryv1.Result {
		got = append(got, time.Duration(x.GetTimeoutMs())*time.Millisecond)
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED}
	}
	w.register("a", "* * * * *")
	w.advance(time.Minute)
	if len(got) != 1 || got[0] != job.DefaultTimeout {
		t.Errorf("delivered with the timeouts %v", got)
	}
}

// C78: what is skipped for a stuck run is counted for its job while it is stuck.
func TestCaseC78SkipsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result { return nil }
	w.register("a", "@hourly", func(s *job.Spec) { s.Overlap, s.Timeout = job.OverlapSkip, 24*time.Hour })
	w.advance(4 * time.Hour)
	if n := w.state.jobs["a"].past.counters.skipped; n != 3 {
		t.Errorf("%d slots are counted as skipped", n)
	}
}

// C81 quartz-scheduler/quartz#918: something that follows the end of a run fails,
// and takes the owner with it: the acknowledgement, an event, whatever it is. The run
// is one success, and the job is free.
func TestCaseC81WhatFollowsARunFails(t *testing.T) {
	for steps := 0; ; steps++ {
		w := startAt(t, time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC))
		w.register("a", "* * * * *", func(s *job.Spec) { s.Overlap = job.OverlapSkip })
		left, failed := steps, false
		w.advance(29 * time.Second)
		w.interrupt = func() bool {
			left--
			failed = failed || left < 0
			return left == -1
		}
		w.now = w.now.Add(time.Second)
		w.step(Tick{})
		w.interrupt = nil
		if w.state == nil {
			w.now = w.now.Add(2 * time.Second)
			w.boot()
		}
		w.advance(time.Minute)
		l := w.lines("a")
		if len(l) != 2 || l[0].status != string(job.Succeeded) || l[1].status != string(job.Succeeded) {
			t.Errorf("the owner fails after %d effects: recorded %v", steps, l)
		}
		if !failed {
			if steps < 5 {
				t.Errorf("the end of a run has only %d effects", steps)
			}
			return
		}
	}
}
