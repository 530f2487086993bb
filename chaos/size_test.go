package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSize: a node that holds many jobs in 256 partitions is killed and started
// again. No job is lost. How long it takes until it is ready and each partition is
// loaded, and how much memory it has, is told, and judged of a million.
//
// BELFRY_CHAOS_JOBS is how many (20,000).
func TestSize(t *testing.T) {
	const million, each, partitions = 1_000_000, 20_000, 256
	node, _ := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", fmt.Sprint(partitions)}})
	n := envInt(t, "BELFRY_CHAOS_JOBS", 20_000)
	for from := 0; from < n; from += each {
		var jobs []map[string]any
		for i := from; i < min(from+each, n); i++ {
			jobs = append(jobs, map[string]any{
				"job_id": fmt.Sprintf("size-%07d", i), "schedule_expr": "0 0 1 1 *", "target": "https://example.com/", "description": strings.Repeat("x", 150),
			})
		}
		if good, bad, err := node.Import(jobs); err != nil || good != len(jobs) {
			t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, len(jobs), bad, err)
		}
	}
	before := residentOf(t, node)
	node.Kill()
	began := time.Now()
	if err := node.Launch(); err != nil {
		t.Fatal(err)
	}
	if err := node.WaitReady(slow(t, 2*readyWithin)); err != nil {
		t.Fatal(err)
	}
	ready, after := time.Since(began), residentOf(t, node)
	loads, err := metrics(node, "belfry_partition_load_seconds_count", `belfry_partition_load_seconds_bucket{le="0.5"}`, "belfry_partition_load_seconds_sum")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d jobs: ready after %s; %.0f of %.0f loads of a partition within 500 ms, %.1f ms on average; resident %.0f MiB, and %.0f after the start",
		n, ready.Round(time.Millisecond), loads[1], loads[0], 1000*loads[2]/loads[0], before/(1<<20), after/(1<<20))
	if want := 1 + partitions; loads[0] != float64(want) { // -1 is the cluster's own
		t.Errorf("%.0f partitions were loaded, and there are %d", loads[0], want)
	}
	if n >= million {
		if most := slow(t, time.Minute); ready > most {
			t.Errorf("ready after %s, and %s is promised", ready, most)
		}
		if loads[1] < 0.99*loads[0] {
			t.Errorf("%.0f of %.0f loads of a partition took at most 500 ms: 99 %% are promised", loads[1], loads[0])
		}
		if most := max(before, after); most > 2<<30 {
			t.Errorf("%.0f bytes are resident, and 2 GiB are promised", most)
		}
	}
	has := jobIDs(t, node)
	if len(has) != n {
		t.Errorf("%d jobs are there, and %d were acknowledged", len(has), n)
	}
	for i := range n {
		if id := fmt.Sprintf("size-%07d", i); !has[id] {
			t.Fatalf("%s is not there any more", id)
		}
	}
}

func residentOf(t *testing.T, p *Process) float64 {
	t.Helper()
	is, err := metrics(p, growing[0])
	if err != nil {
		t.Fatal(err)
	}
	return is[0]
}

// jobIDs are all jobs of a node.
func jobIDs(t *testing.T, p *Process) map[string]bool {
	t.Helper()
	has := map[string]bool{}
	for path := "/v1/jobs?page_size=500"; path != ""; {
		var page []struct {
			ID string `json:"job_id"`
		}
		next, err := p.get(path, &page)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page {
			if has[j.ID] {
				t.Errorf("%s is listed twice", j.ID)
			}
			has[j.ID] = true
		}
		path = next
	}
	return has
}
