package chaos

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
)

// TestOverlapKilled: jobs that are due each second and take longer, of each
// policy for that, and the one node is killed in the middle, again and again. No
// two executions of a job run at a time, what is skipped for another is skipped
// while that one runs, and a kill leaves no job blocked. Case C74.
//
// BELFRY_CHAOS_KILLS sets how often (2).
func TestOverlapKilled(t *testing.T) {
	t.Parallel()
	node, l := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
	for _, policy := range []check.Overlap{check.Skip, check.Queue, check.Replace} {
		l.overlapping(policy, 4)
	}
	for range envInt(t, "BELFRY_CHAOS_KILLS", 2) {
		l.anywhere()
		f := Fault{Kind: Killed, At: time.Now()}
		node.Kill()
		f.End = time.Now()
		l.history.Faults = append(l.history.Faults, f)
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
	}
	l.seconds(3) // when nothing is wrong, for which nothing is excused
	l.finish()
	fates := map[check.Overlap]map[string]int{check.Skip: {}, check.Queue: {}, check.Replace: {}}
	for _, j := range l.history.Jobs {
		for _, r := range l.history.Records[j.ID] {
			fates[j.Overlap][r.Status]++
		}
	}
	if fates[check.Skip]["skipped"] == 0 || fates[check.Queue]["succeeded"] == 0 || fates[check.Replace]["cancelled"] == 0 {
		t.Errorf("the policies did not come to be used: %v", fates)
	}
}

// overlapping imports jobs whose executions take longer than their interval.
func (l *load) overlapping(policy check.Overlap, n int) {
	l.t.Helper()
	before := len(l.history.Jobs)
	fields := map[string]any{"overlap": policy}
	if policy == check.Queue {
		fields["overlap_queue"] = 2
	}
	l.registerWith(string(policy), n, time.Second, time.Second, l.ledger.After(1400*time.Millisecond), fields)
	for i := range l.history.Jobs[before:] {
		l.history.Jobs[before+i].Overlap = policy
	}
}
