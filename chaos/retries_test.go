package chaos

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
)

// TestRetries: targets that fail in every way that a target can, some of them
// until the attempts are exhausted, some not. Attempts are numbered without holes
// and never come too soon; what is a dead letter is one in the history, and
// nothing else is. Cases C84, C87 and C88.
//
// BELFRY_CHAOS_RETRIES sets how many executions each kind of target has (6).
func TestRetries(t *testing.T) {
	t.Parallel()
	_, l := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
	l.history.OnTime = slow(t, time.Second)
	retry := &check.Retry{MaxAttempts: 3, Initial: 400 * time.Millisecond, Multiplier: 2, Max: 10 * time.Second, Jitter: 0.2}
	targets := map[string]Script{
		"fails":         {Status: http.StatusInternalServerError},
		"fails-once":    {Status: http.StatusServiceUnavailable, UpTo: 1},
		"fails-twice":   {Status: http.StatusInternalServerError, UpTo: 2},
		"hangs":         {Hang: true, UpTo: 1},
		"breaks":        {Reset: true, UpTo: 1},
		"breaks-always": {Reset: true},
		"talks":         {Body: 8 << 20},
		"redirects":     {To: l.ledger.URL + "/elsewhere"},
		"refuses":       {Status: http.StatusNotFound},
		"works":         {},
	}
	n := envInt(t, "BELFRY_CHAOS_RETRIES", 6)
	var jobs []map[string]any
	first := time.Now().Add(slow(t, 2*time.Second+time.Duration(n)*10*time.Millisecond)).Truncate(time.Second).UTC()
	for name, script := range targets {
		for i := range n {
			url, err := l.ledger.Also(fmt.Sprintf("127.0.%d.%d", 10+len(jobs)/250, 1+len(jobs)%250), script)
			if err != nil {
				t.Fatal(err)
			}
			at := first.Add(time.Duration(i) * min(150*time.Millisecond, 30*time.Second/time.Duration(n)))
			id := fmt.Sprint(name, "-", i)
			jobs = append(jobs, map[string]any{
				"job_id": id, "schedule_expr": at.Format(time.RFC3339Nano), "target": url, "timeout": "1s",
				"retry": map[string]any{"max_attempts": retry.MaxAttempts, "initial_backoff": "400ms", "multiplier": retry.Multiplier, "max_backoff": "10s", "jitter": retry.Jitter},
			})
			j := check.Once(id, check.At{Instant: at})
			j.Until, j.MayFail, j.Retry = at.Add(time.Millisecond), true, retry
			l.history.Jobs = append(l.history.Jobs, j)
		}
	}
	if good, bad, err := l.on.Import(jobs); err != nil || good != len(jobs) {
		t.Fatalf("import: %d of %d jobs, first refusal %q, %v", good, len(jobs), bad, err)
	}
	l.flow(len(jobs))
	l.judge()
	dead := 0
	for _, rs := range l.history.Records {
		for _, r := range rs {
			if r.Status == "failed" {
				dead++
			}
		}
	}
	if want := 4 * n; dead != want { // of those that fail, break always, redirect or refuse
		t.Errorf("%d dead letters, and %d targets never succeed", dead, want)
	}
}
