package embedded

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// oneTimeJobsEnv sets how many one-time jobs come and go; a million is the
// number that Belfry promises to live with.
const oneTimeJobsEnv = "BELFRY_ONE_TIME_JOBS"

const defaultOneTimeJobs = 100_000

// slower is how much slower the last commits may be than the first: enough to
// excuse a busy machine, and far below what walking over the removed would cost.
const slower = 5

// TestOneTimeJobsLeaveNoWeight makes one-time jobs in one partition and removes
// them. Commits, acquires and loads must not slow down for the removed ones.
func TestOneTimeJobsLeaveNoWeight(t *testing.T) {
	total := number(oneTimeJobsEnv, defaultOneTimeJobs)
	cfg := small(vfs.NewMem())
	cfg.MemTableBytes = 4 << 20
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	c := newChain(t, s, 0)
	keeper := persistence.Row{Slice: 63, JobID: "keeper", Status: job.Active, State: []byte("here")}
	if err := c.commit(persistence.Batch{Rows: []persistence.Row{keeper}}); err != nil {
		t.Fatal(err)
	}

	const each = 100 // jobs a batch makes; it removes those of the batch before
	times := comeAndGo(t, c, total, each)
	window := len(times) / 5
	first, last := median(times[:window]), median(times[len(times)-window:])
	t.Logf("%d jobs made and removed; a commit took %v at first and %v at last", total, first, last)
	if last > slower*max(first, 100*time.Microsecond) {
		t.Errorf("a commit took %v at first, and %v after %d one-time jobs", first, last, total)
	}
	loaded := loadTime(t, s, 1)
	t.Logf("loading the one job that is left took %v", loaded)
	if loaded > 10*time.Second {
		t.Errorf("loading the one job that is left took %v", loaded)
	}
}

// comeAndGo returns how long each commit took.
func comeAndGo(t *testing.T, c *chain, total, each int) (times []time.Duration) {
	t.Helper()
	var previous []persistence.Row
	for n := 0; n < total; n += each {
		rows := oneTimeJobs(n, each)
		begun := time.Now()
		if err := c.commit(persistence.Batch{Rows: append(slices.Clone(rows), previous...)}); err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(begun))
		previous = removal(rows)
	}
	if err := c.commit(persistence.Batch{Rows: previous}); err != nil {
		t.Fatal(err)
	}
	return times
}

func oneTimeJobs(from, n int) []persistence.Row {
	rows := make([]persistence.Row, n)
	for i := range rows {
		id := fmt.Sprintf("once-%d", from+i)
		rows[i] = persistence.Row{Slice: job.SliceOf(id, 16), JobID: id, Status: job.Active, NextRun: 1, Spec: benchSpec, State: benchState}
	}
	return rows
}

func removal(rows []persistence.Row) []persistence.Row {
	gone := make([]persistence.Row, len(rows))
	for i, r := range rows {
		gone[i] = persistence.Row{Slice: r.Slice, JobID: r.JobID, Delete: true}
	}
	return gone
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// loadTime is how long it takes to load a partition, slice by slice.
func loadTime(t testing.TB, s *Store, want int) time.Duration {
	t.Helper()
	begun, rows := time.Now(), 0
	for slice := range int16(job.SlicesPerKind) {
		if err := s.Load(t.Context(), 0, slice, slice+1, func(persistence.Row) error { rows++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if rows != want {
		t.Fatalf("%d rows were loaded, want %d", rows, want)
	}
	return time.Since(begun)
}
