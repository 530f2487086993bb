package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Range is which slots of a job are to run again, and how.
type Range struct {
	From, To    time.Time // the slots of [From, To); To zero: up to now
	Concurrency int       // executions that may be unfinished at once, at most job.MaxBackfillConcurrency; 0: one
	NewKey      bool      // a second effect is meant: they do not have the keys of their slots
}

// Backfill is a range of slots that runs again, as far as it has come.
type Backfill struct {
	Range
	ID        string
	Next      time.Time // the slot that is begun next; zero: none is left
	Total     int64     // slots
	Succeeded int64
	Failed    int64
	Cancelled int64     // slots that do not run
	Reason    string    // why it was cancelled; "": it was not
	EndedAt   time.Time // zero: it goes on
}

// Backfill runs the slots that a job's schedule has in a range once more, with the
// job as it is now. job.ErrConflict when the job has no schedule of its own. How
// far it is, Get tells.
func (c *Client) Backfill(ctx context.Context, id string, r Range) (Backfill, error) {
	if n := r.Concurrency; n < 0 || n > job.MaxBackfillConcurrency {
		return Backfill{}, fmt.Errorf("backfill job %s: %w", id, job.Refuse("concurrency", "%d is not from 1 to %d", n, job.MaxBackfillConcurrency))
	}
	ask := &belfryv1.AskBackfill{From: job.CeilMillis(r.From), Concurrency: int32(max(r.Concurrency, 1)), NewKey: r.NewKey}
	if !r.To.IsZero() {
		ask.To = job.CeilMillis(r.To)
	}
	answer, err := c.command(ctx, "backfill", id, &belfryv1.Command{Action: &belfryv1.Command_Backfill{Backfill: ask}})
	return backfillOf(answer.GetBackfill()), err
}

// CancelBackfill runs no more of a backfill; what runs is left to finish.
// job.ErrNotFound when the job has no such backfill, or has forgotten it.
func (c *Client) CancelBackfill(ctx context.Context, id, backfill string) (Backfill, error) {
	answer, err := c.command(ctx, "cancel a backfill of", id, &belfryv1.Command{Action: &belfryv1.Command_CancelBackfill{
		CancelBackfill: &belfryv1.CancelBackfill{Id: backfill},
	}})
	return backfillOf(answer.GetBackfill()), err
}

func backfillOf(b *belfryv1.Backfill) Backfill {
	return Backfill{
		Range: Range{From: job.Instant(b.GetFrom()), To: job.Instant(b.GetTo()), Concurrency: int(b.GetConcurrency()), NewKey: b.GetNewKey()},
		ID:    b.GetId(), Next: job.Instant(b.GetNext()), Total: b.GetTotal(),
		Succeeded: b.GetSucceeded(), Failed: b.GetFailed(), Cancelled: b.GetCancelled(),
		Reason: b.GetReason(), EndedAt: job.Instant(b.GetEndedAt()),
	}
}
