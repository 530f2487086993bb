package partition

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// register creates a job or replaces its spec.
func (s *State) register(j *jobRec, id string, r *belfryv1.Register) (*change, *belfryv1.Answer) {
	if no := s.unfit(j, id, r); no != nil {
		return nil, no
	}
	sp := s.anchored(j, r.GetSpec())
	sched, err := s.compile(id, sp)
	if err != nil {
		return s.refuseSchedule(err)
	}
	if j != nil && j.status != job.Deleted && j.gen != 0 { // 0: a row that could not be read
		return s.replace(j, sp, sched, r)
	}
	return s.create(j, id, sp, sched, r)
}

// unfit refuses what does not go with the job that is there, or is not.
func (s *State) unfit(j *jobRec, id string, r *belfryv1.Register) *belfryv1.Answer {
	exists := j != nil && j.status != job.Deleted
	switch {
	case exists && r.GetMode() == belfryv1.Register_MODE_CREATE:
		return refusal("", belfryv1.Refusal_CODE_EXISTS, "job_id", "job %q exists: use PUT to replace it, or another job_id", id)
	case !exists && (r.GetMode() == belfryv1.Register_MODE_REPLACE || r.GetIfRevision() != 0):
		return refusal("", belfryv1.Refusal_CODE_NOT_FOUND, "", "there is no job %q", id)
	case exists && r.GetIfRevision() != 0 && r.GetIfRevision() != j.rev:
		return refusal("", belfryv1.Refusal_CODE_REVISION, "", "the job is at revision %d, not %d: read it again", j.rev, r.GetIfRevision())
	case j.crammed() != "":
		return refusal("", belfryv1.Refusal_CODE_BUSY, "", "%s", j.crammed())
	case len(r.GetSpec().GetDependsOn()) > job.MaxUpstreams:
		return refusal("", belfryv1.Refusal_CODE_INVALID, "depends_on", "it has %d jobs, and at most %d are allowed", len(r.GetSpec().GetDependsOn()), job.MaxUpstreams)
	}
	return nil
}

// refuseSchedule passes on what the domain says of a schedule.
func (s *State) refuseSchedule(err error) (*change, *belfryv1.Answer) {
	var invalid *job.Invalid
	if errors.As(err, &invalid) && len(invalid.Problems) > 0 {
		p := invalid.Problems[0]
		return s.refuse(belfryv1.Refusal_CODE_INVALID, p.Field, "%s", p.Message)
	}
	return s.refuse(belfryv1.Refusal_CODE_INVALID, "schedule_expr", "%v", err)
}

// anchored fixes the phase of an interval: a replaced job keeps the one it has
// as long as its schedule is the same. The message itself is left alone: its
// sender may send it again.
func (s *State) anchored(j *jobRec, sp *belfryv1.JobSpec) *belfryv1.JobSpec {
	t := sp.GetTiming()
	anchor := int64(0)
	if messages.FromTiming(t).Anchored() {
		anchor = s.anchor(j, t)
	}
	if t != nil && t.GetAnchor() == anchor {
		return sp
	}
	out := proto.Clone(sp).(*belfryv1.JobSpec)
	if out.GetTiming() == nil {
		out.Timing = &belfryv1.Timing{}
	}
	out.Timing.Anchor = anchor
	return out
}

func (s *State) anchor(j *jobRec, t *belfryv1.Timing) int64 {
	if j != nil && j.status != job.Deleted {
		if old, err := j.decodeSpec(); err == nil {
			same := proto.Clone(t).(*belfryv1.Timing)
			same.Anchor = old.GetTiming().GetAnchor()
			if sameTiming(same, old.GetTiming()) {
				return same.Anchor
			}
		}
	}
	switch {
	case t.GetStartsAt() != 0:
		return t.GetStartsAt()
	case t.GetAnchor() != 0:
		return t.GetAnchor()
	}
	return s.now
}

