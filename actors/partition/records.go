package partition

import (
	"slices"
	"time"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// attemptLine is what an ended attempt came to, on its way into the history: a
// line of its own, or part of the summary when it was the only one.
type attemptLine struct {
	number int32
	epoch  int64 // under which it was sent
	record *belfryv1.Record
}

func (s *State) attemptLine(f *flight, r *belfryv1.Result) *attemptLine {
	l := &attemptLine{number: r.GetAttempt(), epoch: r.GetEpoch(), record: &belfryv1.Record{
		Generation: f.gen, Status: string(messages.Outcome(r.GetOutcome())), Due: f.due, SentAt: r.GetSentAt(), FinishedAt: r.GetFinishedAt(),
		StatusCode: r.GetStatusCode(), Error: r.GetError(), Output: r.GetOutput(), Node: r.GetNode(), Revision: f.rev,
	}}
	if f.lease != nil {
		l.record.Worker, l.record.Lease = f.lease.worker, f.lease.token()
	}
	if l.epoch == 0 {
		l.epoch = s.life
	}
	return l
}

func (l *attemptLine) write(c *change, f *flight) {
	c.record(f.job, f.slot, f.id, l.number, l.epoch, l.record)
}

// recordLost writes a line for every epoch under which the current attempt may
// have been sent, save the delivery whose line is known. Our own epoch is among
// them when we did send it.
func (s *State) recordLost(c *change, f *flight, known *attemptLine) {
	if f.claimable() {
		return // it is sent to nobody: who has it is in its row
	}
	for _, epoch := range f.epochs {
		reason := "sender lost"
		switch {
		case known != nil && known.number == f.attempt && known.epoch == epoch:
			continue
		case epoch == s.life && !f.ours():
			continue
		case epoch == s.life && known != nil:
			reason = "another delivery was answered first"
		case epoch == s.life:
			reason = "worker lost"
		}
		c.record(f.job, f.slot, f.id, f.attempt, epoch, &belfryv1.Record{
			Generation: f.gen, Status: string(job.AttemptUnknown), Reason: reason, Due: f.due, Revision: f.rev,
		})
	}
}

// ending is how an execution ends. last is the attempt that ended it, nil when
// none did.
type ending struct {
	status   job.ExecutionStatus
	reason   string
	finished int64
	last     *attemptLine
}

// end decides an execution: its summary, the counters, and room for another. It
// returns the summary, and the epoch that this is filed under.
func (s *State) end(c *change, f *flight, e ending) (summary *belfryv1.Record, epoch int64) {
	j := f.job
	s.drop(f)
	s.reach(f)
	attempts, epoch := f.attempt, s.life
	switch {
	case e.last != nil:
	case s.perhapsSent(f):
		f.unknown++ // what came of it nobody knows
	default:
		attempts--
	}
	summary = &belfryv1.Record{
		Generation: f.gen, Status: string(e.status), Reason: e.reason, Due: f.due, SentAt: f.firstSent, FinishedAt: e.finished,
		UnknownAttempts: f.unknown, Error: f.lastError, Node: s.cfg.Node, Revision: f.rev, Trigger: f.trigger(), Worker: f.lease.holder(),
	}
	switch {
	case e.last == nil:
		s.recordLost(c, f, nil)
	case e.last.number == 1:
		epoch = e.last.epoch
		summary.Outcome, summary.StatusCode, summary.Output = e.last.record.GetStatus(), e.last.record.GetStatusCode(), e.last.record.GetOutput()
		summary.Error, summary.Node = e.last.record.GetError(), e.last.record.GetNode()
		summary.Lease = e.last.record.GetLease()
	default:
		e.last.write(c, f)
	}
	summary.Attempts, summary.ReplayOf = attempts, f.replay.GetOf()
	if key := f.key(); key != f.id {
		summary.Key = key
	}
	summary.Backfill = j.past.backfillOf(f.backfill).GetId()
	c.record(j, f.slot, f.id, 0, epoch, summary)
	if f.gen == j.gen {
		p := j.history()
		p.count(e.status, 1)
		p.last = &belfryv1.LastExecution{ExecutionId: f.id, ScheduledFor: f.slot, Status: string(e.status), FinishedAt: e.finished}
	}
	c.publish(&belfryv1.Event{
		Type: "execution." + string(e.status), JobId: j.id, ExecutionId: f.id, ScheduledFor: f.slot, At: s.now,
		Attempt: attempts, LatenessMs: max(f.firstSent-f.due, 0), Reason: e.reason, CatchUp: f.catchUp, Worker: f.lease.holder(),
	})
	s.announce(c, f, e.status)
	if e.status == job.Succeeded {
		s.clearDead(c, f)
	}
	if e.status == job.Cancelled {
		s.leases.cancel(f)
	}
	s.backfilled(c, f, e.status)
	s.releaseRevision(c, j, f.rev)
	s.makeRoom(c, j)
	s.queueExtra(j)
	return summary, epoch
}

// perhapsSent tells that the current attempt was sent, by us or perhaps by a
// former owner.
func (s *State) perhapsSent(f *flight) bool { return f.begun() || f.ours() || f.former(s.life) }

func (p *past) count(status job.ExecutionStatus, n int64) {
	switch status {
	case job.Succeeded:
		p.counters.succeeded += n
	case job.Failed:
		p.counters.failed += n
	case job.Missed:
		p.counters.missed += n
	case job.Skipped:
		p.counters.skipped += n
	case job.Cancelled:
		p.counters.cancelled += n
	}
}

// cover records slots that do not run. Consecutive ones of one fate are one
// record, which stays open in the state until something else happens.
func (s *State) cover(c *change, j *jobRec, sched *job.Schedule, slots job.MissedRange, status job.ExecutionStatus, reason string) {
	if slots.Count == 0 {
		return
	}
	p := j.history()
	p.count(status, slots.Count)
	if o := p.open; o != nil && o.GetStatus() == string(status) && o.GetReason() == reason && follows(sched, o.GetLast(), slots.First) {
		p.open = &belfryv1.SlotRange{
			First: o.GetFirst(), Last: slots.Last.UnixMilli(), Count: o.GetCount() + slots.Count, Status: o.GetStatus(), Reason: reason,
		}
	} else {
		s.closeRange(c, j)
		p.open = &belfryv1.SlotRange{
			First: slots.First.UnixMilli(), Last: slots.Last.UnixMilli(), Count: slots.Count, Status: string(status), Reason: reason,
		}
	}
	j.reached = max(j.reached, slots.Last.UnixMilli())
	c.publish(&belfryv1.Event{
		Type: "execution." + string(status), JobId: j.id, ScheduledFor: slots.Last.UnixMilli(), At: s.now, Reason: reason,
	})
}

// follows tells whether a slot is the next one after another.
func follows(sched *job.Schedule, slot int64, next time.Time) bool {
	at, ok := sched.Next(time.UnixMilli(slot))
	return ok && at.Equal(next)
}

// closeRange writes the open range under its last slot.
func (s *State) closeRange(c *change, j *jobRec) {
	if j.past == nil || j.past.open == nil {
		return
	}
	o := j.past.open
	j.past.open = nil
	c.record(j, o.GetLast(), job.ScheduledID(j.id, j.gen, job.Instant(o.GetLast())), 0, s.life, &belfryv1.Record{
		Generation: j.gen, Status: o.GetStatus(), Reason: o.GetReason(), FinishedAt: s.now, Range: o, Revision: j.rev, Node: s.cfg.Node, Trigger: "schedule",
	})
}

// pinSpec keeps the spec that flights and backfills of a job were made with,
// before the job gets another.
func (s *State) pinSpec(c *change, j *jobRec) {
	if !j.needs(j.rev) {
		return
	}
	p := j.history()
	if p.specs == nil {
		p.specs = map[int64]*belfryv1.JobSpec{}
	}
	p.specs[j.rev] = s.specOf(j, j.rev)
	c.row(s.specRow(j.id, j.rev, j.spec))
}

// needs tells whether anything is still to run with a revision of the spec.
func (j *jobRec) needs(rev int64) bool {
	return slices.ContainsFunc(j.flights(), func(f *flight) bool { return f.rev == rev }) ||
		slices.ContainsFunc(j.unendedBackfills(), func(b *belfryv1.Backfill) bool { return b.GetRevision() == rev })
}

func (s *State) specRow(jobID string, rev int64, spec []byte) persistence.Row {
	return persistence.Row{Slice: job.SideSliceOffset + s.slice(jobID), JobID: jobID, Item: persistence.SpecItem(rev), Revision: rev, Spec: spec}
}

// releaseRevision drops an older spec once nothing needs it any more.
func (s *State) releaseRevision(c *change, j *jobRec, rev int64) {
	if j.past.specs[rev] == nil || j.needs(rev) {
		return
	}
	delete(j.past.specs, rev)
	r := s.specRow(j.id, rev, nil)
	r.Delete = true
	c.row(r)
}

func (s *State) jobEvent(j *jobRec, kind, reason string) *belfryv1.Event {
	return &belfryv1.Event{Type: kind, JobId: j.id, At: s.now, Reason: reason}
}
