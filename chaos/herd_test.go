package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
)

// TestHerd: many jobs are due in the same second. All run, the API answers within
// a second meanwhile, and they are out as fast as the node is rated.
//
// BELFRY_CHAOS_HERD is how many (2,000).
func TestHerd(t *testing.T) {
	t.Parallel()
	const rated = 500 // a second, on the embedded store
	node, l := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
	n := envInt(t, "BELFRY_CHAOS_HERD", 2000)
	at := time.Now().Add(2*time.Second + time.Duration(n)*time.Second/2000).Truncate(time.Second).UTC()
	var jobs []map[string]any
	for i := range n {
		id := fmt.Sprintf("herd-%05d", i)
		jobs = append(jobs, map[string]any{"job_id": id, "schedule_expr": at.Format(time.RFC3339Nano), "target": l.ledger.URL})
		j := check.Once(id, check.At{Instant: at})
		j.Until = at.Add(time.Millisecond)
		l.history.Jobs = append(l.history.Jobs, j)
	}
	if good, bad, err := node.Import(jobs); err != nil || good != n {
		t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, n, bad, err)
	}
	if time.Now().After(at) {
		t.Fatalf("the import took until %s after they were due", time.Since(at))
	}
	slowest := time.Duration(0)
	for l.ledger.Len() < n && time.Since(at) < slow(t, time.Minute) {
		began := time.Now()
		if _, err := node.get("/v1/jobs/herd-00000", new(struct{})); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(began))
		l.ledger.WaitFor(n, 20*time.Millisecond)
	}
	took := time.Since(at)
	t.Logf("%d were out after %s, and the slowest answer of the API took %s", l.ledger.Len(), took.Round(time.Millisecond), slowest.Round(time.Millisecond))
	if most := slow(t, time.Duration(float64(n)/(0.8*rated)*float64(time.Second))); took > most {
		t.Errorf("they were out after %s, and %s is 80 %% of the rate", took, most)
	}
	if slowest > slow(t, time.Second) {
		t.Errorf("an answer of the API took %s", slowest)
	}
	l.judge()
}
