package partition

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestOutcomesAgain: an upstream that failed and succeeds after all runs what was
// skipped for it, also what follows that, each once; and nothing else again.
func TestOutcomesAgain(t *testing.T) {
	n := newNetwork(t, 1, "a", "b", "c", "d")
	fails := map[string]bool{"a": true}
	for _, w := range n.worlds {
		w.fate.outcome = func(x *belfryv1.Delivery) *belfryv1.Result {
			if fails[x.GetJobId()] {
				return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 500, Error: "500"}
			}
			return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}
		}
	}
	once := func(j *job.Spec) { j.Retry.MaxAttempts = 1 }
	n.register("a", spec("0 1 1 1 *", once))
	n.register("b", following([]string{"a"}, once))
	n.register("c", following([]string{"a"}, once))
	n.register("d", following([]string{"b", "c"}, once))
	n.run(61 * time.Minute)
	statuses := func() (out string) {
		for _, id := range []string{"b", "c", "d"} {
			for _, l := range n.of(id).lines(id) {
				out += id + " " + l.status + " " + l.reason + ", "
			}
		}
		return out
	}
	if got, want := statuses(), "b skipped upstream a, c skipped upstream a, d skipped upstream a, "; got != want {
		t.Fatalf("%s\nwant %s", got, want)
	}
	again := func(status job.ExecutionStatus, cause string) {
		j := n.of("a").state.jobs["a"]
		first := job.Instant(origin.Add(time.Hour).UnixMilli())
		run := &belfryv1.Run{Id: job.ScheduledID("a", j.gen, first), Root: "a", Instant: first.UnixMilli()}
		s := n.of("a").state
		s.putOut(s.change(j), j, &belfryv1.Outcome{ExecutionId: "replay", Run: run, Status: string(status), Cause: cause, Again: true})
		n.step(n.of("a").cfg.Partition, Tick{})
		n.run(10 * time.Second)
	}
	again(job.Failed, "a")
	if got, want := statuses(), "b skipped upstream a, c skipped upstream a, d skipped upstream a, "; got != want {
		t.Errorf("after another failure: %s\nwant %s", got, want)
	}
	fails["c"] = true
	again(job.Succeeded, "")
	if got, want := statuses(), "b succeeded , c failed attempts exhausted, d skipped upstream a, "; got != want {
		t.Errorf("after the success: %s\nwant %s", got, want)
	}
	delivered := len(n.of("b").deliveries)
	again(job.Succeeded, "")
	if got := len(n.of("b").deliveries); got != delivered {
		t.Errorf("a second success made %d more deliveries", got-delivered)
	}
}
