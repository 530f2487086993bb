package cql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gocql/gocql"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

const (
	selectConstants = "SELECT spec FROM partitions WHERE p = ? AND slice = -1 AND job_id = '' AND item = ''"
	createConstants = "INSERT INTO partitions (p, slice, job_id, item, epoch, seq, op_id, last_number, spec) VALUES (?, -1, '', '', 0, 0, ?, 0, ?) IF NOT EXISTS"
	setConstants    = "UPDATE partitions SET spec = ? WHERE p = ? AND slice = -1 AND job_id = '' AND item = '' IF spec = null"
	swapConstants   = "UPDATE partitions SET spec = ? WHERE p = ? AND slice = -1 AND job_id = '' AND item = '' IF spec = ?"

	constantsFormat = 1
)

// constants is what is fixed when a cluster is created. They lie in the
// sentinel row of the system partition.
type constants struct {
	persistence.Cluster
	serialDC string // whose replicas agree on conditional writes
}

// Cluster returns the stored constants, and stores the wanted ones when there
// are none. *persistence.Mismatch names the first that does not admit the node.
func (s *Store) Cluster(ctx context.Context, want persistence.Cluster) (persistence.Cluster, error) {
	if err := s.enter(ctx); err != nil {
		return persistence.Cluster{}, fmt.Errorf("cluster constants: %w", err)
	}
	stored, found, err := s.readConstants(ctx)
	if err == nil && !found {
		stored, err = s.createConstants(ctx, want)
	}
	if err != nil {
		return persistence.Cluster{}, fmt.Errorf("cluster constants: %w", err)
	}
	s.partitions.Store(int32(stored.Partitions))
	return stored.Cluster, stored.admit(constants{want, s.cfg.LocalDC})
}

func (s *Store) readConstants(ctx context.Context) (c constants, found bool, err error) {
	var spec []byte
	err = s.again(ctx, func() error {
		return s.db.ContextQuery(ctx, selectConstants, nil).Bind(job.SystemPartition).Consistency(gocql.LocalSerial).GetRelease(&spec)
	})
	if errors.Is(err, gocql.ErrNotFound) || err == nil && len(spec) == 0 {
		return c, false, nil
	}
	if err != nil {
		return c, false, unreadable(err)
	}
	c, err = decodeConstants(spec)
	return c, err == nil, err
}

// createConstants stores the constants unless somebody else has, with the
// sentinel or in one that is there already. Whoever was first, what is read
// afterwards holds.
func (s *Store) createConstants(ctx context.Context, want persistence.Cluster) (constants, error) {
	if want.ID == uuid.Nil {
		want.ID = uuid.New()
	}
	spec := (&constants{want, s.cfg.LocalDC}).encode()
	a, err := s.cas(s.db.ContextQuery(ctx, createConstants, nil).Bind(job.SystemPartition, gocql.UUID{}, spec))
	if err == nil && !a.applied {
		_, err = s.cas(s.db.ContextQuery(ctx, setConstants, nil).Bind(spec, job.SystemPartition))
	}
	if err != nil {
		return constants{}, fmt.Errorf("%w: store them: %v", job.ErrUnavailable, err)
	}
	c, found, err := s.readConstants(ctx)
	if err == nil && !found {
		err = fmt.Errorf("%w: they were stored and are not there", job.ErrUnavailable)
	}
	return c, err
}

// partitionCount is that of the cluster.
func (s *Store) partitionCount(ctx context.Context) (int32, error) {
	if n := s.partitions.Load(); n > 0 {
		return n, nil
	}
	c, found, err := s.readConstants(ctx)
	if err != nil || !found {
		return 0, err
	}
	s.partitions.Store(int32(c.Partitions))
	return int32(c.Partitions), nil
}

func (c constants) admit(want constants) error {
	if err := c.Admit(want.Cluster); err != nil {
		return err
	}
	if c.serialDC != want.serialDC {
		return &persistence.Mismatch{Setting: "serial data centre", Stored: c.serialDC, Want: want.serialDC}
	}
	return nil
}

// RaiseFormat raises the stored format unless the constants have changed
// meanwhile. A write that is in doubt may still be applied later: that raises
// to the same format, which was asked for.
func (s *Store) RaiseFormat(ctx context.Context, from, to int) error {
	if err := s.raiseFormat(ctx, from, to); err != nil {
		return fmt.Errorf("raise the format from %d to %d: %w", from, to, err)
	}
	return nil
}

func (s *Store) raiseFormat(ctx context.Context, from, to int) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	stored, found, err := s.readConstants(ctx)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: the cluster has no constants yet", job.ErrUnavailable)
	}
	raised, change, err := stored.Raise(from, to)
	if err != nil || !change {
		return err
	}
	next := constants{raised, stored.serialDC}
	a, err := s.cas(s.db.ContextQuery(ctx, swapConstants, nil).Bind(next.encode(), job.SystemPartition, stored.encode()))
	if err != nil || a.applied {
		return err
	}
	if stored, _, err = s.readConstants(ctx); err != nil {
		return err
	}
	_, change, err = stored.Raise(from, to)
	if err == nil && change {
		err = fmt.Errorf("%w: the constants changed while they were written", job.ErrUnavailable)
	}
	return err
}

func (c *constants) encode() []byte {
	b := append([]byte{constantsFormat}, c.ID[:]...)
	b = binary.AppendVarint(b, int64(c.Partitions))
	b = binary.AppendVarint(b, int64(c.Format))
	return appendBytes(appendBytes(b, c.Hash), c.serialDC)
}

var errConstants = errors.New("the stored constants are malformed, or were written by a newer version of Belfry")

func decodeConstants(b []byte) (c constants, err error) {
	d := decoder{rest: b}
	if d.byte() != constantsFormat || len(d.rest) < len(c.ID) {
		return c, errConstants
	}
	copy(c.ID[:], d.rest)
	d.rest = d.rest[len(c.ID):]
	c.Partitions, c.Format = int(d.varint()), int(d.varint())
	c.Hash, c.serialDC = string(d.bytes()), string(d.bytes())
	if d.bad {
		return c, errConstants
	}
	return c, nil
}
