package cql

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// outbox is what this process knows of a partition's ring.
type outbox struct {
	partition int32

	mu sync.Mutex
	// The chain of epochs that an owner here has made of one acquire and its own
	// barriers. Invariant: while known, every batch of history that was committed
	// before the chain began is in the history table or in pending.
	from, to int64
	known    bool
	// Invariant: by seq, ascending; committed, and perhaps not in the table.
	pending []*entry
	doubts  map[uuid.UUID]doubt // batches that wait for Settle
	copying bool                // somebody copies pending
	changed chan struct{}       // closed at the next change of the above
}

// doubt is a batch whose outcome is unknown.
type doubt struct {
	entry      *entry // nil: it has no history
	lastNumber int64
}

func newOutbox(partition int32) *outbox {
	return &outbox{partition: partition, from: -1, to: -1, doubts: map[uuid.UUID]doubt{}, changed: make(chan struct{})}
}

// change wakes whoever waits. The caller has the lock.
func (o *outbox) change() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// reserve waits until the ring has room for the history of the batch that makes
// next of held, and makes its entry: nil when there is no history.
func (s *Store) reserve(ctx context.Context, o *outbox, held, next persistence.Fence, rows []persistence.HistoryRow) (*entry, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	for {
		copied, ok, changed := s.room(o, held, next.Seq)
		if ok {
			return &entry{seq: next.Seq, copied: copied, at: time.Now().Unix(), rows: rows}, nil
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil, errClosed
		case <-ctx.Done():
			// Not the context's own error: nothing was sent, and there is no doubt.
			return nil, fmt.Errorf("%w: copies of history are behind: %v", job.ErrUnavailable, context.Cause(ctx))
		}
	}
}

// room tells whether the slot of a seq may be overwritten, and up to which seq
// everything is copied. A stale owner is let through: it is refused anyway.
func (s *Store) room(o *outbox, held persistence.Fence, seq int64) (copied int64, ok bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if held.Epoch < o.from {
		return 0, true, nil
	}
	if held.Epoch > o.to {
		s.begin(o, held.Epoch) // acquired elsewhere, and handed over
	}
	copied = held.Seq
	if len(o.pending) > 0 {
		copied = min(copied, o.pending[0].seq-1)
	}
	return copied, o.known && copied > seq-ringSlots-1, o.changed
}

// acquired begins a new chain.
func (s *Store) acquired(f persistence.Fence) {
	o := s.outbox(f.Partition)
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.Epoch > o.to {
		s.begin(o, f.Epoch)
	}
}

// begin begins a chain whose ring is to be read. The caller has the lock.
func (s *Store) begin(o *outbox, epoch int64) {
	o.from, o.to, o.known = epoch, epoch, false
	clear(o.doubts) // what of them was applied is found in the ring
	o.change()
	s.start(func() { s.recover(o, epoch) })
}

// raised follows our own barrier.
func (o *outbox) raised(from, to int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.from <= from && from <= o.to {
		o.to = max(o.to, to)
	}
}

// doubt keeps a batch until Settle tells what became of it.
func (o *outbox) doubt(op uuid.UUID, d doubt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.doubts[op] = d
}

// settled forgets a doubt and returns it.
func (o *outbox) settled(op uuid.UUID) *doubt {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok := o.doubts[op]
	if !ok {
		return nil
	}
	delete(o.doubts, op)
	return &d
}

// commit hands the history of a batch that is applied to the copier.
func (s *Store) commit(o *outbox, entries ...*entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range entries {
		if e == nil {
			continue
		}
		i, there := slices.BinarySearchFunc(o.pending, e.seq, func(p *entry, seq int64) int { return int(p.seq - seq) })
		if !there {
			o.pending = slices.Insert(o.pending, i, e)
		}
	}
	if len(o.pending) > 0 && !o.copying {
		o.copying = true
		s.start(func() { s.copy(o) })
	}
}

// idle tells whether nothing waits to be copied, or what to wait for.
func (o *outbox) idle() (bool, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending) == 0, o.changed
}

// drain waits until nothing is left to be copied, for a while at most.
func (s *Store) drain(most time.Duration) {
	s.mu.Lock()
	boxes := make([]*outbox, 0, len(s.outboxes))
	for _, o := range s.outboxes {
		boxes = append(boxes, o)
	}
	s.mu.Unlock()
	over := time.NewTimer(most)
	defer over.Stop()
	for _, o := range boxes {
		for idle, changed := o.idle(); !idle; idle, changed = o.idle() {
			select {
			case <-changed:
			case <-over.C:
				return
			}
		}
	}
}
