// Package listing shows the executions of a job, newest first, for whoever is
// asked for them: the gateway and the partition's owner.
//
// Three sources are merged by one key, (scheduled_for, execution_id): executions
// in flight and slots of one fate that are not written yet, both from the job's
// row, and history, day by day. The row must be read before the history: what is
// decided in between is in both, and history knows how.
package listing

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Job is a job as its row has it.
type Job struct {
	ID     string
	Status job.Status
	Spec   *belfryv1.JobSpec
	State  *belfryv1.JobState
}

// Reader reads executions.
type Reader struct {
	History    persistence.History
	Partitions int // of the cluster
	// Compile compiles a stored schedule, to count slots that nothing is written
	// about yet.
	Compile func(job.Timing) (*job.Schedule, error)
}

// Page is at most n executions that are older than a place; nil: from the
// newest. Slots that are counted by the clock are counted as of an instant, so
// that they stay where they were while a client follows pages. What runs at this
// moment only the owner knows: see MarkRunning. Errors: the store's.
func (r Reader) Page(ctx context.Context, j *Job, before *persistence.Cursor, asOf time.Time, n int) ([]*belfryv1.ExecutionView, error) {
	history, err := r.history(ctx, j, before, n)
	if err != nil {
		return nil, err
	}
	page := merge(r.Live(j, asOf), history, before)
	return page[:min(n, len(page))], nil
}

// merge puts both together, newest first. What is in both is decided by now,
// and history knows how; a range in the row that has been written since begins
// with the same slot there.
func merge(live, history []*belfryv1.ExecutionView, before *persistence.Cursor) []*belfryv1.ExecutionView {
	known := make(map[string]bool, len(history))
	starts := map[int64]bool{}
	for _, e := range history {
		known[e.GetExecutionId()] = true
		if e.GetRange() != nil {
			starts[e.GetRange().GetFirst()] = true
		}
	}
	out := make([]*belfryv1.ExecutionView, 0, len(live)+len(history))
	for _, e := range live {
		written := e.GetRange() != nil && starts[e.GetRange().GetFirst()]
		if !known[e.GetExecutionId()] && !written && olderThan(e, before) {
			known[e.GetExecutionId()] = true
			out = append(out, e)
		}
	}
	out = append(out, history...)
	slices.SortStableFunc(out, newestFirst)
	return out
}

func newestFirst(a, b *belfryv1.ExecutionView) int {
	switch {
	case a.GetScheduledFor() > b.GetScheduledFor():
		return -1
	case a.GetScheduledFor() < b.GetScheduledFor():
		return 1
	}
	return strings.Compare(b.GetExecutionId(), a.GetExecutionId())
}

func olderThan(e *belfryv1.ExecutionView, before *persistence.Cursor) bool {
	if before == nil {
		return true
	}
	at := e.GetScheduledFor()
	return at < before.ScheduledFor || at == before.ScheduledFor && e.GetExecutionId() < before.ExecutionID
}

// history reads at most n summaries older than a cursor, from the days that
// have any, newest first.
func (r Reader) history(ctx context.Context, j *Job, before *persistence.Cursor, n int) ([]*belfryv1.ExecutionView, error) {
	days := slices.Clone(j.State.GetDays())
	slices.Sort(days)
	var out []*belfryv1.ExecutionView
	for _, d := range slices.Backward(days) {
		day, cursor := job.Day(d), before
		if before != nil {
			switch limit := job.DayOfMillis(before.ScheduledFor); {
			case day > limit:
				continue
			case day < limit:
				cursor = nil
			}
		}
		rows, err := r.History.Executions(ctx, job.PartitionOf(j.ID, r.Partitions), day, j.ID, cursor, n-len(out))
		if err != nil {
			return nil, err
		}
		for i := range rows {
			out = append(out, FromHistory(&rows[i]))
		}
		if len(out) >= n {
			break
		}
	}
	return out, nil
}

// Decided tells whether an execution has its last status.
func Decided(status string) bool {
	switch job.ExecutionStatus(status) {
	case job.Pending, job.Running, job.Retrying:
		return false
	}
	return true
}

// Undecided tells whether any of a page is not decided, so that its owner has
// more to say.
func Undecided(page []*belfryv1.ExecutionView) bool {
	return slices.ContainsFunc(page, func(e *belfryv1.ExecutionView) bool { return !Decided(e.GetStatus()) })
}

// MarkRunning adds to a page what the owner says of what it holds. nil: it did
// not say, so the page is of what the store had now.
func MarkRunning(page []*belfryv1.ExecutionView, d *belfryv1.Description, now time.Time) {
	running := map[string]*belfryv1.Description_Running{}
	for _, r := range d.GetRunning() {
		running[r.GetExecutionId()] = r
	}
	at := now.UnixMilli()
	for _, e := range page {
		r := running[e.GetExecutionId()]
		switch {
		case Decided(e.GetStatus()):
		case d == nil:
			e.AsOf = at
		case r != nil:
			e.Status, e.Attempts, e.SentAt, e.NextAttemptAt = string(job.Running), r.GetAttempt(), r.GetSentAt(), 0
			e.Worker, e.LeaseExpiresAt = r.GetWorker(), r.GetLeaseExpiresAt()
		case e.GetReason() == "" && e.GetDue() <= at && e.GetNextAttemptAt() <= at: // its time has come
			e.Reason = d.GetWaiting()
		}
	}
}
