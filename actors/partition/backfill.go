package partition

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const (
	// keptBackfills is how many backfills a job shows: those that have ended are
	// forgotten, the oldest first, when there are more.
	keptBackfills = job.MaxBackfills + 4
	// maxBackfilled is how many executions of all backfills of a job may be
	// unfinished at once.
	maxBackfilled = 40
)

// backfillAsked notes a range of slots that is to run again. What it runs is
// fixed here: the slots and the definition of the job as they are now, so that
// an edit does not touch it. The command's id makes its own, so a repeated
// command finds the first one's.
func (s *State) backfillAsked(j *jobRec, command string, r *belfryv1.AskBackfill) (*change, *belfryv1.Answer) {
	_, sched, err := s.planOf(j)
	if err != nil || j.status == job.Faulty {
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "the job cannot be read: register it again")
	}
	if j.dependent() {
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "the job has no schedule of its own: it runs when the jobs that it depends on do: backfill the first of those, and this one follows")
	}
	id := job.CommandHash(command)
	if b := j.backfill(id); b != nil {
		return nil, backfillAnswer(b)
	}
	b := &belfryv1.Backfill{
		Id: id, From: r.GetFrom(), To: r.GetTo(), Concurrency: max(r.GetConcurrency(), 1), Revision: j.rev, NewKey: r.GetNewKey(), AskedAt: s.now,
	}
	if b.To == 0 {
		b.To = s.now
	}
	slots, err := job.PlanBackfill(sched, time.UnixMilli(b.GetFrom()), time.UnixMilli(b.GetTo()), time.UnixMilli(s.now), s.cfg.Retention)
	if err != nil {
		return s.refuseSchedule(err)
	}
	b.Next, b.Last, b.Total = slots.First.UnixMilli(), slots.Last.UnixMilli(), slots.Count
	if r.GetDryRun() {
		return nil, backfillAnswer(b)
	}
	if n := len(j.unendedBackfills()); n >= job.MaxBackfills {
		return s.refuse(belfryv1.Refusal_CODE_BUSY, "", "the job has %d backfills that have not ended, and more are not taken: wait for one to end, or cancel it", n)
	}
	if j.spare() < askedRoom {
		return s.crowded(j)
	}
	b.Number = s.draw()
	c := s.change(j)
	j.history().addBackfill(b)
	s.queueExtra(j)
	c.row(s.row(j, nil)).publish(s.backfillEvent(j, b, "backfill.started"))
	return c, backfillAnswer(b)
}

func ended(b *belfryv1.Backfill) bool { return b.GetEndedAt() != 0 }

// backfill finds one by the id that its asker knows; nil: there is none.
func (j *jobRec) backfill(id string) *belfryv1.Backfill {
	if j.past == nil {
		return nil
	}
	if i := slices.IndexFunc(j.past.backfills, func(b *belfryv1.Backfill) bool { return b.GetId() == id }); i >= 0 {
		return j.past.backfills[i]
	}
	return nil
}

func (j *jobRec) unendedBackfills() []*belfryv1.Backfill {
	if j.past == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(j.past.backfills), ended)
}

// backfillAnswer shows a backfill: a copy, since it goes on.
func backfillAnswer(b *belfryv1.Backfill) *belfryv1.Answer {
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Backfill{Backfill: proto.Clone(b).(*belfryv1.Backfill)}}
}

func (s *State) backfillEvent(j *jobRec, b *belfryv1.Backfill, kind string) *belfryv1.Event {
	e := s.jobEvent(j, kind, b.GetReason())
	e.Backfill = b.GetId()
	return e
}

func (p *past) addBackfill(b *belfryv1.Backfill) {
	p.backfills = append(p.backfills, b)
	if i := slices.IndexFunc(p.backfills, ended); len(p.backfills) > keptBackfills && i >= 0 {
		p.backfills = slices.Delete(p.backfills, i, i+1)
	}
}

// backfillOf finds the backfill that a flight belongs to; nil: none.
func (p *past) backfillOf(number int64) *belfryv1.Backfill {
	if i := slices.IndexFunc(p.backfills, func(b *belfryv1.Backfill) bool { return b.GetNumber() == number }); number != 0 && i >= 0 {
		return p.backfills[i]
	}
	return nil
}

// backfilling tells whether a job has slots to backfill. Neither a pause nor the
// end of its schedule keeps it from that: both are about slots to come.
func (j *jobRec) backfilling() bool {
	switch j.status {
	case job.Active, job.Paused, job.Finished:
		return slices.ContainsFunc(j.past.backfills, func(b *belfryv1.Backfill) bool { return b.GetNext() != 0 })
	}
	return false
}

