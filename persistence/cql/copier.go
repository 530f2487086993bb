package cql

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gocql/gocql"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

const putHistory = "INSERT INTO history (p, day, job_id, scheduled_for, execution_id, attempt, decision, epoch, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) USING TTL ?"

const (
	copyRows  = 256       // rows of history in a batch
	copyBytes = 128 << 10 // and their bytes
	sayAfter  = 5         // failed copies of one partition before it is news
)

// copy copies what is pending of a partition, in order, until nothing is. What
// fails is tried again for ever: the ring keeps it, and Commit waits for room.
func (s *Store) copy(o *outbox) {
	for try := 0; ; {
		entries := o.oldest()
		if len(entries) == 0 {
			return
		}
		err := s.copyAll(o.partition, entries)
		if err == nil {
			o.copied(entries)
			try = 0
			continue
		}
		if try++; try == sayAfter {
			s.log.Warn("history cannot be copied; it is kept beside the jobs meanwhile", "partition", o.partition, "err", err)
		}
		if pause(s.ctx, backoff(try)) != nil {
			return
		}
	}
}

// oldest returns what is to be copied next, and ends the copying when that is
// nothing.
func (o *outbox) oldest() []*entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	rows := 0
	for i, e := range o.pending {
		if rows += len(e.rows); i > 0 && rows > copyRows {
			return slices.Clone(o.pending[:i])
		}
	}
	o.copying = len(o.pending) > 0
	return slices.Clone(o.pending)
}

// copied drops entries that are in the table now.
func (o *outbox) copied(entries []*entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = slices.DeleteFunc(o.pending, func(e *entry) bool { return slices.Contains(entries, e) })
	o.change()
}

// copyAll writes the rows of entries, those of one day together.
func (s *Store) copyAll(partition int32, entries []*entry) error {
	days := map[job.Day]*dayCopy{}
	now := time.Now()
	for _, e := range entries {
		ttl := int(e.lives(s.cfg.Retention, now).Seconds())
		if ttl < 1 {
			continue // it would have expired by now
		}
		for i := range e.rows {
			h := &e.rows[i]
			d := days[h.Day]
			if d == nil {
				d = &dayCopy{s: s, partition: partition}
				days[h.Day] = d
			}
			if err := d.add(h, ttl); err != nil {
				return err
			}
		}
	}
	for _, d := range days {
		if err := d.flush(); err != nil {
			return err
		}
	}
	return nil
}

// dayCopy is a batch for one partition of the history table in the making.
type dayCopy struct {
	s         *Store
	partition int32
	batch     *gocql.Batch
	bytes     int
}

func (d *dayCopy) add(h *persistence.HistoryRow, ttl int) error {
	if d.batch != nil && (d.batch.Size() >= copyRows || d.bytes+historyBytes(h) > copyBytes) {
		if err := d.flush(); err != nil {
			return err
		}
	}
	if d.batch == nil {
		d.batch = d.s.db.BatchWithContext(d.s.ctx, gocql.UnloggedBatch)
		d.batch.SetRequestTimeout(d.s.cfg.Timeout)
		d.bytes = 0
	}
	d.bytes += historyBytes(h)
	d.batch.Query(putHistory, d.partition, h.Day.Time(), h.JobID, h.ScheduledFor, h.ExecutionID, h.Attempt, h.Decision, h.Epoch, h.Record, ttl)
	return nil
}

func (d *dayCopy) flush() error {
	batch := d.batch
	d.batch = nil
	if seam := d.s.cfg.seams.copying; seam != nil {
		if err := seam(); err != nil {
			return err
		}
	}
	select {
	case d.s.copies <- struct{}{}:
		defer func() { <-d.s.copies }()
	case <-d.s.ctx.Done():
		return context.Cause(d.s.ctx)
	}
	return d.s.db.ExecuteBatch(batch)
}

// recover reads the ring of a partition that was acquired: what its former
// owner had committed and perhaps not copied is copied again.
func (s *Store) recover(o *outbox, epoch int64) {
	for try := 1; ; try++ {
		entries, err := s.readUncopied(o.partition)
		if err == nil {
			s.commit(o, entries...)
			o.know(epoch)
			return
		}
		if try == sayAfter {
			s.log.Warn("the history ring cannot be read; batches with history wait", "partition", o.partition, "err", err)
		}
		if !o.is(epoch) || pause(s.ctx, backoff(try)) != nil {
			return
		}
	}
}

func (s *Store) readUncopied(partition int32) ([]*entry, error) {
	ctx, cancel := context.WithTimeout(s.ctx, readTries*s.cfg.Timeout)
	defer cancel()
	return s.uncopied(ctx, partition, func(item string, err error) {
		s.log.Error("history is lost", "partition", partition, "slot", item, "err", err)
	})
}

func (o *outbox) is(epoch int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.from == epoch
}

func (o *outbox) know(epoch int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.from == epoch {
		o.known = true
		o.change()
	}
}

// slot is a row of the ring.
type slot struct {
	Item        string
	Spec, State []byte
}

// uncopied returns the entries of a ring that may not be in the history table,
// whoever has committed them. Slots that cannot be read are told to lost.
func (s *Store) uncopied(ctx context.Context, partition int32, lost func(item string, err error)) ([]*entry, error) {
	headers, err := s.readRing(ctx, selectRing, partition)
	if err != nil {
		return nil, err
	}
	var copied int64
	seqs := map[string]int64{}
	for _, sl := range headers {
		e, err := decodeHeader(sl.Spec)
		if err != nil {
			lost(sl.Item, err)
			continue
		}
		copied = max(copied, e.copied)
		seqs[sl.Item] = e.seq
	}
	maps.DeleteFunc(seqs, func(_ string, seq int64) bool { return seq <= copied })
	if len(seqs) == 0 {
		return nil, nil
	}
	slots, err := s.readRing(ctx, selectSlots, partition, slices.Collect(maps.Keys(seqs)))
	if err != nil {
		return nil, err
	}
	var entries []*entry
	for _, sl := range slots {
		e, err := sl.entry()
		if err != nil {
			lost(sl.Item, err)
			continue
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (s *Store) readRing(ctx context.Context, statement string, partition int32, items ...any) (slots []slot, err error) {
	err = s.again(ctx, func() error {
		slots = nil
		return s.db.ContextQuery(ctx, statement, nil).Bind(append([]any{partition, ownSlice, ringJob}, items...)...).SelectRelease(&slots)
	})
	return slots, err
}

func (sl *slot) entry() (*entry, error) {
	e, err := decodeHeader(sl.Spec)
	if err == nil {
		e.rows, err = decodeHistory(sl.State)
	}
	return e, err
}

// waiting returns the lines of a job on a day that are committed, by whatever
// process, and perhaps not in the table.
func (s *Store) waiting(ctx context.Context, partition int32, day job.Day, jobID string) (rows []persistence.HistoryRow, err error) {
	entries, err := s.uncopied(ctx, partition, func(string, error) {}) // the next owner says it
	now := time.Now()
	for _, e := range entries {
		if e.lives(s.cfg.Retention, now) <= 0 {
			continue
		}
		for i := range e.rows {
			if e.rows[i].Day == day && e.rows[i].JobID == jobID {
				rows = append(rows, e.rows[i])
			}
		}
	}
	return rows, err
}
