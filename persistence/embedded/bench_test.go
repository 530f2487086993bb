package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

const (
	benchRows       = 200
	benchPartitions = 16
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
func inParallel(b *testing.B, s *Store, owners int, batch func(owner, n int) persistence.Batch) {
	var next atomic.Int64
	var wg sync.WaitGroup
	chains := make([]*chain, owners)
	for o := range chains {
		chains[o] = newChain(b, s, int32(o))
	}
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

var (
	benchSpec  = make([]byte, 300)
	benchState = make([]byte, 120)
)

func benchID(n int) string { return fmt.Sprintf("job-%08d", n) }

func registrations(_, n int) persistence.Batch {
	rows := make([]persistence.Row, benchRows)
	for i := range rows {
		id := benchID(n*benchRows + i)
		rows[i] = persistence.Row{Slice: job.SliceOf(id, benchPartitions), JobID: id, Revision: 1, Status: job.Active, NextRun: 1, Spec: benchSpec, State: benchState}
	}
	return persistence.Batch{Rows: rows}
}

func BenchmarkCommit200(b *testing.B) {
	for _, owners := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("owners=%d", owners), func(b *testing.B) {
			inParallel(b, openDisk(b), owners, registrations)
		})
	}
	b.Run("memory", func(b *testing.B) { // what it costs beside the disk
		s, err := Open(Config{Dir: "data", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		inParallel(b, s, 1, registrations)
	})
}
