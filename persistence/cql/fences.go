package cql

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocql/gocql"
	"github.com/google/uuid"
	"github.com/scylladb/gocqlx/v2"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/guards"
)

// The statements on a fence. Every write to a partition that has one is
// conditional on all of it (ifFence is appended), so that a refusal tells who
// won: it returns only the columns that the condition names.
const (
	selectFence = "SELECT epoch, seq, op_id, owner, owner_incarnation, last_number FROM partitions WHERE p = ? LIMIT 1"
	createFence = "INSERT INTO partitions (p, slice, job_id, item, epoch, seq, op_id, last_number) VALUES (?, -1, '', '', 0, 0, ?, 0) IF NOT EXISTS"

	setFence = "UPDATE partitions SET seq = ?, op_id = ?"
	ofFence  = " WHERE p = ?"
	ifFence  = " IF epoch = ? AND seq = ? AND op_id = ?"

	// What each write sets beside seq and op_id.
	andEpoch      = ", epoch = ?"
	andOwner      = ", owner = ?, owner_incarnation = ?"
	andLastNumber = ", last_number = ?"

	neverFence = "UPDATE partitions SET epoch = 0 WHERE p = ? IF epoch = -1" // no epoch is negative
)

// dbFence is a fence as the driver reads it.
type dbFence struct {
	Epoch, Seq       *int64
	OpID             *gocql.UUID
	Owner            string
	OwnerIncarnation gocql.UUID
	LastNumber       int64
}

func (f *dbFence) fence(partition int32) persistence.Fence {
	return persistence.Fence{
		Partition: partition, Epoch: *f.Epoch, Seq: *f.Seq, OpID: uuid.UUID(*f.OpID),
		Owner: f.Owner, Incarnation: uuid.UUID(f.OwnerIncarnation), LastNumber: f.LastNumber,
	}
}

// look reads a fence in a serial round, which ends whatever was half done.
func (s *Store) look(ctx context.Context, partition int32) (f persistence.Fence, found bool, err error) {
	var row dbFence
	err = s.again(ctx, func() error {
		row = dbFence{}
		return s.db.ContextQuery(ctx, selectFence, nil).Bind(partition).Consistency(gocql.LocalSerial).GetRelease(&row)
	})
	if errors.Is(err, gocql.ErrNotFound) {
		return f, false, nil
	}
	if err != nil {
		return f, false, unreadable(err)
	}
	if row.Epoch == nil || row.Seq == nil || row.OpID == nil {
		return f, false, nil // rows without a fence: not made by this program
	}
	return row.fence(partition), true, nil
}

// ReadFence returns a partition's fence, making it on first use. That writes
// constants, so it may be repeated by anybody at any time.
func (s *Store) ReadFence(ctx context.Context, partition int32) (persistence.Fence, error) {
	f, err := s.readFence(ctx, partition)
	if err != nil {
		return persistence.Fence{}, fmt.Errorf("read fence of partition %d: %w", partition, err)
	}
	return f, nil
}

func (s *Store) readFence(ctx context.Context, partition int32) (persistence.Fence, error) {
	if err := s.enter(ctx); err != nil {
		return persistence.Fence{}, err
	}
	var failed error
	for range readTries {
		f, found, err := s.look(ctx, partition)
		if err != nil || found {
			return f, err
		}
		_, failed = s.create(ctx, partition)
	}
	return persistence.Fence{}, fmt.Errorf("%w: the fence is not there after it was made: %v", job.ErrUnavailable, failed)
}

// create makes the first fence of a partition, and tells whether it did.
func (s *Store) create(ctx context.Context, partition int32) (bool, error) {
	q := s.db.ContextQuery(ctx, createFence, nil).Bind(partition, gocql.UUID{})
	a, err := s.cas(q)
	if err != nil {
		return false, fmt.Errorf("%w: make the fence: %v", job.ErrUnavailable, err)
	}
	return a.applied, nil
}

// cas runs a conditional statement once.
func (s *Store) cas(q *gocqlx.Queryx) (answer, error) {
	defer q.Release()
	q.SetRequestTimeout(s.cfg.Timeout)
	a, err := unpanicked(func() (answer, error) { return readCAS(q.Iter().Iter) })
	return s.judged(a, err)
}

// judged turns the error of a conditional write into an outcome and keeps
// account of how the database is.
func (s *Store) judged(a answer, err error) (answer, error) {
	if err == nil {
		s.health.answered()
		return a, nil
	}
	s.health.doubtful()
	return a, unwritten(err)
}

