package cql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

const (
	putRow    = "INSERT INTO partitions (p, slice, job_id, item, revision, state_name, next_run_at, labels, spec, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	deleteRow = "DELETE FROM partitions WHERE p = ? AND slice = ? AND job_id = ? AND item = ?"
)

// Commit writes a batch after held, in one conditional request that is sent
// once. Held's LastNumber is taken for the stored one.
func (s *Store) Commit(ctx context.Context, held persistence.Fence, b persistence.Batch) (persistence.Fence, error) {
	next, err := s.commitAfter(ctx, held, &b)
	if err != nil {
		return persistence.Fence{}, fmt.Errorf("commit to partition %d: %w", held.Partition, err)
	}
	return next, nil
}

func (s *Store) commitAfter(ctx context.Context, held persistence.Fence, b *persistence.Batch) (next persistence.Fence, err error) {
	if err := s.enter(ctx); err != nil {
		return next, err
	}
	if err := check(b); err != nil {
		return next, err
	}
	next = follows(held, b.OpID)
	next.LastNumber = max(held.LastNumber, b.LastNumber)
	o := s.outbox(held.Partition)
	e, err := s.reserve(ctx, o, held, next, b.History)
	if err != nil {
		return next, err
	}
	a, err := s.send(ctx, s.batch(ctx, held, next, b, e))
	switch {
	case errors.Is(err, persistence.ErrInDoubt):
		o.doubt(b.OpID, doubt{entry: e, lastNumber: next.LastNumber})
		return next, err
	case err != nil:
		return next, s.refusedContent(ctx, held.Partition, err)
	case a.applied || a.at(next):
		s.commit(o, e)
		return next, nil
	case !a.found:
		if err := s.missing(ctx, held.Partition); err != nil {
			o.doubt(b.OpID, doubt{entry: e, lastNumber: next.LastNumber})
			return next, err
		}
	}
	return next, s.lost(ctx, held, a)
}

// batch is the request: the statement on the fence first, then the rows, then
// the ring of history.
func (s *Store) batch(ctx context.Context, held, next persistence.Fence, b *persistence.Batch, e *entry) *gocql.Batch {
	q := s.db.BatchWithContext(ctx, gocql.UnloggedBatch)
	statement, values := s.fencing(held, next, andLastNumber, next.LastNumber)
	q.Query(statement, values...)
	for _, w := range lastWrites(b.Rows) {
		w.add(q, held.Partition)
	}
	if e != nil {
		e.add(q, held.Partition)
	}
	return q
}

// send sends a batch once, and gives it up when it takes unusually long.
func (s *Store) send(ctx context.Context, q *gocql.Batch) (answer, error) {
	if err := ended(ctx); err != nil {
		return answer{}, err
	}
	q.SetRequestTimeout(s.patience.limit(s.cfg.Timeout))
	sent := time.Now()
	a, err := unpanicked(func() (answer, error) { return casBatch(s.db, q) })
	if err == nil || errors.Is(err, gocql.ErrTimeoutNoResponse) {
		s.patience.add(time.Since(sent))
	}
	return s.judged(a, err)
}

// casBatch runs a conditional batch and reads its answer.
func casBatch(db gocqlx.Session, q *gocql.Batch) (answer, error) {
	var first casRow
	row := first.dest()
	delete(row, appliedColumn) // the driver wants to read that one itself
	applied, iter, err := db.MapExecuteBatchCAS(q, row)
	if err != nil {
		if iter != nil {
			_ = iter.Close()
		}
		return answer{}, err
	}
	if iter.NumRows() == 0 {
		return readCAS(iter)
	}
	first.applied = &applied
	return readCAS(iter, first)
}

// refusedContent finds out what a request was refused for that the database
// calls invalid: a full disk and a missing table are called so, too. When a
// write that has no content and cannot be applied goes through, it is the
// content.
func (s *Store) refusedContent(ctx context.Context, partition int32, err error) error {
	var why *invalid
	if !errors.As(err, &why) {
		return err
	}
	if _, probe := s.cas(s.db.ContextQuery(ctx, neverFence, nil).Bind(partition)); probe != nil {
		return fmt.Errorf("%w: %w", job.ErrUnavailable, err)
	}
	return refused("%s", why.Error())
}

// write is what a batch does to one key in the end.
type write struct {
	persistence.Row
	erased bool // what was stored is gone, also the columns that are nil here
}

// lastWrites folds the rows of a batch so that each key is written once: the
// statements of a batch have one time, so they would not follow one another.
func lastWrites(rows []persistence.Row) []*write {
	type key struct {
		slice     int16
		job, item string
	}
	all := make([]*write, 0, len(rows))
	byKey := make(map[key]*write, len(rows))
	for i := range rows {
		k := key{rows[i].Slice, rows[i].JobID, rows[i].Item}
		if w, ok := byKey[k]; ok {
			w.then(rows[i])
			continue
		}
		w := &write{Row: rows[i]}
		byKey[k] = w
		all = append(all, w)
	}
	return all
}

// then does what the next row for the same key says.
func (w *write) then(r persistence.Row) {
	erased := w.erased || w.Delete
	if r.Delete || w.Delete {
		*w = write{Row: r, erased: erased}
		return
	}
	if r.Spec == nil {
		r.Spec = w.Spec
	}
	if r.State == nil {
		r.State = w.State
	}
	if r.Labels == nil {
		r.Labels = w.Labels
	}
	*w = write{Row: r, erased: erased}
}

// add adds the statement. A nil column keeps what is stored: it is not set.
func (w *write) add(q *gocql.Batch, partition int32) {
	if w.Delete {
		q.Query(deleteRow, partition, w.Slice, w.JobID, w.Item)
		return
	}
	var keep any = gocql.UnsetValue
	if w.erased {
		keep = nil
	}
	labels, spec, state := keep, keep, keep
	if w.Labels != nil {
		labels = w.Labels
	}
	if w.Spec != nil {
		spec = w.Spec
	}
	if w.State != nil {
		state = w.State
	}
	q.Query(putRow, partition, w.Slice, w.JobID, w.Item, w.Revision, string(w.Status), w.NextRun, labels, spec, state)
}
