package cql

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// chain is an owner that commits one batch after another.
type chain struct {
	testing.TB
	s    *Store
	held persistence.Fence
}

func newChain(t testing.TB, s *Store, partition int32) *chain {
	t.Helper()
	c := &chain{TB: t, s: s}
	c.take(partition)
	return c
}

// take acquires the partition, however often that must be asked.
func (c *chain) take(partition int32) {
	c.Helper()
	seen, err := c.s.ReadFence(context.Background(), partition)
	c.must("read fence", err)
	op := uuid.New()
	for try := 0; ; try++ {
		c.held, err = c.s.Acquire(context.Background(), seen, persistence.Owner{Node: "n", Incarnation: uuid.New()}, op)
		if !unsettled(err) || try == 50 {
			c.must("acquire", err)
			return
		}
		c.must("wait", pause(context.Background(), backoff(try)))
	}
}

func unsettled(err error) bool {
	return errors.Is(err, persistence.ErrInDoubt) || errors.Is(err, job.ErrUnavailable)
}

// commit writes a batch as an owner does: what the store could not take is sent
// again, unchanged; a doubt is settled, and what is dead then goes out anew.
func (c *chain) commit(batch persistence.Batch) error {
	batch.OpID = uuid.New()
	for try := 0; ; try++ {
		next, err := c.s.Commit(context.Background(), c.held, batch)
		switch {
		case err == nil:
			c.held = next
			return nil
		case errors.Is(err, persistence.ErrInDoubt):
			if applied, err := c.settle(batch.OpID); err != nil || applied {
				return err
			}
			batch.OpID = uuid.New()
		case !errors.Is(err, job.ErrUnavailable) || try == 50:
			return err
		default:
			c.must("wait", pause(context.Background(), backoff(try)))
		}
	}
}

// settle repeats the barrier until it answers.
func (c *chain) settle(batch uuid.UUID) (applied bool, err error) {
	op := uuid.New()
	for try := 0; ; try++ {
		now, applied, err := c.s.Settle(context.Background(), c.held, batch, op)
		if err == nil {
			c.held = now
			return applied, nil
		}
		if !unsettled(err) || try == 100 {
			return false, err
		}
		if err := pause(context.Background(), backoff(try)); err != nil {
			return false, err
		}
	}
}

func (c *chain) must(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}
