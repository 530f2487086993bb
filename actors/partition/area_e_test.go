package partition

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// The rows of area E of the cases from the field, as far as they are an owner's
// and no script: see testdata/area_e.txt, retry.txt, dead.txt and queue.txt. What a
// target and its host are to a worker is tried in actors/execution (C85, C87 to
// C89), and the pause between attempts in messages/job (C82).

// C84: attempts that timed out, or whose connection was cut, are recorded as what
// they are. All have one key, and the dead letter says how many may have had an
// effect.
func TestCaseC84HowItEndedIsUnknown(t *testing.T) {
	for outcome, status := range map[belfryv1.Result_Outcome]string{
		belfryv1.Result_OUTCOME_TIMEOUT: "timeout", belfryv1.Result_OUTCOME_UNKNOWN: "unknown",
	} {
		w := newWorld(t)
		effects := map[string]int{} // by key, as the target counts them
		w.fate.outcome = func(x *belfryv1.Delivery) *belfryv1.Result {
			effects[x.GetKey()]++
			return &belfryv1.Result{Outcome: outcome, Error: "no answer"}
		}
		w.register("a", "2026-01-01T00:00:10Z", func(s *job.Spec) { s.Retry.MaxAttempts = 3 })
		w.advance(time.Minute)
		id := job.ScheduledID("a", 1, origin.Add(10*time.Second))
		if len(effects) != 1 || effects[id] != 3 {
			t.Errorf("%s: the target saw the keys %v", status, effects)
		}
		var got []string
		for _, h := range w.store.history {
			r := new(belfryv1.Record)
			if err := proto.Unmarshal(h.Record, r); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(h.Attempt, " ", r.GetStatus()))
		}
		if want := []string{"1 " + status, "2 " + status, "3 " + status, "0 failed"}; !slices.Equal(got, want) {
			t.Errorf("recorded %q, want %q", got, want)
		}
		d := w.store.dead(t, &belfryv1.Result{JobId: "a", ExecutionId: id})
		if d.GetAttempts() != 3 || d.GetUnknownAttempts() != 3 {
			t.Errorf("%s: the dead letter is %v", status, d)
		}
	}
}

// C87: the second attempt comes when the target said, within the longest pause;
// what a target says for good is a dead letter after one attempt.
func TestCaseC87WhenItIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		result *belfryv1.Result
		after  time.Duration // 0: never
	}{
		"500":                          {&belfryv1.Result{StatusCode: 500}, time.Second},
		"429, and in two minutes":      {&belfryv1.Result{StatusCode: 429, RetryAfterMs: 120_000}, 2 * time.Minute},
		"503, and sooner than the job": {&belfryv1.Result{StatusCode: 503, RetryAfterMs: 1}, time.Second},
		"503, and in thirty years":     {&belfryv1.Result{StatusCode: 503, RetryAfterMs: 999_999_999_000}, 10 * time.Minute},
		"404":                          {&belfryv1.Result{StatusCode: 404, Final: true}, 0},
		"404, and in two minutes":      {&belfryv1.Result{StatusCode: 404, Final: true, RetryAfterMs: 120_000}, 0},
		"410":                          {&belfryv1.Result{StatusCode: 410, Gone: true}, 0},
	} {
		w := newWorld(t)
		w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result {
			r := proto.Clone(c.result).(*belfryv1.Result)
			r.Outcome = belfryv1.Result_OUTCOME_FAILED
			return r
		}
		w.register("a", "2026-01-01T00:00:10Z", func(s *job.Spec) { s.Retry.MaxAttempts, s.Retry.Jitter = 2, job.NoJitter })
		w.advance(time.Hour)
		n := 1
		if c.after > 0 {
			n = 2
		}
		if len(w.deliveries) != n || n == 2 && w.deliveries[1].at.Sub(w.deliveries[0].at) != c.after {
			t.Errorf("%s: delivered %v", name, w.deliveries)
		}
		if dead := w.dead("a"); len(dead) != 1 {
			t.Errorf("%s: dead letters %v", name, dead)
		}
	}
}

// C93: no number of dead letters makes one of them vanish. What removes them is
// success, a purge, or the retention, and that is told of each.
func TestCaseC93NoDeadLetterVanishes(t *testing.T) {
	const n = 12_000
	w := newWorld(t)
	w.unchecked = true
	w.cfg.SweepPerSec = 1000
	w.crash()
	w.boot()
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 400, Final: true}
	}
	w.register("a", "@every 1s", func(s *job.Spec) { s.MaxRuns = n })
	w.advance(n * time.Second)
	dead := w.dead("a")
	if len(dead) != n {
		t.Fatalf("%d dead letters", len(dead))
	}
	w.fate.outcome = nil
	for _, action := range []*belfryv1.Command{
		{Action: &belfryv1.Command_Replay{Replay: &belfryv1.ReplayDead{ExecutionId: dead[0]}}},
		{Action: &belfryv1.Command_Purge{Purge: &belfryv1.Purge{ExecutionId: dead[1]}}},
	} {
		action.JobId = "a"
		if a := w.ask(action); a.GetRefusal() != nil {
			t.Fatal(a)
		}
	}
	w.crash() // what is swept daily meanwhile is tried elsewhere, and takes time
	w.now = w.now.Add(w.cfg.Retention - (n+4000)*time.Second)
	w.boot()
	w.advance(time.Hour)
	if left := w.dead("a"); !slices.Equal(left, dead[2:]) {
		t.Errorf("%d are left before the retention is over", len(left))
	}
	w.advance(30 * time.Hour)
	told, metrics := map[string]int{}, NewMetrics(prometheus.NewRegistry())
	for _, e := range w.events {
		metrics.observe(e)
		if e.GetType() == deadExpired {
			told[e.GetExecutionId()]++
		}
	}
	counted := testutil.ToFloat64(metrics.deadExpired)
	if left := w.dead("a"); len(left) != 0 || len(told) != n-2 || counted != n-2 {
		t.Errorf("%d are left after it, it was told of %d, and %v are counted", len(left), len(told), counted)
	}
}
