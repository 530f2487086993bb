package cql

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocql/gocql"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// ended is the answer to a context that is over before anything was sent.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", job.ErrUnavailable, context.Cause(ctx))
}

// unreadable is the outcome of a read that failed.
func unreadable(err error) error { return fmt.Errorf("%w: read: %w", job.ErrUnavailable, err) }

// unwritten is the outcome of a conditional write that was answered with an
// error. Only what is known to have had no effect is ErrUnavailable or invalid;
// everything else, known or not, is in doubt.
func unwritten(err error) error {
	var refusal gocql.RequestError
	if errors.As(err, &refusal) {
		return answeredWith(refusal, err)
	}
	var sent *gocql.QueryError
	if errors.As(err, &sent) && sent.PotentiallyExecuted() {
		return inDoubt(err)
	}
	for _, unsent := range []error{
		gocql.ErrNoConnections, gocql.ErrHostDown, gocql.ErrNoPool, gocql.ErrNoConnectionsInPool,
		gocql.ErrNoStreams, gocql.ErrSessionClosed,
	} {
		if errors.Is(err, unsent) {
			return fmt.Errorf("%w: no connection: %w", job.ErrUnavailable, err)
		}
	}
	return inDoubt(err)
}

// answeredWith judges an error frame of the database.
func answeredWith(refusal gocql.RequestError, err error) error {
	switch refusal.Code() {
	case gocql.ErrCodeInvalid:
		return &invalid{err}
	case gocql.ErrCodeBootstrapping, gocql.ErrCodeUnauthorized, gocql.ErrCodeCredentials, gocql.ErrCodeSyntax:
		return fmt.Errorf("%w: %w", job.ErrUnavailable, err)
	case gocql.ErrCodeUnavailable:
		// Too few replicas for the serial round: nothing was proposed. The same
		// error under another level comes from the round after it.
		var u *gocql.RequestErrUnavailable
		if errors.As(err, &u) && u.Consistency.IsSerial() {
			return fmt.Errorf("%w: %w", job.ErrUnavailable, err)
		}
	}
	return inDoubt(err)
}

// inDoubt carries the cause as text only: a deadline that cut the wait short
// must not be taken for one that ended before the write was sent.
func inDoubt(err error) error { return fmt.Errorf("%w: %v", persistence.ErrInDoubt, err) }

// invalid is a request that the database checked and did not carry out: for the
// content of a row, or since the tables are not what they should be.
type invalid struct{ cause error }

func (e *invalid) Error() string { return "the database calls the request invalid: " + e.cause.Error() }
func (e *invalid) Unwrap() error { return e.cause }

// Is makes an invalid request ErrUnavailable, unless it is found to be about
// its content: nothing was written.
func (e *invalid) Is(target error) bool { return target == job.ErrUnavailable }

// answer is what a conditional write came to. When it was refused, fence is
// what the database holds, as far as the condition names it; found is false
// when it holds none. beat is the same for a node's sign of life; nil: none.
type answer struct {
	applied bool
	found   bool
	fence   persistence.Fence
	beat    *int64
}

// at tells whether the fence found is the one of a write.
func (a answer) at(f persistence.Fence) bool {
	return a.found && a.fence.Epoch == f.Epoch && a.fence.Seq == f.Seq && a.fence.OpID == f.OpID
}

// casRow is one row of an answer, by name. A pointer that stays nil is a null,
// or a column that the answer does not have.
type casRow struct {
	applied    *bool
	epoch, seq *int64
	op         *gocql.UUID
	beat       *int64
}

const appliedColumn = "[applied]"

func (r *casRow) dest() map[string]any {
	return map[string]any{appliedColumn: &r.applied, "epoch": &r.epoch, "seq": &r.seq, "op_id": &r.op, "beat": &r.beat}
}

// readCAS reads the answer to a conditional write from its rows; rows that the
// driver has taken off already come as before.
//
// Cassandra sends one row: [applied], and when refused the columns that the
// condition names, or none of them when there is nothing to compare with.
// ScyllaDB sends a row for each statement, [applied] in all of them, with the
// old values also when applied, and nulls where there are none. An answer that
// is neither is an error, and must not be taken for a refusal.
func readCAS(iter *gocql.Iter, before ...casRow) (a answer, err error) {
	said, promised := hasColumn(iter, appliedColumn), iter.NumRows()
	rows := before
	for {
		var row casRow
		if !iter.MapScan(row.dest()) {
			break
		}
		rows = append(rows, row)
	}
	if err := iter.Close(); err != nil {
		return a, err
	}
	if !said {
		return a, errors.New("the answer does not say whether the write was applied")
	}
	if len(rows) == 0 || len(rows) != promised {
		return a, fmt.Errorf("the answer has %d rows, and %d could be read", promised, len(rows))
	}
	return merge(rows)
}

// unpanicked turns a panic into an error: the driver panics over a frame that
// ends too early.
func unpanicked(read func() (answer, error)) (a answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			a, err = answer{}, fmt.Errorf("the answer cannot be read: %v", v)
		}
	}()
	return read()
}

func hasColumn(iter *gocql.Iter, name string) bool {
	for _, c := range iter.Columns() {
		if c.Name == name {
			return true
		}
	}
	return false
}

// merge makes one answer of its rows.
func merge(rows []casRow) (a answer, err error) {
	for i, r := range rows {
		if r.applied == nil {
			return a, errors.New("a row of the answer does not say whether it was applied")
		}
		if i > 0 && a.applied != *r.applied {
			return a, errors.New("the answer says both that the write was applied and that it was not")
		}
		a.applied = *r.applied
		if a.beat == nil {
			a.beat = r.beat
		}
		if !a.found && r.epoch != nil && r.seq != nil && r.op != nil {
			a.found = true
			a.fence = persistence.Fence{Epoch: *r.epoch, Seq: *r.seq, OpID: uuid.UUID(*r.op)}
		}
	}
	return a, nil
}
