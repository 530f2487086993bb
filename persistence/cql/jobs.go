package cql

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocql/gocql"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

const (
	rowColumns = "SELECT slice, job_id, item, revision, state_name, next_run_at, labels, spec, state FROM partitions WHERE p = ? AND "
	selectRows = rowColumns + "(slice, job_id, item) > (?, ?, ?) AND (slice) < (?) LIMIT ?"
	selectRow  = rowColumns + "slice = ? AND job_id = ? AND item = ?"

	pageRows   = 1000
	loadRanges = 4 // ranges of slices read at once
)

// dbRow is a row of a partition as the driver reads it.
type dbRow struct {
	Slice       int16
	JobID       string
	Item        string
	Revision    int64
	StateName   string
	NextRunAt   int64
	Labels      map[string]string
	Spec, State []byte
}

func (r *dbRow) row() persistence.Row {
	return persistence.Row{
		Slice: r.Slice, JobID: r.JobID, Item: r.Item, Revision: r.Revision, Status: job.Status(r.StateName),
		NextRun: r.NextRunAt, Labels: r.Labels, Spec: r.Spec, State: r.State,
	}
}

// Load reads a partition in a few ranges of slices at once, and passes their rows
// on in order.
func (s *Store) Load(ctx context.Context, partition int32, from, to int16, each func(persistence.Row) error) error {
	if err := s.load(ctx, partition, max(from, 0), min(to, ownSlice), each); err != nil {
		return fmt.Errorf("load partition %d: %w", partition, err)
	}
	return nil
}

func (s *Store) load(ctx context.Context, partition int32, from, to int16, each func(persistence.Row) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	var ranges []<-chan page
	for i, n := int16(0), to-from; i < loadRanges && from < to; i++ {
		ranges = append(ranges, s.readRange(reading, partition, from+n*i/loadRanges, from+n*(i+1)/loadRanges))
	}
	for _, pages := range ranges {
		for p := range pages {
			if err := p.pass(ctx, each); err != nil {
				return err
			}
		}
	}
	return ended(ctx)
}

// page is rows that were read at once.
type page struct {
	rows []dbRow
	err  error
}

func (p page) pass(ctx context.Context, each func(persistence.Row) error) error {
	if p.err != nil {
		if err := ended(ctx); err != nil {
			return err
		}
		return unreadable(p.err)
	}
	for i := range p.rows {
		if err := ended(ctx); err != nil {
			return err
		}
		if err := each(p.rows[i].row()); err != nil {
			return err
		}
	}
	return nil
}

// readRange reads the slices [from, to), until the context ends. A range in which
// more was deleted than one read of the database passes over is read slice by
// slice.
func (s *Store) readRange(ctx context.Context, partition int32, from, to int16) <-chan page {
	out := make(chan page, 1)
	go func() {
		defer close(out)
		after := dbRow{Slice: from} // no job has an empty id
		for width := to - from; after.Slice < to; {
			end := min(after.Slice+width, to)
			rows, err := s.readRows(ctx, partition, &after, end)
			if width > 1 && tooMuchDeleted(err) {
				width = 1
				continue
			}
			select {
			case out <- page{rows, err}:
			case <-ctx.Done():
				return
			}
			switch {
			case err != nil:
				return
			case len(rows) < pageRows:
				after = dbRow{Slice: end}
			default:
				after = rows[len(rows)-1]
			}
		}
	}()
	return out
}

// readRows reads the next rows after one, before a slice.
func (s *Store) readRows(ctx context.Context, partition int32, after *dbRow, end int16) (rows []dbRow, err error) {
	err = s.again(ctx, func() error {
		rows = nil
		return s.db.ContextQuery(ctx, selectRows, nil).
			Bind(partition, after.Slice, after.JobID, after.Item, end, pageRows).SelectRelease(&rows)
	})
	return rows, err
}

// tooMuchDeleted tells whether the database gave up a read, as it does when that
// passes over too many deleted rows.
func tooMuchDeleted(err error) bool {
	var failure *gocql.RequestErrReadFailure
	return errors.As(err, &failure)
}

// Get reads one row.
func (s *Store) Get(ctx context.Context, partition int32, slice int16, jobID, item string) (persistence.Row, error) {
	row, err := s.get(ctx, partition, slice, jobID, item)
	if err != nil {
		return persistence.Row{}, fmt.Errorf("get %s %s: %w", jobID, item, err)
	}
	return row.row(), nil
}

func (s *Store) get(ctx context.Context, partition int32, slice int16, jobID, item string) (row dbRow, err error) {
	if err := s.enter(ctx); err != nil {
		return row, err
	}
	if texts(jobID, item) != nil || slice < 0 || slice >= ownSlice {
		return row, job.ErrNotFound
	}
	err = s.again(ctx, func() error {
		row = dbRow{}
		return s.db.ContextQuery(ctx, selectRow, nil).Bind(partition, slice, jobID, item).GetRelease(&row)
	})
	if errors.Is(err, gocql.ErrNotFound) {
		return row, job.ErrNotFound
	}
	if err != nil {
		return row, unreadable(err)
	}
	return row, nil
}
