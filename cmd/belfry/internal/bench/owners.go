package bench

import (
	"math/bits"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
)

// owners notes when the deliveries of a partition begin to come under a later
// epoch. It is safe for concurrent use.
type owners struct {
	partitions int
	mu         sync.Mutex
	newest     map[int32]int64
	changes    []change
}

// change is the first delivery of a partition under a later epoch.
type change struct {
	partition int32
	at        time.Time
	late      time.Duration // after it was due
}

func newOwners(partitions int) *owners {
	return &owners{partitions: partitions, newest: map[int32]int64{}}
}

// record takes a receipt down. One whose headers cannot be read is the ledger's
// to count.
func (o *owners) record(r Receipt) {
	due, err := time.Parse(time.RFC3339Nano, r.ScheduledFor)
	if err != nil {
		return
	}
	p := o.partition(r.JobID)
	o.mu.Lock()
	defer o.mu.Unlock()
	newest, known := o.newest[p]
	if known && r.Epoch > newest {
		o.changes = append(o.changes, change{p, r.At, r.At.Sub(due)})
	}
	o.newest[p] = max(newest, r.Epoch)
}

// partition of a job: the range of XXH64 that its id falls into.
func (o *owners) partition(jobID string) int32 {
	return int32(xxhash.Sum64String(jobID) >> (64 - bits.TrailingZeros(uint(o.partitions))))
}

// since are the first changes of some partitions after a moment; those that have
// not changed are left out.
func (o *owners) since(at time.Time, partitions map[int32]bool) map[int32]change {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[int32]change{}
	for _, c := range o.changes {
		if _, found := out[c.partition]; !found && c.at.After(at) && partitions[c.partition] {
			out[c.partition] = c
		}
	}
	return out
}