// firstCursor is where a schedule begins: at now, so that a registration never
// fires for the past; a one-time job whose instant has just passed, or that
// asks for it, still runs.
func (s *State) firstCursor(sched *job.Schedule, runPast bool) (int64, string) {
	if !sched.Once() {
		return s.now, ""
	}
	at, ok := sched.Next(time.UnixMilli(-1 << 50))
	if !ok {
		return s.now, "it has no instant"
	}
	if late := s.now - at.UnixMilli(); late > job.PastGrace.Milliseconds() && !runPast {
		return 0, "the instant " + at.Format(time.RFC3339) + ` is past: give a later one, or "past": "run_now"`
	}
	return min(s.now, at.UnixMilli()-1), ""
}

// create registers a job anew. A deleted one under the same id leaves its
// history, and what of it still runs, under its own generation.
func (s *State) create(j *jobRec, id string, sp *belfryv1.JobSpec, sched *job.Schedule, r *belfryv1.Register) (*change, *belfryv1.Answer) {
	cursor, wrong := s.firstCursor(sched, r.GetRunPast())
	if wrong != "" {
		return s.refuse(belfryv1.Refusal_CODE_INVALID, "schedule_expr", "%s", wrong)
	}
	c := s.changeOf(id)
	if j == nil {
		j = &jobRec{id: id}
		s.jobs[id] = j
		s.counts[job.Active]++
	} else {
		s.pinSpec(c, j)
		old := j.past
		j.past = &past{flights: old.flights, backfills: j.unendedBackfills(), days: old.days, specs: old.specs}
		s.counts[j.status]--
		s.counts[job.Active]++
	}
	c.job = j
	j.status, j.gen, j.rev = job.Active, s.draw(), s.draw()
	j.created, j.updated, j.cursor, j.reached = s.now, s.now, cursor, 0
	j.spec = encode(sp)
	s.relink(c, j, sp.GetDependsOn())
	sched = j.ration(sp, nil, sched, cursor)
	if r.GetPaused().GetPaused() {
		s.setStatus(j, job.Paused, "registered paused")
	}
	if err := s.begin(c, j, sp, sched); err != nil {
		s.fault(j, err.Error())
		return s.refuseSchedule(err)
	}
	c.row(s.row(j, sp)).publish(s.jobEvent(j, "job.created", ""))
	return c, s.jobAnswer(j, true)
}

// begin finds the first slot of a registration and arms what is due.
func (s *State) begin(c *change, j *jobRec, sp *belfryv1.JobSpec, sched *job.Schedule) error {
	j.next = 0
	if j.status != job.Paused {
		if err := j.moveCursor(sched, j.cursor); err != nil {
			return err
		}
		if err := s.arm(c, j, sp, sched); err != nil {
			return err
		}
		s.settleStatus(c, j)
	}
	s.schedule(j)
	return nil
}

// replace gives a job another spec. An identical one changes nothing; one with
// the same schedule leaves everything armed as it is.
func (s *State) replace(j *jobRec, sp *belfryv1.JobSpec, sched *job.Schedule, r *belfryv1.Register) (*change, *belfryv1.Answer) {
	old, oldSched, err := s.planOf(j)
	spec := encode(sp)
	if err == nil && string(spec) == string(j.spec) && j.status != job.Faulty {
		return s.replacePaused(nil, j, nil, r)
	}
	rescheduled := err != nil || j.status == job.Faulty || !sameTiming(old.GetTiming(), sp.GetTiming()) || old.GetMaxRuns() != sp.GetMaxRuns() ||
		!slices.Equal(old.GetDependsOn(), sp.GetDependsOn())
	cursor, wrong := j.cursor, ""
	if rescheduled {
		cursor, wrong = s.firstCursor(sched, r.GetRunPast())
	}
	if wrong != "" {
		return s.refuse(belfryv1.Refusal_CODE_INVALID, "schedule_expr", "%s", wrong)
	}
	if wrong = s.ranAlready(j, sched, oldSched, cursor); rescheduled && wrong != "" {
		return s.refuse(belfryv1.Refusal_CODE_INVALID, "schedule_expr", "%s", wrong)
	}
	c := s.change(j)
	if rescheduled {
		if err == nil {
			if err := s.settlePast(c, j, old, oldSched); err != nil {
				s.takeBack(c)
				return s.refuseSchedule(err)
			}
		}
		sched = j.ration(sp, oldSched, sched, max(s.now, j.reached))
		s.disarm(c, j, func(slot int64) bool { return sched.Has(time.UnixMilli(slot)) })
		if sched.Once() && cursor >= j.reached {
			j.cursor = cursor
		}
	}
	sched = j.given(sched)
	s.pin(c, j, sp, rescheduled)
	j.spec, j.updated = spec, s.now
	s.relink(c, j, sp.GetDependsOn())
	if j.status == job.Faulty || rescheduled && j.status == job.Finished {
		s.setStatus(j, job.Active, "")
	}
	if j.status == job.Active {
		if err := s.begin(c, j, sp, sched); err != nil {
			s.fault(j, err.Error())
			return s.refuseSchedule(err)
		}
	}
	c.publish(s.jobEvent(j, "job.updated", ""))
	return s.replacePaused(c, j, sp, r)
}