// fencing is the statement that moves a fence from held to next, and its
// values. more is what it sets beside seq and op_id.
func (s *Store) fencing(held, next persistence.Fence, more string, values ...any) (statement string, all []any) {
	all = append([]any{next.Seq, gocql.UUID(next.OpID)}, append(values, held.Partition)...)
	if s.cfg.seams.unfenced || guards.NoFence {
		return setFence + more + ofFence + " IF epoch >= 0", all
	}
	return setFence + more + ofFence + ifFence, append(all, held.Epoch, held.Seq, gocql.UUID(held.OpID))
}

// move takes a fence from held to next, with nothing else. done tells that it
// stands there, also when it was moved by an earlier call of the same name.
func (s *Store) move(ctx context.Context, held, next persistence.Fence, more string, values ...any) (a answer, done bool, err error) {
	if err := named(next.OpID); err != nil {
		return a, false, err
	}
	if err := s.turn(ctx); err != nil {
		return a, false, err
	}
	defer func() { <-s.turns }()
	statement, values := s.fencing(held, next, more, values...)
	for range 2 {
		a, err = s.cas(s.db.ContextQuery(ctx, statement, nil).Bind(values...))
		if err != nil || a.applied || a.found {
			break
		}
		if err = s.missing(ctx, held.Partition); err != nil {
			break
		}
	}
	return a, a.applied || a.at(next), err
}

// missing is called after a refusal that names no fence. When there was none,
// it is made now; when there was one, the answer makes no sense.
func (s *Store) missing(ctx context.Context, partition int32) error {
	made, err := s.create(ctx, partition)
	if err == nil && !made {
		err = inDoubt(errors.New("a refusal does not name the fence that it found"))
	}
	return err
}

// lost is the outcome of a write that another one was ahead of: it tells who
// has the partition now. The refusal alone names no owner.
func (s *Store) lost(ctx context.Context, held persistence.Fence, a answer) error {
	if older(a.fence, held) {
		s.log.Error("the database holds an older fence than an owner does: a fault of this program, or lost data",
			"partition", held.Partition, "epoch", held.Epoch, "seq", held.Seq, "stored_epoch", a.fence.Epoch, "stored_seq", a.fence.Seq)
	}
	holder, found, err := s.look(ctx, held.Partition)
	if err != nil || !found {
		holder = a.fence
		holder.Partition = held.Partition
	}
	return &persistence.Fenced{Holder: holder}
}

func older(f, than persistence.Fence) bool {
	return f.Epoch < than.Epoch || f.Epoch == than.Epoch && f.Seq < than.Seq
}

// Acquire takes a partition after seen. Called again with the same op it
// answers the same, and so settles its own doubt.
func (s *Store) Acquire(ctx context.Context, seen persistence.Fence, by persistence.Owner, op uuid.UUID) (persistence.Fence, error) {
	next := persistence.Fence{
		Partition: seen.Partition, Epoch: seen.Epoch + 1, Seq: seen.Seq + 1, OpID: op,
		Owner: by.Node, Incarnation: by.Incarnation, LastNumber: seen.LastNumber,
	}
	if err := s.takeTo(ctx, seen, next, andEpoch+andOwner, next.Epoch, next.Owner, gocql.UUID(next.Incarnation)); err != nil {
		return persistence.Fence{}, fmt.Errorf("acquire partition %d: %w", seen.Partition, err)
	}
	s.acquired(next)
	return next, nil
}

// takeTo moves a fence, and tells who was faster.
func (s *Store) takeTo(ctx context.Context, held, next persistence.Fence, more string, values ...any) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	a, done, err := s.move(ctx, held, next, more, values...)
	if err == nil && !done {
		err = s.lost(ctx, held, a)
	}
	return err
}

// Release gives a partition up. Called again with the same op it answers the
// same.
func (s *Store) Release(ctx context.Context, held persistence.Fence, op uuid.UUID) error {
	next := held
	next.Seq++
	next.OpID = op
	next.Owner, next.Incarnation = "", uuid.Nil
	if err := s.takeTo(ctx, held, next, andOwner, next.Owner, gocql.UUID(next.Incarnation)); err != nil {
		return fmt.Errorf("release partition %d: %w", held.Partition, err)
	}
	return nil
}
