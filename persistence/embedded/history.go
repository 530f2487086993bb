package embedded

import (
	"bytes"
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

func (p *partition) putHistory(w *pebble.Batch, h *persistence.HistoryRow) error {
	p.key = appendHistoryKey(p.key[:0], p.id, h)
	p.value = appendHistory(p.value[:0], h)
	return w.Set(p.key, p.value, nil)
}

// Executions reads the summaries of a job on a day, newest first.
func (s *Store) Executions(ctx context.Context, partitionID int32, day job.Day, jobID string, before *persistence.Cursor, limit int) ([]persistence.HistoryRow, error) {
	prefix := appendClass(nil, partitionID, day, jobID, classSummary)
	from := prefix
	if before != nil {
		from = appendSuccessor(appendExecution(nil, partitionID, day, jobID, classSummary, *before))
	}
	rows, err := s.history(ctx, span{prefix: prefix, from: from, row: persistence.HistoryRow{Day: day, JobID: jobID}}, limit)
	if err != nil {
		return nil, fmt.Errorf("executions of %s on %s: %w", jobID, day, err)
	}
	return rows, nil
}

// Attempts reads all rows of an execution, its summary first.
func (s *Store) Attempts(ctx context.Context, partitionID int32, day job.Day, jobID string, scheduledFor int64, executionID string) ([]persistence.HistoryRow, error) {
	var all []persistence.HistoryRow
	c := persistence.Cursor{ScheduledFor: scheduledFor, ExecutionID: executionID}
	for _, class := range [2]byte{classSummary, classAttempt} {
		rows, err := s.history(ctx, span{
			prefix: appendClass(nil, partitionID, day, jobID, class),
			from:   appendExecution(nil, partitionID, day, jobID, class, c),
			to:     appendSuccessor(appendExecution(nil, partitionID, day, jobID, class, c)),
			row:    persistence.HistoryRow{Day: day, JobID: jobID},
			all:    true,
		}, -1)
		if err != nil {
			return nil, fmt.Errorf("attempts of %s: %w", executionID, err)
		}
		all = append(all, rows...)
	}
	return persistence.Decided(all), nil
}

// span is a range of one class of a job's keys on a day.
type span struct {
	prefix   []byte // ends with the class
	from, to []byte // nil to: to the end of the class
	row      persistence.HistoryRow
	all      bool // also older decisions
}

// history reads at most limit rows of a span, of each attempt the newest
// decision, which stands first, or all. A negative limit is none.
func (s *Store) history(ctx context.Context, sp span, limit int) (rows []persistence.HistoryRow, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	if sp.to == nil {
		sp.to = appendSuccessor(bytes.Clone(sp.prefix))
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: sp.from, UpperBound: sp.to})
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() {
		if e := it.Close(); e != nil && err == nil {
			rows, err = nil, unreadable(e)
		}
	}()
	var attempt []byte // the key of the attempt last read, without its decision
	for live, n := it.First(), 0; live && len(rows) != limit; live, n = it.Next(), n+1 {
		if n%lookEvery == 0 {
			if err := ended(ctx); err != nil {
				return nil, err
			}
		}
		key := it.Key()
		if stem := key[:max(0, len(key)-8)]; bytes.Equal(stem, attempt) && !sp.all {
			continue
		} else {
			attempt = append(attempt[:0], stem...)
		}
		h, err := sp.decode(it)
		if err != nil {
			return nil, err
		}
		rows = append(rows, h)
	}
	return rows, nil
}

func (sp *span) decode(it *pebble.Iterator) (persistence.HistoryRow, error) {
	h := sp.row
	class := sp.prefix[len(sp.prefix)-1]
	if !splitHistory(class, it.Key()[len(sp.prefix):], &h) {
		return h, errMalformed
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return h, unreadable(err)
	}
	return h, decodeHistory(value, &h)
}

// Expire drops the history of the days before one: one tombstone over the
// whole range, however many rows it covers, and none when it covers nothing.
func (s *Store) Expire(ctx context.Context, partitionID int32, before job.Day) error {
	if err := s.expire(ctx, partitionID, before); err != nil {
		return fmt.Errorf("expire history of partition %d before %s: %w", partitionID, before, err)
	}
	return nil
}

func (s *Store) expire(ctx context.Context, partitionID int32, before job.Day) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	from := appendInt32([]byte{kindHistory}, partitionID)
	to := appendDay(nil, partitionID, before)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return unreadable(err)
	}
	any := it.First()
	if err := it.Close(); err != nil {
		return unreadable(err)
	}
	if !any {
		return nil
	}
	b := s.db.NewBatch()
	if err := b.DeleteRange(from, to, nil); err != nil {
		return err
	}
	return s.write(b)
}
