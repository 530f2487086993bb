package partition

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// A success may come when its execution is decided: from a worker that was given
// up, of an earlier attempt, or from an outside one whose lease expired. A dead
// letter is then turned into a success:
//
//	success ──▶ FindDead, once all that its job has waiting is durable ──▶ Late
//	                                                                        │
//	   no dead letter: acknowledged, or LEASE_LOST ◀────────────────────────┤
//	   one batch: attempt, summary, job, dependents, dead/x removed; ◀──────┘
//	   then the acknowledgement
//
// One result of an execution goes this way at a time, until its batch is durable.
// What comes meanwhile is dropped or refused, and its worker repeats it. So what
// was read is as the execution was decided, or was removed since, which memory
// knows; and after a crash the result comes again. A replay that is on the way goes on. An outside worker is heard only if
// nobody was given the execution after it: under its last lease, with no replay
// on the way, so that one completion at most is accepted.

const (
	lateReason = "late" // of a success that came after its dead letter
	maxLate    = 256    // dead letters that are looked up at once
)

// cameLate looks for the dead letter of a success that nothing waits for.
func (s *State) cameLate(from WorkerID, r *belfryv1.Result) {
	if len(s.late) < maxLate {
		s.late[r.GetExecutionId()] = nil
		s.changeOf(r.GetJobId()).then(FindDead{From: from, Result: r})
	}
}

// beingLate tells that a late success of an execution is on its way.
func (s *State) beingLate(execution string) bool {
	_, is := s.late[execution]
	return is
}

// lateUnderLease tells that a command waits: an outside worker says that it
// succeeded, and perhaps its lease was the last one of a dead letter.
func (s *State) lateUnderLease(by asker, cmd *belfryv1.Command) bool {
	m := cmd.GetComplete()
	id := m.GetExecutionId()
	if !m.GetSucceeded() || s.jobs[cmd.GetJobId()] == nil || s.running[id] != nil || s.leases.of[heldAs{id, m.GetLease()}] != leaseUnknown {
		return false
	}
	c := s.changeOf(cmd.GetJobId())
	if s.beingLate(id) || len(s.late) >= maxLate {
		s.answer(by, cmd, c, refusal("", belfryv1.Refusal_CODE_UNAVAILABLE, "", "other late completions are decided first: try again"))
		return true
	}
	s.late[id] = &parked{by, cmd}
	c.then(FindDead{Result: &belfryv1.Result{
		ExecutionId: id, JobId: cmd.GetJobId(), Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, Output: m.GetOutput(), FinishedAt: s.now, Node: s.cfg.Node,
	}})
	return true
}

// lateFound judges a success by what was found.
func (s *State) lateFound(e Late) {
	r := e.Result
	e.Dead = s.cleared.there(e.Dead)
	if p := s.late[r.GetExecutionId()]; p != nil {
		c, answer := s.lateCompleted(p.cmd.GetComplete(), e)
		s.answer(p.by, p.cmd, c, answer)
		return
	}
	if e.Failed {
		delete(s.late, r.GetExecutionId())
		return
	}
	c := s.changeOf(r.GetJobId())
	c.late = r.GetExecutionId()
	j := s.jobs[r.GetJobId()]
	if e.Dead != nil && j != nil && j.status != job.Faulty && !s.guard(j.id, func() { s.revive(c, j, e.Dead, r) }) {
		return // it comes again, and changes nothing then
	}
	c.acks = append(c.acks, ack{e.From, &belfryv1.DeliveryRef{ExecutionId: r.GetExecutionId(), Attempt: r.GetAttempt()}})
}

// lateCompleted judges an outside worker's success by what was found.
func (s *State) lateCompleted(m *belfryv1.Complete, e Late) (*change, *belfryv1.Answer) {
	r, d := e.Result, e.Dead
	c, j, lost := s.changeOf(r.GetJobId()), s.jobs[r.GetJobId()], restoredLease(d.GetLost())
	c.late = r.GetExecutionId()
	switch {
	case e.Failed:
		return c, refusal("", belfryv1.Refusal_CODE_UNAVAILABLE, "", "the store does not answer: try again")
	case lost == nil || lost.token() != m.GetLease() || j == nil || j.status == job.Faulty:
		return c, s.leaseLost(m.GetExecutionId(), m.GetLease())
	case j.replayOf(r.GetExecutionId()) != nil:
		return c, refusal("", belfryv1.Refusal_CODE_LEASE_LOST, "", "its execution is a dead letter, and is being replayed")
	}
	r.Attempt, r.Epoch, r.SentAt = d.GetAttempts(), lost.epoch, lost.granted
	if !s.guard(j.id, func() { s.revive(c, j, d, r) }) {
		return c, s.leaseLost(m.GetExecutionId(), m.GetLease())
	}
	c.ended = s.leases.add(heldAs{m.GetExecutionId(), m.GetLease()}, leaseSucceeded)
	return c, &belfryv1.Answer{Outcome: leaseOver}
}

