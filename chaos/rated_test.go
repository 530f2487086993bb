package chaos

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestRated: loads of which one is larger than the other, and no faults. All is
// judged as ever; how late deliveries are is told of each load, and up to which one
// 99 % are at most half a second late.
//
//	BELFRY_CHAOS_RATED_SECONDS  how long each load lasts (0: one small load, 3 s)
//	BELFRY_CHAOS_RATES          executions a second, such as 500,1000
//
// It does not run beside others, because what it tells is of time.
func TestRated(t *testing.T) {
	_, l := alone(t, &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}})
	rated(l, 500, 1000, 2000)
}

// TestRatedOnDatabase is the same with the jobs in Cassandra.
//
//	BELFRY_CHAOS_RATED_DATABASES  how many database nodes (1)
func TestRatedOnDatabase(t *testing.T) {
	db := cassandra.Start(t, envInt(t, "BELFRY_CHAOS_RATED_DATABASES", 1))
	_, l := alone(t, onDatabase(t, db, "rated"))
	rated(l, 60, 100, 150, 200, 300, 400)
}

// load99 is how late 99 % of the deliveries of a load may be that a node bears.
const load99 = 500 * time.Millisecond

// rated brings loads of these rates onto a node, one after the other.
func rated(l *load, rates ...int) {
	l.t.Helper()
	lasts := time.Duration(envInt(l.t, "BELFRY_CHAOS_RATED_SECONDS", 0)) * time.Second
	if lasts == 0 {
		lasts, rates = 3*time.Second, []int{40}
	}
	if text := os.Getenv("BELFRY_CHAOS_RATES"); text != "" {
		rates = nil
		for _, one := range strings.Split(text, ",") {
			rate, err := strconv.Atoi(one)
			if err != nil {
				l.t.Fatalf("BELFRY_CHAOS_RATES: %v", err)
			}
			rates = append(rates, rate)
		}
	}
	for _, rate := range rates {
		ends := l.ends(rate, lasts)
		l.registerUntil(ends, rateName(rate), rate, l.ledger.URL)
		<-time.After(time.Until(ends))
		if due := l.history.Slots(); !l.ledger.WaitFor(due, slow(l.t, time.Minute)) {
			l.t.Fatalf("a minute after %d executions a second %d of %d have come", rate, l.ledger.Len(), due)
		}
	}
	l.judge()
	bears := 0
	for _, rate := range rates {
		late := l.latenessOf(rateName(rate))
		l.t.Logf("%d a second for %s: %s", rate, lasts, check.Spread(late))
		if check.Percentile(late, 0.99) <= load99 {
			bears = max(bears, rate)
		}
	}
	l.t.Logf("99 %% are at most %s late up to %d a second", load99, bears)
}

func rateName(rate int) string { return fmt.Sprintf("rate%d", rate) }

// latenessOf is how late each execution of some jobs came first.
func (l *load) latenessOf(name string) []time.Duration {
	var late []time.Duration
	first := map[string]bool{}
	for _, r := range l.history.Receipts {
		if strings.HasPrefix(r.Job, name+"-") && !first[r.Execution] {
			first[r.Execution] = true
			late = append(late, r.Received.Sub(r.ScheduledFor))
		}
	}
	slices.Sort(late)
	return late
}

// ends is when jobs that are registered now, so many, have run for so long: they
// begin some seconds from now, and the last ones are registered later.
func (l *load) ends(jobs int, lasts time.Duration) time.Time {
	l.t.Helper()
	return time.Now().Add(slow(l.t, 2*time.Second+time.Duration(jobs)*time.Millisecond)).Truncate(time.Second).Add(lasts).UTC()
}

// registerUntil registers jobs, each due every second until an end, some hundred at
// a time: what is due of the first ones runs meanwhile.
func (l *load) registerUntil(ends time.Time, name string, n int, target string) {
	l.t.Helper()
	const group = 500
	for i := 0; n > 0; i, n = i+1, n-group {
		first := len(l.history.Jobs)
		l.registerWith(fmt.Sprintf("%s-%d", name, i), min(n, group), time.Second, time.Second, target, map[string]any{"ends_at": ends.Format(time.RFC3339)})
		for j := range l.history.Jobs[first:] {
			l.history.Jobs[first+j].Until = ends
		}
	}
}
