package cql

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

var (
	benchSpec  = make([]byte, 300)
	benchState = make([]byte, 120)
)

func benchRow(owner, n int) persistence.Row {
	id := fmt.Sprintf("job-%03d-%08d", owner, n)
	return persistence.Row{
		Slice: job.SliceOf(id, 16), JobID: id, Revision: 1, Status: job.Active, NextRun: 1,
		Labels: map[string]string{"team": "billing"}, Spec: benchSpec, State: benchState,
	}
}

func benchHistory(owner, n int) persistence.HistoryRow {
	id := fmt.Sprintf("job-%03d-%08d", owner, n%5000)
	return persistence.HistoryRow{
		Day: 20_500, JobID: id, ScheduledFor: int64(20_500)*86_400_000 + int64(n), Decision: int64(n), Epoch: 1,
		ExecutionID: id + "~1~20260101T000000.000Z", Record: benchState,
	}
}

// inParallel commits b.N batches from several owners at once.
func inParallel(b *testing.B, s *Store, owners, rows, history int) {
	chains := make([]*chain, owners)
	for o := range chains {
		chains[o] = newChain(b, s, int32(o))
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for o, c := range chains {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				var batch persistence.Batch
				for i := range rows {
					batch.Rows = append(batch.Rows, benchRow(o, int(n)*rows+i))
				}
				for i := range history {
					batch.History = append(batch.History, benchHistory(o, int(n)*history+i))
				}
				if err := c.commit(batch); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s.drain(lastCopies * 10)
	b.StopTimer()
	b.ReportMetric(float64(b.N*(rows+history))/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkCommit compares batches of 200 rows with conditional writes of one.
func BenchmarkCommit(b *testing.B) {
	s := setup(b).open()
	for _, owners := range []int{1, 4, 16} {
		for _, rows := range []int{1, 50, 200} {
			b.Run(fmt.Sprintf("owners=%d/rows=%d", owners, rows), func(b *testing.B) { inParallel(b, s, owners, rows, 0) })
		}
	}
}

// BenchmarkHistory commits batches with history, and waits for the copies.
func BenchmarkHistory(b *testing.B) {
	s := setup(b).open()
	for _, owners := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("owners=%d/history=100", owners), func(b *testing.B) { inParallel(b, s, owners, 50, 100) })
	}
}

// BenchmarkLoad reads a partition of 4,000 jobs.
func BenchmarkLoad(b *testing.B) {
	s := setup(b).open()
	c := newChain(b, s, 0)
	for n := range 20 {
		var batch persistence.Batch
		for i := range 200 {
			batch.Rows = append(batch.Rows, benchRow(0, n*200+i))
		}
		if err := c.commit(batch); err != nil {
			b.Fatal(err)
		}
	}
	rows := 0
	for b.Loop() {
		if err := s.Load(b.Context(), 0, 0, 192, func(persistence.Row) error { rows++; return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