// armBackfills arms at most n slots of a job's backfills, and returns how many.
// The one with the fewest executions on the way is next, so that all go on.
func (s *State) armBackfills(c *change, j *jobRec, n int) int {
	on, all := map[int64]int{}, 0
	for _, f := range j.flights() {
		if f.backfill != 0 {
			on[f.backfill]++
			all++
		}
	}
	armed := 0
	for ; armed < n && all < maxBackfilled && j.spare() >= liveRoom; armed, all = armed+1, all+1 {
		var next *belfryv1.Backfill
		for _, b := range j.past.backfills {
			free := b.GetNext() != 0 && on[b.GetNumber()] < int(b.GetConcurrency())
			if free && (next == nil || on[b.GetNumber()] < on[next.GetNumber()]) {
				next = b
			}
		}
		if next == nil || solitary(s.specOf(j, next.GetRevision())) && s.anyDue(j) {
			break
		}
		s.armBackfill(c, j, next)
		on[next.GetNumber()]++
	}
	return armed
}

// armBackfill arms the next slot of a backfill, by the definition that it was
// asked under.
func (s *State) armBackfill(c *change, j *jobRec, b *belfryv1.Backfill) {
	sp := s.specOf(j, b.GetRevision())
	sched, err := s.compile(j.id, sp)
	if sp == nil || err != nil {
		s.cancelBackfill(c, j, b, "what it was to run cannot be read")
		return
	}
	slot := time.UnixMilli(b.GetNext())
	f := s.launch(j, sp, slot.UnixMilli(), max(s.now, slot.UnixMilli()))
	f.kind, f.hash, f.backfill, f.newKey, f.rev = job.Backfilled, job.BackfillHash(b.GetId(), slot), b.GetNumber(), b.GetNewKey(), b.GetRevision()
	f.id = job.MarkedID(job.Backfilled, j.id, j.gen, f.hash, slot)
	s.enter(f, c)
	b.Next = 0
	if at, ok := sched.Next(slot); ok && at.UnixMilli() <= b.GetLast() {
		b.Next = at.UnixMilli()
	}
}

// backfilled counts an execution of a backfill that has ended.
func (s *State) backfilled(c *change, f *flight, status job.ExecutionStatus) {
	b := f.job.past.backfillOf(f.backfill)
	if b == nil {
		return
	}
	switch status {
	case job.Succeeded:
		b.Succeeded++
	case job.Failed:
		b.Failed++
	default:
		b.Cancelled++
	}
	s.endBackfill(c, f.job, b)
}

// endBackfill ends a backfill of which nothing is left.
func (s *State) endBackfill(c *change, j *jobRec, b *belfryv1.Backfill) {
	running := slices.ContainsFunc(j.flights(), func(f *flight) bool { return f.backfill == b.GetNumber() })
	if b.GetNext() != 0 || running || ended(b) {
		return
	}
	b.EndedAt = s.now
	s.releaseRevision(c, j, b.GetRevision())
	kind := "backfill.finished"
	if cancelled(b) {
		kind = "backfill.cancelled"
	}
	c.publish(s.backfillEvent(j, b, kind))
}

func (s *State) cancelBackfillAsked(j *jobRec, r *belfryv1.CancelBackfill) (*change, *belfryv1.Answer) {
	b := j.backfill(r.GetId())
	switch {
	case b == nil:
		return s.refuse(belfryv1.Refusal_CODE_NOT_FOUND, "backfill_id", "the job %q has no backfill %q, or has forgotten it", j.id, clip(r.GetId(), 40))
	case ended(b) || cancelled(b):
		return nil, backfillAnswer(b)
	}
	c := s.change(j)
	s.cancelBackfill(c, j, b, "cancelled on request")
	s.settleStatus(c, j)
	c.row(s.row(j, nil))
	return c, backfillAnswer(b)
}

// cancelled tells that a backfill was cancelled; it ends with what runs of it.
func cancelled(b *belfryv1.Backfill) bool { return b.GetReason() != "" }

// cancelBackfill runs nothing more of a backfill: what waits is cancelled, and
// what runs is left to finish and is not tried again.
func (s *State) cancelBackfill(c *change, j *jobRec, b *belfryv1.Backfill, reason string) {
	if cancelled(b) {
		return
	}
	b.Reason, b.Next = reason, 0
	of := slices.DeleteFunc(slices.Clone(j.flights()), func(f *flight) bool { return f.backfill != b.GetNumber() })
	b.Cancelled = b.GetTotal() - b.GetSucceeded() - b.GetFailed() - int64(len(of)) // each of which is counted when it ends
	for _, f := range of {
		if !f.begun() {
			s.end(c, f, ending{status: job.Cancelled, reason: backfillCancelled, finished: s.now})
		}
	}
	s.endBackfill(c, j, b)
}

const backfillCancelled = "the backfill was cancelled"

func (s *State) cancelBackfills(c *change, j *jobRec, reason string) {
	for _, b := range j.unendedBackfills() {
		s.cancelBackfill(c, j, b, reason)
	}
}
