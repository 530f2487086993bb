package embedded

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/persistence"
)

// partition is what is kept of a partition that has been touched.
type partition struct {
	turn chan struct{} // holds one token while somebody has the partition
	id   int32

	// Invariant: while known, fence is what the store holds, and it is on disk.
	// Guarded by turn, as are the buffers.
	fence persistence.Fence
	known bool

	key, value []byte // reused by each commit
}

// with runs do while it has the partition, its fence read and made if need be.
func (s *Store) with(ctx context.Context, what string, id int32, do func(*partition) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s partition %d: %w", what, id, err)
		}
	}()
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	p := s.partition(id)
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ended(ctx)
	}
	defer func() { <-p.turn }()
	if err := s.know(p); err != nil {
		return err
	}
	return do(p)
}

func (s *Store) partition(id int32) *partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.partitions[id]
	if p == nil {
		p = &partition{id: id, turn: make(chan struct{}, 1), fence: persistence.Fence{Partition: id}}
		s.partitions[id] = p
	}
	return p
}

// know reads the fence, or makes the first one.
func (s *Store) know(p *partition) error {
	if p.known {
		return nil
	}
	p.key = appendFenceKey(p.key[:0], p.id)
	found, err := s.get(p.key, func(value []byte) (err error) {
		p.fence, err = decodeFence(value, p.id)
		return err
	})
	if err == nil && !found {
		return s.move(p, s.db.NewBatch(), persistence.Fence{Partition: p.id})
	}
	p.known = err == nil
	return err
}

// move writes a batch that leaves the partition with the fence to, and
// remembers it once the batch is on disk.
func (s *Store) move(p *partition, b *pebble.Batch, to persistence.Fence) error {
	if err := s.room.check(); err != nil {
		return err
	}
	p.key = appendFenceKey(p.key[:0], p.id)
	p.value = appendFence(p.value[:0], &to)
	if err := b.Set(p.key, p.value, nil); err != nil {
		return err
	}
	if err := s.write(b); err != nil {
		return err
	}
	p.fence, p.known = to, true
	return nil
}

// follows tells whether the partition still stands where a caller believes it
// to stand.
func (p *partition) follows(held persistence.Fence) bool {
	return p.fence.Epoch == held.Epoch && p.fence.Seq == held.Seq && p.fence.OpID == held.OpID
}

func (p *partition) fenced() error { return &persistence.Fenced{Holder: p.fence} }

// ReadFence returns a partition's fence, making it on first use.
func (s *Store) ReadFence(ctx context.Context, partitionID int32) (f persistence.Fence, err error) {
	err = s.with(ctx, "read fence of", partitionID, func(p *partition) error {
		f = p.fence
		return nil
	})
	return f, err
}

// Acquire takes a partition after seen. Called again with the same op it
// answers the same.
func (s *Store) Acquire(ctx context.Context, seen persistence.Fence, by persistence.Owner, op uuid.UUID) (f persistence.Fence, err error) {
	err = s.with(ctx, "acquire", seen.Partition, func(p *partition) error {
		if err := named(op); err != nil {
			return err
		}
		next := persistence.Fence{
			Partition: p.id, Epoch: seen.Epoch + 1, Seq: seen.Seq + 1, OpID: op,
			Owner: by.Node, Incarnation: by.Incarnation, LastNumber: p.fence.LastNumber,
		}
		if p.follows(seen) {
			if err := s.move(p, s.db.NewBatch(), next); err != nil {
				return err
			}
		} else if !p.follows(next) {
			return p.fenced()
		}
		f = p.fence
		return nil
	})
	return f, err
}

// Commit writes a batch after held. Its outcome is known when it returns, also
// when ctx has ended meanwhile: once begun it is not given up. Only a disk that
// fails under it leaves a doubt, see the package comment.
func (s *Store) Commit(ctx context.Context, held persistence.Fence, b persistence.Batch) (f persistence.Fence, err error) {
	err = s.with(ctx, "commit to", held.Partition, func(p *partition) error {
		if !p.follows(held) {
			return p.fenced()
		}
		if err := check(&b); err != nil {
			return err
		}
		next := p.fence
		next.Seq++
		next.OpID = b.OpID
		next.LastNumber = max(next.LastNumber, b.LastNumber)
		w, err := s.encode(p, &b)
		if err != nil {
			return err
		}
		if err := s.move(p, w, next); err != nil {
			return err
		}
		f = next
		return nil
	})
	return f, err
}

// encode puts the rows and the history of a batch into one of pebble's.
func (s *Store) encode(p *partition, b *persistence.Batch) (*pebble.Batch, error) {
	w := s.db.NewBatchWithSize(size(b))
	for i := range b.Rows {
		if err := s.putRow(p, w, b.Rows, i); err != nil {
			return nil, err
		}
	}
	for i := range b.History {
		if err := p.putHistory(w, &b.History[i]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// size is a batch's length in pebble's log, a little more rather than less.
func size(b *persistence.Batch) int {
	n := 256
	for i := range b.Rows {
		n += b.Rows[i].Bytes() + 32 + len(b.Rows[i].JobID)
	}
	for i := range b.History {
		h := &b.History[i]
		n += len(h.JobID) + len(h.ExecutionID) + len(h.Record) + 64
	}
	return n
}

// Settle tells whether a batch that followed held is in the store, and kills it
// if not. Every commit here is known, so one look at the fence is enough.
func (s *Store) Settle(ctx context.Context, held persistence.Fence, batch, op uuid.UUID) (now persistence.Fence, applied bool, err error) {
	err = s.with(ctx, "settle", held.Partition, func(p *partition) error {
		if err := named(op); err != nil {
			return err
		}
		done, dead := held, held
		done.Seq++
		done.OpID = batch
		dead.Epoch++
		dead.Seq++
		dead.OpID = op
		switch {
		case p.follows(done):
			applied = true
		case p.follows(held):
			next := p.fence
			next.Epoch, next.Seq, next.OpID = dead.Epoch, dead.Seq, dead.OpID
			if err := s.move(p, s.db.NewBatch(), next); err != nil {
				return err
			}
		case !p.follows(dead):
			return p.fenced()
		}
		now = p.fence
		return nil
	})
	return now, applied, err
}

// Release gives a partition up. Called again with the same op it answers the
// same.
func (s *Store) Release(ctx context.Context, held persistence.Fence, op uuid.UUID) error {
	return s.with(ctx, "release", held.Partition, func(p *partition) error {
		if err := named(op); err != nil {
			return err
		}
		next := p.fence
		next.Epoch, next.Seq, next.OpID = held.Epoch, held.Seq+1, op
		next.Owner, next.Incarnation = "", uuid.Nil
		switch {
		case p.follows(held):
			return s.move(p, s.db.NewBatch(), next)
		case p.follows(next):
			return nil
		}
		return p.fenced()
	})
}
