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
	rowColumns  = "SELECT slice, job_id, item, revision, state_name, next_run_at, labels, spec, state FROM partitions WHERE p = ? AND "
	selectSlice = rowColumns + "slice = ?"
	selectRow   = rowColumns + "slice = ? AND job_id = ? AND item = ?"

	pageRows  = 1000
	loadAhead = 4 // slices read at once
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

// Load reads slices of a partition, one request for each, in their order.
func (s *Store) Load(ctx context.Context, partition int32, from, to int16, each func(persistence.Row) error) error {
	if err := s.load(ctx, partition, from, min(to, ownSlice), each); err != nil {
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
	var ahead []<-chan sliceRows
	for next := max(from, 0); next < to || len(ahead) > 0; {
		for ; next < to && len(ahead) < loadAhead; next++ {
			ahead = append(ahead, s.readSlice(reading, partition, next))
		}
		got := <-ahead[0]
		ahead = ahead[1:]
		if got.err != nil {
			if err := ended(ctx); err != nil {
				return err
			}
			return unreadable(got.err)
		}
		for i := range got.rows {
			if err := ended(ctx); err != nil {
				return err
			}
			if err := each(got.rows[i].row()); err != nil {
				return err
			}
		}
	}
	return nil
}

// sliceRows is a slice, read.
type sliceRows struct {
	rows []dbRow
	err  error
}

func (s *Store) readSlice(ctx context.Context, partition int32, slice int16) <-chan sliceRows {
	out := make(chan sliceRows, 1)
	go func() {
		var got sliceRows
		got.err = s.again(ctx, func() error {
			got.rows = nil
			return s.db.ContextQuery(ctx, selectSlice, nil).Bind(partition, slice).SelectRelease(&got.rows)
		})
		out <- got
	}()
	return out
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
