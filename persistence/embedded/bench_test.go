package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

const (
	benchRows       = 200
	benchPartitions = 256
	benchJobs       = 1_000_000
)

func openDisk(b *testing.B) *Store {
	b.Helper()
	s, err := Open(Config{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// chain is an owner that commits one batch after another.
type chain struct {
	s    *Store
	held persistence.Fence
}

func newChain(tb testing.TB, s *Store, partition int32) *chain {
	tb.Helper()
	f, err := s.ReadFence(context.Background(), partition)
	if err == nil {
		f, err = s.Acquire(context.Background(), f, persistence.Owner{Node: "n", Incarnation: uuid.New()}, uuid.New())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return &chain{s: s, held: f}
}

func (c *chain) commit(batch persistence.Batch) error {
	batch.OpID = uuid.New()
	next, err := c.s.Commit(context.Background(), c.held, batch)
	if err == nil {
		c.held = next
	}
	return err
}

// perRow reports what a row costs in time, in CPU and in garbage.
func perRow(b *testing.B, batches int, run func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	run()
	b.StopTimer()
	runtime.ReadMemStats(&after)
	n := float64(batches) * benchRows
	b.ReportMetric(n/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/row")
}

// inParallel commits b.N batches from several owners at once.
func inParallel(b *testing.B, chains []*chain, batch func(owner, n int) persistence.Batch) {
	var next atomic.Int64
	var wg sync.WaitGroup
	perRow(b, b.N, func() {
		for o, c := range chains {
			wg.Go(func() {
				for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
					if err := c.commit(batch(o, int(n))); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func newChains(b *testing.B, s *Store, n int) []*chain {
	chains := make([]*chain, n)
	for o := range chains {
		chains[o] = newChain(b, s, int32(o))
	}
	return chains
}

var (
	benchSpec  = make([]byte, 300)
	benchState = make([]byte, 120)
)

func benchID(owner, n int) string { return fmt.Sprintf("job-%03d-%08d", owner, n) }

func registrations(owner, n int) persistence.Batch {
	rows := make([]persistence.Row, benchRows)
	for i := range rows {
		id := benchID(owner, n*benchRows+i)
		rows[i] = persistence.Row{
			Slice: job.SliceOf(id, benchPartitions), JobID: id, Revision: 1, Status: job.Active, NextRun: 1,
			Labels: map[string]string{"team": "billing"}, Spec: benchSpec, State: benchState,
		}
	}
	return persistence.Batch{Rows: rows}
}

// BenchmarkCommit200 registers jobs, two hundred a batch.
func BenchmarkCommit200(b *testing.B) {
	for _, owners := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("owners=%d", owners), func(b *testing.B) {
			inParallel(b, newChains(b, openDisk(b), owners), registrations)
		})
	}
}

// million is a store of a million jobs in 256 partitions, and their owners.
func million(b *testing.B) (*Store, []*chain) {
	b.Helper()
	s := openDisk(b)
	chains := newChains(b, s, benchPartitions)
	var wg sync.WaitGroup
	for o, c := range chains {
		wg.Go(func() {
			for n := range benchJobs / benchPartitions / benchRows {
				if err := c.commit(registrations(o, n)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return s, chains
}

// BenchmarkTrigger changes the state of jobs out of a million, as arming does,
// and as their completion does, with two rows of history each.
func BenchmarkTrigger(b *testing.B) {
	_, chains := million(b)
	each := benchJobs / benchPartitions / benchRows * benchRows
	states := func(owner, n int) persistence.Batch {
		rows := make([]persistence.Row, benchRows)
		for i := range rows {
			id := benchID(owner, (n*7919+i*31)%each)
			rows[i] = persistence.Row{Slice: job.SliceOf(id, benchPartitions), JobID: id, Revision: 1, Status: job.Active, NextRun: int64(n), State: benchState}
		}
		return persistence.Batch{Rows: rows}
	}
	b.Run("armed", func(b *testing.B) { inParallel(b, chains[:16], states) })
	b.Run("completed", func(b *testing.B) {
		inParallel(b, chains[:16], func(owner, n int) persistence.Batch {
			batch := states(owner, n)
			for i := range batch.Rows {
				h := persistence.HistoryRow{Day: 1, JobID: batch.Rows[i].JobID, ScheduledFor: int64(n), Decision: int64(n), Record: benchState}
				h.ExecutionID = h.JobID + "~1~20260101T000000.000Z"
				batch.History = append(batch.History, h)
				h.Attempt = 1
				batch.History = append(batch.History, h)
			}
			return batch
		})
	})
}

// BenchmarkLoad1M loads one after another of 256 partitions with a million jobs.
func BenchmarkLoad1M(b *testing.B) {
	s, _ := million(b)
	var times []time.Duration
	rows := 0
	for n := 0; b.Loop(); n++ {
		begun := time.Now()
		if err := s.Load(b.Context(), int32(n%benchPartitions), 0, job.SlicesPerKind, func(persistence.Row) error { rows++; return nil }); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(times[len(times)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(resident(), "RSS-MB")
}

// resident is the memory of this process as the kernel counts it.
func resident() float64 {
	statm, err := os.ReadFile("/proc/self/statm")
	var total, pages float64
	if err == nil {
		_, err = fmt.Sscan(string(statm), &total, &pages)
	}
	if err != nil {
		return 0
	}
	return pages * float64(os.Getpagesize()) / (1 << 20)
}
