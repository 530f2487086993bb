package partition

import (
	"context"
	"errors"
	"time"

	"github.com/belfry-scheduler/belfry/actors/wheel"
	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Dead letters are not in memory, so those past the retention are looked for in
// the store, once a day and soon after a load, a page at a time:
//
//	FindOld, from a slice ──▶ Old: a page, and the slice in which it ends
//	      ▲                                │ removed in batches
//	      └───── a second later ◀──────────┘ until all slices are through
//
// One whose removal is not durable yet when it is read again is removed twice,
// which changes nothing but the count. Whether its job is still there does not
// matter.
type deadSweep struct {
	timer wheel.Timer[timed]
	from  int16 // slice
}

const (
	deadSweepEvery = 24 * time.Hour
	deadSweepPause = time.Minute // after a load, and after a read that failed
)

// deadExpired is the event of a dead letter that nobody replayed or purged in time.
const deadExpired = "dead_letter.expired"

// DeadRef names a dead letter.
type DeadRef struct {
	Slice            int16
	JobID, Execution string
}

// timeDeadSweep begins with the first slice. The partitions of a node take turns,
// a second each.
func (s *State) timeDeadSweep() {
	s.old.from = job.DeadSliceOffset
	s.old.timer.Value = timed{dead: true}
	s.wheel.Schedule(&s.old.timer, s.now+(deadSweepPause+time.Duration(s.cfg.Partition)*time.Second).Milliseconds())
}

// findOld looks for the next page, while the store takes what comes of it.
func (s *State) findOld() {
	if s.away() {
		s.wheel.Schedule(&s.old.timer, s.now+deadSweepPause.Milliseconds())
		return
	}
	s.emit(FindOld{From: s.old.from, Before: s.now - s.cfg.Retention.Milliseconds(), Limit: s.cfg.SweepPerSec})
}

// sweepDead removes a page of old dead letters, as far as this second allows.
func (s *State) sweepDead(e Old) {
	s.old.from = e.Next
	for _, d := range e.Letters {
		if !s.maySweep() {
			s.old.from = d.Slice
			break
		}
		s.changeOf(d.JobID).row(s.deadRow(d.JobID, d.Execution, nil)).publish(&belfryv1.Event{
			Type: deadExpired, JobId: d.JobID, ExecutionId: d.Execution, At: s.now, Reason: "retention",
		})
	}
	pause := time.Second
	switch {
	case s.old.from >= job.SideSliceOffset:
		s.old.from, pause = job.DeadSliceOffset, deadSweepEvery
	case len(e.Letters) == 0: // it could not be read
		pause = deadSweepPause
	}
	s.wheel.Schedule(&s.old.timer, s.now+pause.Milliseconds())
}

// errPageFull ends the reading of a page.
var errPageFull = errors.New("the page is full")

// add takes a row of the store into the page that was asked for. One that cannot
// be read has no age, and stays.
func (p *Old) add(asked FindOld, r persistence.Row) error {
	d, err := messages.DecodeDead(r.Spec, r.State)
	switch {
	case err != nil || d.GetFailedAt() >= asked.Before:
		return nil
	case len(p.Letters) == asked.Limit:
		p.Next = r.Slice
		return errPageFull
	}
	p.Letters = append(p.Letters, DeadRef{r.Slice, r.JobID, d.GetExecutionId()})
	return nil
}

// findOld reads a page of old dead letters beside the mailbox.
func (o *owner) findOld(e FindOld) {
	go func() {
		ctx, cancel := context.WithTimeout(o.ctx, time.Minute)
		defer cancel()
		page := Old{Next: job.SideSliceOffset}
		err := o.Store.Load(ctx, o.part, e.From, job.SideSliceOffset, func(r persistence.Row) error { return page.add(e, r) })
		if err != nil && !errors.Is(err, errPageFull) {
			if o.ctx.Err() == nil {
				o.Log.Warn("read dead letters past their retention: tried again in a minute", "err", err)
			}
			page = Old{Next: e.From}
		}
		o.root.Send(o.self, stored{page})
	}()
}
