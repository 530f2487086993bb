package wheel

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

const day = 24 * 60 * 60 * 1000

func BenchmarkSchedule(b *testing.B) {
	w := New[int](0)
	timers := make([]Timer[int], 1<<20)
	at := dates(len(timers))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.Schedule(&timers[i%len(timers)], at[i%len(timers)])
	}
}

// BenchmarkPop is a steady state of a million timers: what fires is scheduled
// again within a day.
func BenchmarkPop(b *testing.B) {
	w := New[int](0)
	timers := make([]Timer[int], 1<<20)
	at := dates(len(timers))
	for i := range timers {
		w.Schedule(&timers[i], at[i])
	}
	now := int64(0)
	b.ReportAllocs()
	for i := 0; b.Loop(); {
		t := w.Pop(now)
		if t == nil {
			now, _ = w.Next()
			continue
		}
		i++
		w.Schedule(t, now+at[i%len(at)])
	}
}

func BenchmarkNext(b *testing.B) {
	w := New[int](0)
	w.Schedule(new(Timer[int]), 1<<61)
	for b.Loop() {
		w.Next()
	}
}

// BenchmarkMillion reports the bytes that a timer costs, value included.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	at := dates(n)
	for b.Loop() {
		before := heap()
		w, timers := New[*int](0), make([]Timer[*int], n)
		for i := range timers {
			w.Schedule(&timers[i], at[i])
		}
		b.ReportMetric(float64(heap()-before)/n, "B/timer")
		runtime.KeepAlive(w)
	}
}

func dates(n int) []int64 {
	r := rand.New(rand.NewPCG(1, 2))
	at := make([]int64, n)
	for i := range at {
		at[i] = 1 + r.Int64N(day)
	}
	return at
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
