package cql

import (
	"context"
	"fmt"
	"sync"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

const (
	// selectJobs reads a partition from a place to the end of the jobs.
	selectJobs = rowColumns + "(slice, job_id) > (?, ?) AND (slice) < (64)"
	// selectSliceJobs reads one slice from a place on.
	selectSliceJobs = rowColumns + "slice = ? AND job_id > ?"
	// selectDead and selectSliceDead are the same for dead letters.
	selectDead      = rowColumns + "(slice, job_id, item) > (?, ?, ?) AND (slice) < (128)"
	selectSliceDead = rowColumns + "slice = ? AND (job_id, item) > (?, ?)"

	listWidth = 16   // partitions read at once, at most
	listRows  = 5000 // rows read for a page, before it is cut short
)

// List reads the jobs' own rows through all partitions.
func (s *Store) List(ctx context.Context, after persistence.Position, limit int) ([]persistence.Row, persistence.Position, bool, error) {
	l := &listing{s: s, ctx: ctx, limit: limit, next: after}
	if err := l.run(after); err != nil {
		return nil, after, false, fmt.Errorf("list jobs: %w", err)
	}
	return l.page, l.next, l.done, nil
}

// Dead reads the dead letters of all partitions.
func (s *Store) Dead(ctx context.Context, after persistence.Position, limit int) ([]persistence.Row, persistence.Position, bool, error) {
	l := &listing{s: s, dead: true, ctx: ctx, limit: limit, next: after}
	if err := l.run(after); err != nil {
		return nil, after, false, fmt.Errorf("list dead letters: %w", err)
	}
	return l.page, l.next, l.done, nil
}

// listing is a page in the making.
type listing struct {
	s     *Store
	dead  bool // dead letters, not jobs
	ctx   context.Context
	limit int

	page []persistence.Row
	next persistence.Position
	done bool

	count int32 // of partitions
	read  int   // rows, also of items
}

// run reads partitions until the page is full and the row after it is seen, or
// there is none. It begins with one partition, which mostly is enough, and goes
// on with more of them at once.
func (l *listing) run(after persistence.Position) error {
	if err := l.s.enter(l.ctx); err != nil || l.limit <= 0 {
		return err
	}
	var err error
	if l.count, err = l.s.partitionCount(l.ctx); err != nil {
		return err
	}
	at := after
	at.Partition, at.Slice = max(at.Partition, 0), max(at.Slice, l.firstSlice())
	for width := int32(1); at.Partition < l.count; width = min(2*width, listWidth) {
		parts := l.readAll(at, min(l.count, at.Partition+width))
		for _, part := range parts {
			if part.err != nil {
				return unreadable(part.err)
			}
			if l.take(part) {
				return nil
			}
		}
		at = persistence.Position{Partition: at.Partition + int32(len(parts)), Slice: l.firstSlice()}
	}
	l.done = true
	return nil
}

// partJobs is what was read of one partition: jobs, and whether there are more.
type partJobs struct {
	partition int32
	dead      bool
	rows      []persistence.Row
	more      bool                 // what was read is not all
	last      persistence.Position // of the last row read, a job's own or not
	read      int
	err       error
}

// take adds a partition to the page. It is true when the page is at its end:
// full, with a row seen behind it, or cut short.
func (l *listing) take(part *partJobs) bool {
	l.read += part.read
	for _, row := range part.rows {
		if len(l.page) == l.limit {
			return true
		}
		l.page = append(l.page, row)
		l.next = part.place(row.Slice, row.JobID, row.Item)
	}
	switch {
	case part.more:
		l.next = part.last
	case l.read >= listRows && part.partition+1 < l.count:
		l.next = persistence.Position{Partition: part.partition + 1}
	default:
		return false
	}
	return true
}

// readAll reads a few partitions at once, the first of them from a place on.
func (l *listing) readAll(at persistence.Position, to int32) []*partJobs {
	parts := make([]*partJobs, to-at.Partition)
	var wg sync.WaitGroup
	for i := range parts {
		parts[i] = &partJobs{partition: at.Partition + int32(i), dead: l.dead}
		begin := at
		if i > 0 {
			begin = persistence.Position{Slice: l.firstSlice()}
		}
		wg.Go(func() { parts[i].err = l.readPart(parts[i], begin) })
	}
	wg.Wait()
	return parts
}

// readPart reads one job more than the page can take, so that it is known
// whether there is one. A partition in which more was deleted than one read of
// the database passes over is read slice by slice.
func (l *listing) readPart(part *partJobs, begin persistence.Position) error {
	err := l.scanFrom(part, selectJobs, selectDead, begin)
	if !tooMuchDeleted(err) {
		return err
	}
	for last := l.firstSlice() + job.SlicesPerKind; begin.Slice < last && !part.more; begin.Slice++ {
		if err := l.scanFrom(part, selectSliceJobs, selectSliceDead, begin); err != nil {
			return err
		}
		begin.JobID, begin.Item = "", ""
	}
	return nil
}

// firstSlice is where the rows begin that are listed.
func (l *listing) firstSlice() int16 {
	if l.dead {
		return job.DeadSliceOffset
	}
	return 0
}

// scanFrom reads on from a place: jobs by one statement, dead letters by another.
func (l *listing) scanFrom(part *partJobs, jobs, dead string, at persistence.Position) error {
	if l.dead {
		return l.scan(part, dead, part.partition, at.Slice, at.JobID, at.Item)
	}
	return l.scan(part, jobs, part.partition, at.Slice, at.JobID)
}

// place is that of a row.
func (part *partJobs) place(slice int16, jobID, item string) persistence.Position {
	if !part.dead {
		item = ""
	}
	return persistence.Position{Partition: part.partition, Slice: slice, JobID: jobID, Item: item}
}

// scan adds what a statement finds to a partition.
func (l *listing) scan(part *partJobs, statement string, values ...any) error {
	had := *part
	return l.s.again(l.ctx, func() error {
		*part = had
		q := l.s.db.ContextQuery(l.ctx, statement, nil).Bind(values...).PageSize(min(max(l.limit+1, 50), pageRows))
		defer q.Release()
		it := q.Iter()
		var row dbRow
		for !part.more && it.StructScan(&row) {
			part.add(&row, l.limit)
			row = dbRow{}
		}
		return it.Close()
	})
}

func (part *partJobs) add(row *dbRow, limit int) {
	part.read++
	part.last = part.place(row.Slice, row.JobID, row.Item)
	if part.dead || row.Item == "" {
		part.rows = append(part.rows, row.row())
	}
	part.more = len(part.rows) > limit || part.read >= listRows
}
