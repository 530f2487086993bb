package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How far the heap of a node may grow before it is collected: by half, since
// what a node holds is jobs, which stay, and Go's default would double it; but
// by growLeast at any rate, since a small heap is not worth collecting often.
const (
	gcPercent = 50
	growLeast = 256 << 20 // bytes
	gcMost    = 400       // per cent
	gcReview  = 2 * time.Second
)

// spareMemory sets the garbage collector by these rules until ctx ends, unless
// GOGC says otherwise.
func spareMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	go func() {
		tick := time.NewTicker(gcReview)
		defer tick.Stop()
		for {
			debug.SetGCPercent(percentFor(liveHeap()))
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
}

// percentFor is the growth in per cent for a heap of so many live bytes.
func percentFor(live uint64) int {
	if live == 0 {
		return gcMost
	}
	return int(min(max(gcPercent, growLeast*100/live), gcMost))
}

// liveHeap is what the last collection left.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
