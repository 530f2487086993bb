package cql

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/persistence"
)

// Settle is the barrier: it moves the fence on under the next epoch, after
// which a batch that followed held can no longer be applied, or it is refused
// by that batch. ErrInDoubt and ErrUnavailable: call it again with the same op.
func (s *Store) Settle(ctx context.Context, held persistence.Fence, batch, op uuid.UUID) (now persistence.Fence, applied bool, err error) {
	now, applied, err = s.settle(ctx, held, batch, op)
	if err != nil {
		return persistence.Fence{}, false, fmt.Errorf("settle partition %d: %w", held.Partition, err)
	}
	return now, applied, nil
}

func (s *Store) settle(ctx context.Context, held persistence.Fence, batch, op uuid.UUID) (persistence.Fence, bool, error) {
	if err := s.enter(ctx); err != nil {
		return held, false, err
	}
	dead := held
	dead.Epoch++
	dead.Seq++
	dead.OpID = op
	a, done, err := s.move(ctx, held, dead, andEpoch, dead.Epoch)
	if err != nil {
		return held, false, err
	}
	o := s.outbox(held.Partition)
	if done {
		o.settled(batch)
		o.raised(held.Epoch, dead.Epoch)
		return dead, false, nil
	}
	if !a.at(follows(held, batch)) {
		o.settled(batch)
		return held, false, s.lost(ctx, held, a)
	}
	now, err := s.applied(ctx, o, held, batch)
	return now, err == nil, err
}

// follows is the fence that a batch leaves, but for its last number.
func follows(held persistence.Fence, batch uuid.UUID) persistence.Fence {
	held.Seq++
	held.OpID = batch
	return held
}

// applied ends the doubt about a batch that the barrier found in the store.
// What it set the last number to is known if this process sent it, and read if
// another one did.
func (s *Store) applied(ctx context.Context, o *outbox, held persistence.Fence, batch uuid.UUID) (persistence.Fence, error) {
	now := follows(held, batch)
	if d := o.settled(batch); d != nil {
		now.LastNumber = d.lastNumber
		s.commit(o, d.entry)
		return now, nil
	}
	stored, found, err := s.look(ctx, held.Partition)
	if err != nil {
		return now, err
	}
	if found {
		now.LastNumber = stored.LastNumber
	}
	return now, nil
}
