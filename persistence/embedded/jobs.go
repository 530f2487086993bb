package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// lookEvery is how many rows a read goes through between two looks at its
// context and at the state of the store.
const lookEvery = 128

// putRow adds row i of a batch: one key if only the state changes.
func (s *Store) putRow(p *partition, w *pebble.Batch, rows []persistence.Row, i int) error {
	r := &rows[i]
	p.key = append(appendRow(p.key[:0], p.id, r.Slice, r.JobID, r.Item), partState)
	part := &p.key[len(p.key)-1]
	if r.Delete {
		err := w.Delete(p.key, nil)
		for _, *part = range []byte{partSpec, partLabels} {
			err = errors.Join(err, w.Delete(p.key, nil))
		}
		return err
	}
	state := r.State
	if state == nil {
		var err error
		if state, err = s.keptState(p.key, rows[:i], r); err != nil {
			return err
		}
	}
	p.value = appendState(p.value[:0], r, state)
	err := w.Set(p.key, p.value, nil)
	if r.Spec != nil {
		*part = partSpec
		p.value = appendSpec(p.value[:0], r.Spec)
		err = errors.Join(err, w.Set(p.key, p.value, nil))
	}
	if r.Labels != nil {
		*part = partLabels
		p.value = appendLabels(p.value[:0], r.Labels)
		err = errors.Join(err, w.Set(p.key, p.value, nil))
	}
	return err
}

// keptState finds the state that a row without one keeps: that of an earlier
// row for the same key in its batch, else the stored one.
func (s *Store) keptState(key []byte, earlier []persistence.Row, row *persistence.Row) (state []byte, err error) {
	for i := len(earlier) - 1; i >= 0; i-- {
		r := &earlier[i]
		if r.Slice != row.Slice || r.JobID != row.JobID || r.Item != row.Item {
			continue
		}
		if r.Delete || r.State != nil {
			return r.State, nil
		}
	}
	_, err = s.get(key, func(value []byte) error {
		var stored persistence.Row
		err := decodeState(value, &stored)
		state = bytes.Clone(stored.State)
		return err
	})
	return state, err
}

// Load reads slices of a partition in the order of their keys.
func (s *Store) Load(ctx context.Context, partitionID int32, from, to int16, each func(persistence.Row) error) error {
	if err := s.load(ctx, partitionID, from, to, each); err != nil {
		return fmt.Errorf("load partition %d: %w", partitionID, err)
	}
	return nil
}

func (s *Store) load(ctx context.Context, partitionID int32, from, to int16, each func(persistence.Row) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	if from >= to {
		return nil
	}
	rows, err := s.rows(ctx, appendSlice(nil, partitionID, from), appendSlice(nil, partitionID, to))
	if err != nil {
		return err
	}
	for rows.next() {
		if err = each(rows.row); err != nil {
			break
		}
	}
	return errors.Join(err, rows.close())
}

// Get reads one row.
func (s *Store) Get(ctx context.Context, partitionID int32, slice int16, jobID, item string) (persistence.Row, error) {
	row, err := s.getRow(ctx, partitionID, slice, jobID, item)
	if err != nil {
		return persistence.Row{}, fmt.Errorf("get %s %s: %w", jobID, item, err)
	}
	return row, nil
}

func (s *Store) getRow(ctx context.Context, partitionID int32, slice int16, jobID, item string) (persistence.Row, error) {
	var row persistence.Row
	if err := s.enter(ctx); err != nil {
		return row, err
	}
	defer s.gate.leave()
	if texts(jobID, item) != nil {
		return row, job.ErrNotFound
	}
	// One iterator, or the state of one commit could meet the spec of the next.
	stem := appendRow(nil, partitionID, slice, jobID, item)
	rows, err := s.rows(ctx, append(stem, partState), append(bytes.Clone(stem), partLabels+1))
	if err != nil {
		return row, err
	}
	found := rows.next()
	if err := rows.close(); err != nil {
		return row, err
	}
	if !found {
		return row, job.ErrNotFound
	}
	return rows.row, nil
}

func unreadable(err error) error { return fmt.Errorf("%w: read: %w", job.ErrUnavailable, err) }

// List reads the jobs' own rows through all partitions.
func (s *Store) List(ctx context.Context, after persistence.Position, limit int) (rows []persistence.Row, next persistence.Position, done bool, err error) {
	rows, next, done, err = s.list(ctx, after, limit)
	if err != nil {
		return nil, after, false, fmt.Errorf("list jobs: %w", err)
	}
	return rows, next, done, nil
}

func (s *Store) list(ctx context.Context, after persistence.Position, limit int) (page []persistence.Row, next persistence.Position, done bool, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, after, false, err
	}
	defer s.gate.leave()
	next = after
	start := append(append(appendSlice(nil, after.Partition, after.Slice), after.JobID...), past)
	rows, err := s.rows(ctx, start, []byte{kindRow + 1})
	if err != nil {
		return nil, after, false, err
	}
	rows.onlyJobs = true
	for len(page) < limit && rows.next() {
		page = append(page, rows.row)
		next = persistence.Position{Partition: rows.partition, Slice: rows.row.Slice, JobID: rows.row.JobID}
	}
	done = limit > 0 && !rows.next()
	return page, next, done, rows.close()
}

// Dead reads the dead letters of all partitions.
func (s *Store) Dead(ctx context.Context, after persistence.Position, limit int) (rows []persistence.Row, next persistence.Position, done bool, err error) {
	rows, next, done, err = s.dead(ctx, after, limit)
	if err != nil {
		return nil, after, false, fmt.Errorf("list dead letters: %w", err)
	}
	return rows, next, done, nil
}

func (s *Store) dead(ctx context.Context, after persistence.Position, limit int) (page []persistence.Row, next persistence.Position, done bool, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, after, false, err
	}
	defer s.gate.leave()
	next = after
	start := append(appendRow(nil, after.Partition, after.Slice, after.JobID, after.Item), partLabels+1)
	rows, err := s.rows(ctx, start, []byte{kindRow + 1})
	if err != nil {
		return nil, after, false, err
	}
	rows.onlyDead = true
	for len(page) < limit && rows.next() {
		page = append(page, rows.row)
		next = persistence.Position{Partition: rows.partition, Slice: rows.row.Slice, JobID: rows.row.JobID, Item: rows.row.Item}
	}
	done = limit > 0 && !rows.next()
	return page, next, done, rows.close()
}
