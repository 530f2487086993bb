package partition

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// What becomes of an execution that is due while another one of its job has not
// ended is decided here, and only when it would be sent for the first time:
// whatever asked for it, and whenever it was armed.
//
//	          ┌─ nobody has the place ──▶ its row names our epoch ──▶ sent
//	due ──────┤
//	          └─ somebody has ─┬─ skip ─────▶ skipped
//	                           ├─ queue ────▶ kept out, the oldest goes first
//	                           └─ replace ──▶ kept out; the other is cancelled
//
// A backfill takes nothing from the schedule: where only one runs, it waits behind
// all that is live, and what comes due while one of its executions runs waits for
// that one to end, neither skipped nor cancelling it. A backfill that was asked to
// run several at once has the say over that itself, and is apart from all this.
//
// Who has the place is in no field of its own: it is the execution whose row
// names an epoch under which it may have been sent, until it is decided. One
// that was not let in names none. So whatever a crash cuts off, the next owner
// reads from the entries themselves who runs and who waits.

// Reasons of skipped executions. They are the same for all, so that consecutive
// slots become one range.
const (
	overlapSkipped  = "overlap"
	overlapFull     = "overlap: the queue is full"
	overlapReplaced = "overlap: replaced by a newer one"
)

// solitary tells that executions of a spec do not run beside others.
func solitary(sp *belfryv1.JobSpec) bool {
	return sp.GetOverlap() != belfryv1.Overlap_OVERLAP_ALLOW
}

// firstEpochs is what the row of a new execution names. One that runs beside
// others may be sent as soon as that is durable; the others are let in first.
func (s *State) firstEpochs(sp *belfryv1.JobSpec) []int64 {
	if solitary(sp) {
		return nil
	}
	return []int64{s.life}
}

// letIn tells that an execution was let in once: it may have been sent.
func (f *flight) letIn() bool { return len(f.epochs) > 0 || f.attempt > 1 || f.retryAt != 0 }

// holds tells that an execution has the place of its job: it was let in, or where
// it runs beside others, it has been begun. One of those that waits for a worker
// holds up nobody: at its rate limit a job may always have one.
func (f *flight) holds() bool {
	return f.letIn() && (solitary(f.spec) || f.begun() || f.attempt > 1)
}

// holders are the executions of the same registration that have its place.
func (s *State) holders(f *flight) []*flight {
	var out []*flight
	for _, o := range f.job.flights() {
		if o != f && o.gen == f.gen && !o.apart() && o.holds() {
			out = append(out, o)
		}
	}
	return out
}

// waitingTurn are the kept-out executions of a registration, the oldest first,
// and what is extra last.
func waitingTurn(j *jobRec, gen int64) []*flight {
	var out []*flight
	for _, o := range j.flights() {
		if o.phase == keptOut && o.gen == gen {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *flight) int { return cmp.Or(extraLast(a, b), inDueOrder(a, b)) })
	return out
}

func backfilled(f *flight) bool { return f.kind == job.Backfilled }

// apart tells that an execution is of a backfill that runs several at once.
func (f *flight) apart() bool { return f.job.past.backfillOf(f.backfill).GetConcurrency() > 1 }

// admit decides whether a due execution may be sent now. One that may not is
// kept out or decided when it returns.
func (s *State) admit(f *flight) bool {
	if f.letIn() || !solitary(f.spec) || f.apart() {
		return true
	}
	holders := s.holders(f)
	if len(holders) == 0 {
		return true
	}
	if f.kind == job.Backfilled {
		s.keepOut(f)
		return false
	}
	past := slices.ContainsFunc(holders, backfilled)
	holders = slices.DeleteFunc(holders, backfilled)
	waiting := slices.DeleteFunc(waitingTurn(f.job, f.gen), func(o *flight) bool { return o == f || backfilled(o) })
	switch f.spec.GetOverlap() {
	case belfryv1.Overlap_OVERLAP_QUEUE:
		if len(waiting) >= overlapQueue(f.spec) {
			s.skip(f, overlapFull)
			return false
		}
	case belfryv1.Overlap_OVERLAP_REPLACE:
		for _, older := range waiting {
			s.skip(older, overlapReplaced)
		}
		if s.cancelAll(holders, "replaced by "+f.id) && !past {
			return true
		}
	default:
		if len(holders)+len(waiting) > 0 {
			s.skip(f, overlapSkipped)
			return false
		}
	}
	s.keepOut(f)
	return false
}