// revive turns a dead letter into a success.
func (s *State) revive(c *change, j *jobRec, d *belfryv1.DeadLetter, r *belfryv1.Result) {
	c.job = j
	id, slot := d.GetExecutionId(), d.GetScheduledFor()
	if ref, ok := job.ParseExecutionID(id); ok {
		slot = ref.At.UnixMilli()
	}
	s.recordLate(c, j, d, r, slot)
	if p := j.history(); d.GetGeneration() == j.gen {
		p.count(job.Failed, -1)
		p.count(job.Succeeded, 1)
		if p.last.GetExecutionId() == id {
			p.last = &belfryv1.LastExecution{ExecutionId: id, ScheduledFor: slot, Status: string(job.Succeeded), FinishedAt: r.GetFinishedAt()}
		}
		if d.GetRun() != nil && j.status != job.Deleted {
			s.putOut(c, j, &belfryv1.Outcome{ExecutionId: id, Run: d.GetRun(), Status: string(job.Succeeded), Again: true})
		}
	}
	for _, b := range j.past.backfills {
		if of := d.GetSummary().GetBackfill(); of != "" && b.GetId() == of {
			b.Failed--
			b.Succeeded++
		}
	}
	c.publish(&belfryv1.Event{
		Type: "execution." + string(job.Succeeded), JobId: j.id, ExecutionId: id, ScheduledFor: slot, At: s.now,
		Attempt: r.GetAttempt(), LatenessMs: max(d.GetFirstSent()-d.GetDue(), 0), Reason: lateReason,
	})
	c.row(s.row(j, nil)).row(s.deadRow(j.id, id, nil))
}

// recordLate writes the attempt that succeeded, and the summary of a dead letter
// as a success. Every attempt has a line of its own then, also one that was in
// the summary before.
func (s *State) recordLate(c *change, j *jobRec, d *belfryv1.DeadLetter, r *belfryv1.Result, slot int64) {
	summary := &belfryv1.Record{Generation: d.GetGeneration(), Due: d.GetDue(), Attempts: d.GetAttempts(), UnknownAttempts: d.GetUnknownAttempts(), Revision: d.GetRevision()}
	lost := restoredLease(d.GetLost())     // an outside worker's, who says so now
	if was := d.GetSummary(); was != nil { // it was not buried by an earlier version
		summary = proto.Clone(was).(*belfryv1.Record)
		if was.GetOutcome() != "" {
			c.record(j, slot, d.GetExecutionId(), 1, d.GetSummaryEpoch(), &belfryv1.Record{
				Generation: was.GetGeneration(), Status: was.GetOutcome(), Due: was.GetDue(), SentAt: was.GetSentAt(), FinishedAt: was.GetFinishedAt(),
				StatusCode: was.GetStatusCode(), Error: was.GetError(), Output: was.GetOutput(), Node: was.GetNode(), Revision: was.GetRevision(), Lease: was.GetLease(),
			})
		}
	}
	c.record(j, slot, d.GetExecutionId(), r.GetAttempt(), cmp.Or(r.GetEpoch(), s.life), &belfryv1.Record{
		Generation: d.GetGeneration(), Status: string(job.Succeeded), Due: d.GetDue(), SentAt: r.GetSentAt(), FinishedAt: r.GetFinishedAt(),
		StatusCode: r.GetStatusCode(), Output: r.GetOutput(), Node: r.GetNode(), Revision: d.GetRevision(),
		Worker: lost.holder(), Lease: lost.token(),
	})
	summary.Status, summary.Reason, summary.FinishedAt = string(job.Succeeded), lateReason, r.GetFinishedAt()
	summary.Attempts = max(summary.GetAttempts(), r.GetAttempt())
	summary.Worker = lost.holder()
	summary.Outcome, summary.StatusCode, summary.Output, summary.Error, summary.Lease = "", 0, "", "", ""
	if on := j.replayOf(d.GetExecutionId()); on != nil {
		summary.ReplayedBy = on.id
	}
	c.record(j, slot, d.GetExecutionId(), 0, d.GetSummaryEpoch(), summary)
}

// findDead reads the dead letter of a success that came late, beside the mailbox.
func (o *owner) findDead(e FindDead) {
	go func() {
		ctx, cancel := context.WithTimeout(o.ctx, storeTimeout)
		defer cancel()
		d, err := o.deadLetter(ctx, e.Result.GetJobId(), e.Result.GetExecutionId())
		o.root.Send(o.self, stored{Late{From: e.From, Result: e.Result, Dead: d, Failed: err != nil}})
	}()
}