// ranAlready says why a one-time instant cannot be asked for again: an execution
// is made once, under an id that is made from the instant. One that the old
// schedule has too is not asked for anew.
func (s *State) ranAlready(j *jobRec, sched, oldSched *job.Schedule, cursor int64) string {
	at, ok := sched.Next(time.UnixMilli(cursor))
	if !ok || !sched.Once() || at.UnixMilli() > j.reached || oldSched != nil && oldSched.Has(at) {
		return ""
	}
	return "the job has run, or was recorded, for " + at.Format(time.RFC3339) + " or later: trigger it to run it once more, or give a later instant"
}

// settlePast brings the old schedule to its end at now: what came due fires
// late, as far as there are places, and the rest is recorded.
func (s *State) settlePast(c *change, j *jobRec, sp *belfryv1.JobSpec, sched *job.Schedule) error {
	switch j.status {
	case job.Paused:
		s.settle(c, j, sched, job.Skipped, "paused")
	case job.Active:
		if err := s.armLive(c, j, sp, sched, s.now); err != nil {
			return err
		}
		s.dropCatchUp(c, j, sched, job.Missed, "the schedule was changed")
		s.settle(c, j, sched, job.Skipped, "backlog")
	}
	s.closeRange(c, j)
	return nil
}

// pin gives the job its next revision. Executions keep the one they were armed
// with, except armed slots that a new schedule has too.
func (s *State) pin(c *change, j *jobRec, sp *belfryv1.JobSpec, rescheduled bool) {
	next := s.draw()
	if rescheduled {
		for _, f := range j.flights() {
			if s.armedOnly(f) && f.rev == j.rev && f.gen == j.gen {
				f.rev, f.spec = next, sp
				if !f.former(s.life) {
					f.epochs = s.firstEpochs(sp)
				}
				f.commitWith(c)
			}
		}
	}
	s.pinSpec(c, j)
	j.rev = next
}

// replacePaused pauses or resumes a replaced job when the request says so, and
// answers. c and sp are nil when nothing has changed so far.
func (s *State) replacePaused(c *change, j *jobRec, sp *belfryv1.JobSpec, r *belfryv1.Register) (*change, *belfryv1.Answer) {
	want := r.GetPaused()
	turn := want != nil && want.GetPaused() != (j.status == job.Paused)
	if c == nil && !turn {
		return nil, s.jobAnswer(j, false)
	}
	if c == nil {
		c = s.change(j)
	}
	switch {
	case turn && want.GetPaused() && j.status == job.Active:
		s.pause(c, j, "paused by an update")
	case turn && !want.GetPaused():
		if err := s.unpause(c, j, false); err != nil {
			s.fault(j, err.Error())
		}
	}
	c.row(s.row(j, sp))
	return c, s.jobAnswer(j, false)
}
