package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
)

// TestOutage: the one node is away for a quarter of a minute. Of the jobs some
// have many slots in that time, some one, some none, and each policy is there: of
// what was missed those fire that the policy says, and nothing at all is missed
// where the outage was no longer than the grace.
//
// BELFRY_CHAOS_OUTAGE_SECONDS is how long it is away (15).
func TestOutage(t *testing.T) {
	t.Parallel()
	node, l := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
	away := time.Duration(envInt(t, "BELFRY_CHAOS_OUTAGE_SECONDS", 15)) * time.Second
	l.history.Recovery = slow(t, 5*time.Second)
	start := time.Now().Add(slow(t, 2*time.Second)).Truncate(time.Second).UTC()
	down := start.Add(1500 * time.Millisecond)
	jobs := l.registerPolicies(start, away)
	<-time.After(time.Until(down))
	out := Fault{Kind: Outage, At: time.Now()}
	node.Kill()
	<-time.After(time.Until(out.At.Add(away)))
	out.End = time.Now() // from here on it may judge what it missed
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(out.End); took > l.history.Recovery {
		t.Fatalf("the node was ready after %s: the rules allow %s. BELFRY_CHAOS_SLOW allows more", took, l.history.Recovery)
	}
	l.history.Faults = append(l.history.Faults, out)
	l.flow(jobs)
	l.caughtUp(out.End)
	l.finish()
}

// registerPolicies imports jobs of each policy for what is missed, for an outage
// of so long that begins when they have come due: some are due each second from
// start on, some once in the outage, some not at all in it. It says how many.
func (l *load) registerPolicies(start time.Time, away time.Duration) int {
	l.t.Helper()
	var jobs []map[string]any
	for _, p := range []check.CatchUp{
		{Policy: check.Latest, Max: 100, Window: time.Hour, Grace: time.Second},
		{Policy: check.All, Max: 100, Window: time.Hour, Grace: time.Second},
		{Policy: check.All, Max: 8, Window: time.Hour, Grace: time.Second},
		{Policy: check.All, Max: 100, Window: 8 * time.Second, Grace: time.Second},
		{Policy: check.None, Max: 100, Window: time.Hour, Grace: time.Second},
		{Policy: check.None, Max: 100, Window: time.Hour, Grace: time.Hour},
	} {
		for slots, s := range map[string]check.Interval{
			"none": {First: start, Every: time.Hour},
			"one":  {First: start.Add(away - 1500*time.Millisecond).Truncate(time.Millisecond), Every: time.Hour},
			"many": {First: start, Every: time.Second},
		} {
			id := fmt.Sprintf("%s-%s-%d-%d", slots, p.Policy, p.Max, len(jobs))
			jobs = append(jobs, map[string]any{
				"job_id": id, "schedule_expr": "@every " + s.Every.String(), "starts_at": s.First.Format(time.RFC3339Nano), "target": l.ledger.URL,
				"catch_up": map[string]any{"policy": p.Policy, "max": p.Max, "window": p.Window.String(), "grace": p.Grace.String()},
			})
			j := check.Once(id, s)
			j.CatchUp = &p
			l.history.Jobs = append(l.history.Jobs, j)
		}
	}
	if good, bad, err := l.on.Import(jobs); err != nil || good != len(jobs) {
		l.t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, len(jobs), bad, err)
	}
	return len(jobs)
}
