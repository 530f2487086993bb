package cql

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/scylladb/gocqlx/v2"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

const (
	historyColumns = "SELECT scheduled_for, execution_id, attempt, decision, epoch, record FROM history WHERE p = ? AND day = ? AND job_id = ?"
	olderThan      = " AND (scheduled_for, execution_id) < (?, ?)"
	ofExecution    = " AND scheduled_for = ? AND execution_id = ?"
)

// dbHistory is a row of history as the driver reads it.
type dbHistory struct {
	ScheduledFor time.Time
	ExecutionID  string
	Attempt      int32
	Decision     int64
	Epoch        int64
	Record       []byte
}

func (h *dbHistory) row(day job.Day, jobID string) persistence.HistoryRow {
	return persistence.HistoryRow{
		Day: day, JobID: jobID, ScheduledFor: h.ScheduledFor.UnixMilli(), ExecutionID: h.ExecutionID,
		Attempt: h.Attempt, Decision: h.Decision, Epoch: h.Epoch, Record: h.Record,
	}
}

// Executions reads the summaries of a job on a day, newest first. What is
// committed and not copied yet is among them.
func (s *Store) Executions(ctx context.Context, partition int32, day job.Day, jobID string, before *persistence.Cursor, limit int) ([]persistence.HistoryRow, error) {
	rows, err := s.executions(ctx, partition, day, jobID, before, limit)
	if err != nil {
		return nil, fmt.Errorf("executions of %s on %s: %w", jobID, day, err)
	}
	return rows, nil
}

func (s *Store) executions(ctx context.Context, partition int32, day job.Day, jobID string, before *persistence.Cursor, limit int) ([]persistence.HistoryRow, error) {
	if err := s.enter(ctx); err != nil || limit <= 0 || texts(jobID) != nil {
		return nil, err
	}
	// First what waits: a row that is not there any more is in the table.
	rows, err := s.waiting(ctx, partition, day, jobID)
	if err != nil {
		return nil, unreadable(err)
	}
	rows = slices.DeleteFunc(rows, func(h persistence.HistoryRow) bool {
		return h.Attempt != 0 || before != nil && newestFirst(&h, before.ScheduledFor, before.ExecutionID) <= 0
	})
	statement, values := historyColumns, []any{partition, day.Time(), jobID}
	if before != nil {
		statement, values = statement+olderThan, append(values, before.ScheduledFor, before.ExecutionID)
	}
	var stored []persistence.HistoryRow
	err = s.again(ctx, func() (err error) {
		q := s.db.ContextQuery(ctx, statement, nil).Bind(values...).PageSize(min(3*limit+10, pageRows))
		stored, err = summaries(q, day, jobID, limit)
		return err
	})
	if err != nil {
		return nil, unreadable(err)
	}
	rows = decided(append(rows, stored...))
	return rows[:min(limit, len(rows))], nil
}

// summaries reads until it has seen limit executions that have one. The rows of
// an execution come together, its summary first with the newest decision first.
func summaries(q *gocqlx.Queryx, day job.Day, jobID string, limit int) (rows []persistence.HistoryRow, err error) {
	defer q.Release()
	it := q.Iter()
	var h dbHistory
	for len(rows) < limit && it.StructScan(&h) {
		if n := len(rows); h.Attempt == 0 && (n == 0 || !h.sameExecution(&rows[n-1])) {
			rows = append(rows, h.row(day, jobID))
		}
		h = dbHistory{}
	}
	return rows, it.Close()
}

func (h *dbHistory) sameExecution(r *persistence.HistoryRow) bool {
	return h.ExecutionID == r.ExecutionID && h.ScheduledFor.UnixMilli() == r.ScheduledFor
}

// newestFirst compares a row with a place in a day.
func newestFirst(h *persistence.HistoryRow, at int64, execution string) int {
	if h.ScheduledFor != at {
		if h.ScheduledFor > at {
			return -1
		}
		return 1
	}
	return strings.Compare(execution, h.ExecutionID)
}

// decided keeps of each attempt the highest decision.
func decided(rows []persistence.HistoryRow) []persistence.HistoryRow {
	return slices.CompactFunc(inOrder(rows), func(x, y persistence.HistoryRow) bool {
		return x.ScheduledFor == y.ScheduledFor && x.ExecutionID == y.ExecutionID && x.Attempt == y.Attempt
	})
}

// inOrder sorts rows, newest first, then by attempt, then by decision, the
// highest first.
func inOrder(rows []persistence.HistoryRow) []persistence.HistoryRow {
	slices.SortFunc(rows, func(x, y persistence.HistoryRow) int {
		if c := newestFirst(&x, y.ScheduledFor, y.ExecutionID); c != 0 {
			return c
		}
		if x.Attempt != y.Attempt {
			return int(x.Attempt) - int(y.Attempt)
		}
		return cmp.Compare(y.Decision, x.Decision)
	})
	return rows
}

// Attempts reads all rows of an execution, its summary first.
func (s *Store) Attempts(ctx context.Context, partition int32, day job.Day, jobID string, scheduledFor int64, executionID string) ([]persistence.HistoryRow, error) {
	rows, err := s.attempts(ctx, partition, day, jobID, scheduledFor, executionID)
	if err != nil {
		return nil, fmt.Errorf("attempts of %s: %w", executionID, err)
	}
	return rows, nil
}

func (s *Store) attempts(ctx context.Context, partition int32, day job.Day, jobID string, scheduledFor int64, executionID string) ([]persistence.HistoryRow, error) {
	if err := s.enter(ctx); err != nil || texts(jobID, executionID) != nil {
		return nil, err
	}
	rows, err := s.waiting(ctx, partition, day, jobID)
	if err != nil {
		return nil, unreadable(err)
	}
	rows = slices.DeleteFunc(rows, func(h persistence.HistoryRow) bool {
		return h.ScheduledFor != scheduledFor || h.ExecutionID != executionID
	})
	var stored []dbHistory
	err = s.again(ctx, func() error {
		stored = nil
		return s.db.ContextQuery(ctx, historyColumns+ofExecution, nil).
			Bind(partition, day.Time(), jobID, scheduledFor, executionID).SelectRelease(&stored)
	})
	if err != nil {
		return nil, unreadable(err)
	}
	for i := range stored {
		rows = append(rows, stored[i].row(day, jobID))
	}
	return persistence.Decided(inOrder(rows)), nil
}

// Expire does nothing: each row of history has its time to live.
func (s *Store) Expire(ctx context.Context, partition int32, _ job.Day) error {
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("expire history of partition %d: %w", partition, err)
	}
	return nil
}
