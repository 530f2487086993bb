package partition

import (
	"time"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// armAhead is how long before its instant a slot is made durable: long enough
// for the store to take, at the speed measured, twice what is due soon.
func (s *State) armAhead() int64 {
	need := int64(2 * 1000 * float64(s.soon) / s.queue.rate)
	return min(max(need, s.cfg.ArmAhead.Milliseconds()), s.cfg.ArmAheadMax.Milliseconds())
}

// armLooked arms those of the jobs popped in this step whose time has come and
// sets the timers of the others. All are counted before any is timed, since
// the count decides how early they are armed.
func (s *State) armLooked(judge bool) {
	if len(s.looked) == 0 {
		return
	}
	looked := s.looked
	s.looked = s.looked[:0:0]
	for _, j := range looked {
		s.setSoon(j, j.status == job.Active && j.next != 0)
	}
	ahead, away := s.armAhead(), s.away()
	for _, j := range looked {
		switch {
		case !j.soon:
		case s.now < j.next-ahead:
			s.wheel.Schedule(&j.timer, j.next-ahead)
		case away:
			s.held = append(s.held, j)
		default:
			s.guard(j.id, func() { s.armDue(j, ahead, judge) })
		}
	}
}

// judgeHeld arms what came due while the store was away.
func (s *State) judgeHeld() {
	if s.yielding {
		return // what is not armed is the next owner's
	}
	held, ahead := s.held, s.armAhead()
	s.held = nil
	for _, j := range held {
		if j.status == job.Active && j.next != 0 && s.jobs[j.id] == j {
			s.guard(j.id, func() { s.armDue(j, ahead, true) })
		}
	}
}

// armDue makes the next slots of a job durable, those due within ahead. The
// caller fixes ahead: each job that is armed leaves fewer due soon.
func (s *State) armDue(j *jobRec, ahead int64, judge bool) {
	sp, sched, err := s.planOf(j)
	if err != nil {
		s.fault(j, err.Error())
		return
	}
	c := s.change(j)
	if judge {
		err = s.judgeGap(c, j, sp, sched, "outage")
	}
	if err == nil {
		err = s.armWithin(c, j, sp, sched, ahead)
	}
	if err != nil {
		s.takeBack(c)
		s.fault(j, err.Error())
		return
	}
	s.settleStatus(c, j)
	c.row(s.row(j, nil))
	s.schedule(j)
}

// takeBack drops the executions of a change that will not be written.
func (s *State) takeBack(c *change) {
	for _, f := range c.flights {
		if s.running[f.id] == f {
			s.drop(f)
		}
	}
	c.flights = nil
}

// judgeFull judges the jobs that max_outstanding holds back: they have no timer
// that a judging Tick would meet.
func (s *State) judgeFull() {
	for _, j := range s.jobs {
		if j.status == job.Active && j.past != nil && j.past.backlog != 0 && j.past.backlog <= s.now {
			s.guard(j.id, func() { s.armDue(j, s.armAhead(), true) })
		}
	}
}

// judgeGap decides by the catch-up policy what becomes of the slots that came
// due while the owner could not act. A gap within grace is none: arm fires all.
func (s *State) judgeGap(c *change, j *jobRec, sp *belfryv1.JobSpec, sched *job.Schedule, reason string) error {
	policy := messages.FromSpec(sp).CatchUp
	plan := job.PlanCatchUp(sched, policy, time.UnixMilli(j.cursor), time.UnixMilli(s.now))
	if plan.Late || plan.OldestSlot.IsZero() {
		return nil
	}
	if policy.Policy == job.CatchUpAll {
		s.trimCatchUp(c, j, sched, policy, plan.RunCount)
	} else {
		s.dropCatchUp(c, j, sched, job.Missed, "superseded by a later outage")
	}
	s.cover(c, j, sched, plan.Missed, job.Missed, reason)
	newest := plan.Missed.Last
	if plan.RunCount > 0 {
		newest = plan.RunTo
		p := j.history()
		p.catchUp = append(p.catchUp, &belfryv1.CatchUpRun{Next: plan.RunFrom.UnixMilli(), To: plan.RunTo.UnixMilli()})
	}
	return j.moveCursor(sched, newest.UnixMilli())
}

// maxCatchUps is how many outages have slots that still run.
const maxCatchUps = 32

// trimCatchUp makes room for the slots of another outage in what is left of the
// catch-ups before: of all together the newest run, as many as the policy says.
func (s *State) trimCatchUp(c *change, j *jobRec, sched *job.Schedule, policy job.CatchUp, more int) {
	p := j.history()
	left := policy.Max - more // and of at most maxCatchUps outages
	oldest := s.now - policy.Window.Milliseconds()
	runs := p.catchUp
	p.catchUp = nil
	for i := len(runs) - 1; i >= 0; i-- { // the newest first
		run := runs[i]
		m := sched.Missed(time.UnixMilli(max(run.GetNext(), oldest)-1), time.UnixMilli(run.GetTo()), max(left, 0))
		if left -= len(m.Newest); len(p.catchUp) >= maxCatchUps-2 {
			left = 0
		}
		cut := run.GetTo() + 1
		if len(m.Newest) > 0 {
			cut = m.Newest[0].UnixMilli()
			p.catchUp = append([]*belfryv1.CatchUpRun{{Next: cut, To: run.GetTo()}}, p.catchUp...)
		}
		runs[i] = &belfryv1.CatchUpRun{Next: run.GetNext(), To: cut - 1}
	}
	for _, run := range runs {
		s.coverBetween(c, j, sched, run.GetNext()-1, run.GetTo(), job.Missed, "outage")
	}
}

// arm makes durable what is due within the arm-ahead.
func (s *State) arm(c *change, j *jobRec, sp *belfryv1.JobSpec, sched *job.Schedule) error {
	return s.armWithin(c, j, sp, sched, s.armAhead())
}

// armWithin makes durable what is due within ahead. What is left of a catch-up
// gets its turn when this step ends (armExtra), in half of the places.
func (s *State) armWithin(c *change, j *jobRec, sp *belfryv1.JobSpec, sched *job.Schedule, ahead int64) error {
	s.queueExtra(j)
	return s.armLive(c, j, sp, sched, s.now+ahead)
}

// armLive arms the slots up to an instant, as far as there are places.
func (s *State) armLive(c *change, j *jobRec, sp *belfryv1.JobSpec, sched *job.Schedule, horizon int64) error {
	for j.next != 0 && j.next <= horizon {
		if j.outstanding() >= places(sp) || !s.launch(j, sp, j.next, s.now).fits() {
			p := j.history()
			if p.backlog == 0 {
				p.backlog = j.next
			}
			return nil
		}
		if j.past != nil {
			j.past.backlog = 0
		}
		due := sched.Due(j.id, time.UnixMilli(j.next)).UnixMilli()
		s.armSlot(c, j, sp, j.next, max(due, j.updated), false)
		if err := j.moveCursor(sched, j.next); err != nil {
			return err
		}
	}
	if j.past != nil {
		j.past.backlog = 0
	}
	return nil
}

// armSlot makes one execution, unless it is in flight already: an id never is
// twice.
func (s *State) armSlot(c *change, j *jobRec, sp *belfryv1.JobSpec, slot, due int64, catchUp bool) {
	f := s.launch(j, sp, slot, due)
	if s.running[f.id] != nil {
		return
	}
	f.catchUp = catchUp
	if f.letIn() {
		s.closeRange(c, j)
	}
	s.enter(f, c)
}

// armCatchUp arms at most n missed slots, oldest first, while they have a place,
// and returns how many. The other half of the places is for live slots.
func (s *State) armCatchUp(c *change, j *jobRec, sp *belfryv1.JobSpec, sched *job.Schedule, n int) int {
	n = min(n, s.roomForCatchUp(j, sp))
	armed := 0
	for ; len(j.past.catchUp) > 0 && armed < n && j.spare() >= liveRoom; armed++ {
		slot := j.past.catchUp[0].GetNext()
		s.armSlot(c, j, sp, slot, max(s.now, slot), true) // the clock may have been stepped back
		j.past.passCatchUp(sched, slot)
	}
	return armed
}

// passCatchUp moves the oldest catch-up run past a slot.
func (p *past) passCatchUp(sched *job.Schedule, slot int64) {
	run := p.catchUp[0]
	p.catchUp = p.catchUp[1:]
	if next, ok := sched.Next(time.UnixMilli(slot)); ok && next.UnixMilli() <= run.GetTo() {
		p.catchUp = append([]*belfryv1.CatchUpRun{{Next: next.UnixMilli(), To: run.GetTo()}}, p.catchUp...)
	}
	if len(p.catchUp) == 0 {
		p.catchUp = nil
	}
}

// dropCatchUp records what is left of a catch-up instead of running it.
func (s *State) dropCatchUp(c *change, j *jobRec, sched *job.Schedule, status job.ExecutionStatus, reason string) {
	if j.past == nil {
		return
	}
	runs := j.past.catchUp
	j.past.catchUp = nil
	for _, run := range runs {
		s.coverBetween(c, j, sched, run.GetNext()-1, run.GetTo(), status, reason)
	}
}

// coverBetween records the slots in (after, through].
func (s *State) coverBetween(c *change, j *jobRec, sched *job.Schedule, after, through int64, status job.ExecutionStatus, reason string) {
	m := sched.Missed(time.UnixMilli(after), time.UnixMilli(through), 0)
	s.cover(c, j, sched, job.MissedRange{First: m.First, Last: m.Last, Count: m.Count}, status, reason)
}

// makeRoom uses the place that an ended execution leaves for slots held back by
// max_outstanding.
func (s *State) makeRoom(c *change, j *jobRec) {
	if j.status != job.Active || j.past.backlog == 0 {
		return
	}
	sp, sched, err := s.planOf(j)
	if err == nil {
		err = s.skipBacklog(c, j, sp, sched)
	}
	if err == nil {
		err = s.arm(c, j, sp, sched)
	}
	if err != nil {
		s.fault(j, err.Error())
		return
	}
	s.schedule(j)
}

// skipBacklog passes over all but the newest held-back slots: as many as may
// wait for others.
func (s *State) skipBacklog(c *change, j *jobRec, sp *belfryv1.JobSpec, sched *job.Schedule) error {
	kept := overlapQueue(sp)
	held := sched.Missed(time.UnixMilli(j.cursor), time.UnixMilli(s.now), kept)
	if held.Count <= int64(kept) {
		return nil
	}
	first := held.Newest[0].UnixMilli()
	s.coverBetween(c, j, sched, j.cursor, first-1, job.Skipped, "backlog")
	return j.moveCursor(sched, first-1)
}

// settle records every unarmed slot up to now under one fate, before the job
// changes.
func (s *State) settle(c *change, j *jobRec, sched *job.Schedule, status job.ExecutionStatus, reason string) {
	s.dropCatchUp(c, j, sched, status, reason)
	s.coverBetween(c, j, sched, j.cursor, s.now, status, reason)
	j.cursor = max(j.cursor, s.now)
	if j.past != nil {
		j.past.backlog = 0
	}
}

// disarm drops the armed slots that are not due yet, save those to keep, and
// moves the cursor back over all of them: never behind now, nor behind a slot
// that was dispatched or recorded, or may have been dispatched by a former owner,
// and what comes before such a one stays as well. A kept one is found by its id
// when the cursor comes to it again.
func (s *State) disarm(c *change, j *jobRec, keep func(slot int64) bool) {
	for _, f := range j.flights() {
		if !s.armedOnly(f) {
			s.reach(f)
		}
	}
	j.cursor = max(s.now, j.reached)
	for _, f := range append([]*flight(nil), j.flights()...) {
		if !s.armedOnly(f) || f.gen != j.gen || f.slot <= j.cursor || keep(f.slot) {
			continue
		}
		s.drop(f)
		s.releaseRevision(c, j, f.rev)
	}
}

// armedOnly tells that a scheduled execution's slot has not come yet and that it
// was never sent: not by a former owner either, whose clock may have gone before.
// One that waits for its jitter is not armed only: its slot has passed, and no
// schedule will give it again.
func (s *State) armedOnly(f *flight) bool {
	untried := f.attempt == 1 && f.retryAt == 0 && f.lease == nil && !s.maybeSent(f)
	return f.kind == job.Scheduled && !f.catchUp && untried && f.slot > s.now && (f.phase == committing || f.phase == waiting)
}

// settleStatus finishes a job for which nothing is due any more and nothing is
// in flight.
func (s *State) settleStatus(c *change, j *jobRec) {
	if j.status != job.Active || j.dependent() || j.next != 0 || len(j.flights()) > 0 || j.past != nil && len(j.past.catchUp) > 0 {
		return
	}
	s.closeRange(c, j)
	s.setStatus(j, job.Finished, "nothing is due any more")
	s.schedule(j)
	c.publish(s.jobEvent(j, "job.finished", ""))
}