// places is how many unfinished executions a job may have. Where only one runs,
// max_outstanding does not decide what becomes of the others: there is always
// one place more, for the one that is judged.
func places(sp *belfryv1.JobSpec) int {
	limit := int(sp.GetMaxOutstanding())
	switch sp.GetOverlap() {
	case belfryv1.Overlap_OVERLAP_ALLOW:
		return limit
	case belfryv1.Overlap_OVERLAP_QUEUE:
		return max(limit, overlapQueue(sp)+2)
	}
	return max(limit, 2)
}

// overlapQueue is how many executions may wait for others of their job.
func overlapQueue(sp *belfryv1.JobSpec) int {
	return cmp.Or(int(sp.GetOverlapQueue()), job.DefaultOverlapQueue)
}

// keepOut lets an execution wait for the place, but not beyond its age.
func (s *State) keepOut(f *flight) {
	f.phase = keptOut
	s.limitWait(f)
}

// skip ends an execution that was not let in. A slot that follows others of its
// fate is part of their range; one of an earlier definition is not, since other
// slots may lie between it and those of the schedule that there is now.
func (s *State) skip(f *flight, reason string) {
	j := f.job
	c := s.change(j)
	_, sched, err := s.planOf(j)
	if err != nil || f.kind != job.Scheduled || f.catchUp || f.gen != j.gen || f.rev != j.rev {
		s.end(c, f, ending{status: job.Skipped, reason: reason, finished: s.now})
	} else {
		at := time.UnixMilli(f.slot)
		s.drop(f)
		s.cover(c, j, sched, job.MissedRange{First: at, Last: at, Count: 1}, job.Skipped, reason)
		s.announce(c, f, job.Skipped)
		s.releaseRevision(c, j, f.rev)
		s.makeRoom(c, j)
		s.queueExtra(j)
	}
	s.settleStatus(c, j)
	c.row(s.row(j, nil))
}

// vacate notes that a job's place may be free. Who is next is let in at the end
// of the step, when the change that freed it is whole.
func (s *State) vacate(f *flight) {
	if f.letIn() && len(waitingTurn(f.job, f.gen)) > 0 {
		s.freed = append(s.freed, f)
	}
}

// letNextIn lets those in whose place was freed in this step.
func (s *State) letNextIn() {
	for len(s.freed) > 0 {
		left := s.freed[0]
		s.freed = s.freed[1:]
		if next := waitingTurn(left.job, left.gen); len(next) > 0 {
			s.guard(left.job.id, func() { s.becomeReady(next[0]) })
		}
	}
}

// refusedByOverlap says why an execution that somebody asks for now would not
// run; "": it would.
func (s *State) refusedByOverlap(f *flight) (why string) {
	waiting := slices.DeleteFunc(waitingTurn(f.job, f.gen), backfilled)
	others := append(slices.DeleteFunc(s.holders(f), backfilled), waiting...)
	switch {
	case len(others) == 0:
	case f.spec.GetOverlap() == belfryv1.Overlap_OVERLAP_SKIP:
		return "the execution " + others[0].id + " has not ended, and the job's overlap is skip: wait for its end, or cancel it"
	case f.spec.GetOverlap() == belfryv1.Overlap_OVERLAP_QUEUE && len(waiting) >= overlapQueue(f.spec):
		return "the execution " + others[0].id + " has not ended, and as many as overlap_queue allows wait for it: wait, or cancel it"
	}
	return ""
}

// roomForCatchUp is how many missed slots may be armed: as many as half of the
// places take, or where executions do not run beside others one, when none is
// due.
func (s *State) roomForCatchUp(j *jobRec, sp *belfryv1.JobSpec) int {
	switch {
	case !solitary(sp):
		return max(places(sp)/2, 1) - j.outstanding()
	case s.anyDue(j):
		return 0
	}
	return min(places(sp)-j.outstanding(), 1)
}

// anyDue tells that an execution of a job is due and has not ended.
func (s *State) anyDue(j *jobRec) bool {
	return slices.ContainsFunc(j.flights(), func(f *flight) bool { return f.due <= s.now })
}
