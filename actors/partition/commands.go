package partition

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// asked carries out commands. Each answer, also a refusal, waits for what it
// rests on to be durable.
func (s *State) asked(e Asked) {
	k := &ask{answers: make([]*belfryv1.Answer, len(e.Commands)), left: len(e.Commands), single: e.Single}
	s.asks[e.Ref] = k
	if s.away() {
		s.turnAway(e)
		return
	}
	for i, cmd := range e.Commands {
		s.carryOut(asker{e.Ref, i, e.Single}, cmd)
	}
	if k.left == 0 && len(e.Commands) == 0 {
		delete(s.asks, e.Ref)
		s.emit(Reply{To: e.Ref, Answer: &belfryv1.Answers{}})
	}
}

// asker is who waits for the answer to a command.
type asker struct {
	ref    Ref
	index  int
	single bool
}

// carryOut decides a command, unless its upstreams have to be asked first, or a
// dead letter has to be read.
func (s *State) carryOut(by asker, cmd *belfryv1.Command) {
	if by.single && cmd.GetKeyed() && s.repeated(by.ref, cmd) || s.wire(by, cmd) || s.lateUnderLease(by, cmd) {
		return
	}
	s.single = by.single
	c, answer := s.command(cmd)
	if c == nil {
		c = s.changeOf(cmd.GetJobId())
	}
	s.answer(by, cmd, c, answer)
}

// answer gives an answer with the change that it rests on.
func (s *State) answer(by asker, cmd *belfryv1.Command, c *change, answer *belfryv1.Answer) {
	answer.CommandId, answer.At = cmd.GetId(), s.now
	if by.single && cmd.GetKeyed() && (answer.GetRefusal() == nil || refusedForGood(cmd)) {
		s.remember(c, cmd, answer)
	}
	c.answers = append(c.answers, answered{by.ref, by.index, answer})
	s.queue.lines.hurry(c.id)
}

// turnAway refuses commands at once while the store is away: nothing could be
// promised about them.
func (s *State) turnAway(e Asked) {
	for i, cmd := range e.Commands {
		s.answerDurable(answered{e.Ref, i, refusal(cmd.GetId(), belfryv1.Refusal_CODE_UNAVAILABLE, "", "the store does not answer: try again")})
	}
}

// command decides one command: the change with its effect, nil when there is
// none, and the answer.
func (s *State) command(cmd *belfryv1.Command) (*change, *belfryv1.Answer) {
	id := cmd.GetJobId()
	if job.PartitionOf(id, s.cfg.Partitions) != s.cfg.Partition {
		return s.refuse(belfryv1.Refusal_CODE_NOT_OWNER, "", "job %q belongs to another partition", id)
	}
	if id != "" && id[0] == '/' {
		return s.setEdges(id, cmd.GetSetEdges())
	}
	j := s.jobs[id]
	if (j == nil || j.status == job.Deleted) && ofLinks(cmd) {
		return s.linkless(cmd)
	}
	if cmd.GetRegister() == nil && (j == nil || j.status == job.Deleted && !outlivesJob(cmd)) {
		return s.refuse(belfryv1.Refusal_CODE_NOT_FOUND, "", "there is no job %q", id)
	}
	var c *change
	var answer *belfryv1.Answer
	if !s.guard(id, func() { c, answer = s.act(j, cmd) }) {
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "the job %q made this node fail, and is marked as faulty: delete it, or register it again", id)
	}
	return c, answer
}

// outlivesJob tells that a command may be about a job that was deleted.
func outlivesJob(cmd *belfryv1.Command) bool {
	return cmd.GetCancel() != nil || cmd.GetReplay() != nil || cmd.GetPurge() != nil || underLease(cmd)
}

// act carries out a command on the job it names.
func (s *State) act(j *jobRec, cmd *belfryv1.Command) (*change, *belfryv1.Answer) {
	if reg := cmd.GetRegister(); reg != nil {
		return s.register(j, cmd.GetJobId(), reg)
	}
	switch a := cmd.GetAction().(type) {
	case *belfryv1.Command_Delete:
		return s.delete(j, a.Delete)
	case *belfryv1.Command_Pause:
		return s.pauseAsked(j, a.Pause)
	case *belfryv1.Command_Resume:
		return s.resume(j, a.Resume)
	case *belfryv1.Command_Trigger:
		return s.triggerAsked(j, cmd.GetId())
	case *belfryv1.Command_Attach:
		return s.attach(j, a.Attach)
	case *belfryv1.Command_Detach:
		return s.detach(j, a.Detach)
	case *belfryv1.Command_Notify:
		return s.notified(j, a.Notify)
	case *belfryv1.Command_Complete:
		return s.complete(a.Complete)
	case *belfryv1.Command_Release:
		return s.giveUp(a.Release)
	case *belfryv1.Command_Backfill:
		return s.backfillAsked(j, cmd.GetId(), a.Backfill)
	case *belfryv1.Command_CancelBackfill:
		return s.cancelBackfillAsked(j, a.CancelBackfill)
	case *belfryv1.Command_Cancel:
		return s.cancelAsked(j, a.Cancel)
	case *belfryv1.Command_Replay:
		return s.replayAsked(j, cmd.GetId(), a.Replay)
	case *belfryv1.Command_Purge:
		return s.purgeAsked(j, a.Purge)
	}
	return s.refuse(belfryv1.Refusal_CODE_INVALID, "", "this node does not know what the command asks for: it is older than the one that sent it")
}

// underLease tells whether a command is about what a worker holds, which also the
// end of its job leaves to it.
func underLease(cmd *belfryv1.Command) bool {
	return cmd.GetComplete() != nil || cmd.GetRelease() != nil
}

func refusal(command string, code belfryv1.Refusal_Code, field, format string, args ...any) *belfryv1.Answer {
	return &belfryv1.Answer{CommandId: command, Outcome: &belfryv1.Answer_Refusal{Refusal: &belfryv1.Refusal{
		Code: code, Field: field, Message: fmt.Sprintf(format, args...),
	}}}
}

// refuse answers without a change of any job.
func (s *State) refuse(code belfryv1.Refusal_Code, field, format string, args ...any) (*change, *belfryv1.Answer) {
	return nil, refusal("", code, field, format, args...)
}

// jobAnswer shows the job. In a batch it is only named: whoever registers a
// million jobs wants to know that they are there.
func (s *State) jobAnswer(j *jobRec, created bool) *belfryv1.Answer {
	view := &belfryv1.Job{JobId: j.id, Status: string(j.status), State: &belfryv1.JobState{Generation: j.gen, Revision: j.rev}, NextRun: j.next}
	if s.single {
		view = j.view()
	}
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Job{Job: view}, Created: created}
}

// delete ends a registration: what is armed or waiting is cancelled, what runs
// is left to finish.
func (s *State) delete(j *jobRec, d *belfryv1.Delete) (*change, *belfryv1.Answer) {
	if r := d.GetIfRevision(); r != 0 && r != j.rev {
		return s.refuse(belfryv1.Refusal_CODE_REVISION, "", "the job is at revision %d, not %d: read it again", j.rev, r)
	}
	if no := s.leaned(j, d.GetWithout()); no != nil {
		return nil, no
	}
	c := s.change(j)
	const reason = "the job was deleted"
	if _, sched, err := s.planOf(j); err == nil && (j.status == job.Active || j.status == job.Paused) {
		if j.status == job.Paused {
			s.settle(c, j, sched, job.Skipped, "paused")
		} else {
			s.settle(c, j, sched, job.Cancelled, reason)
		}
	}
	s.cancelBackfills(c, j, reason)
	s.setStatus(j, job.Deleted, "")
	for _, f := range append([]*flight(nil), j.flights()...) {
		if !f.begun() && f.phase != judged && !f.replay.GetApart() {
			s.end(c, f, ending{status: job.Cancelled, reason: reason, finished: s.now})
		}
	}
	s.closeRange(c, j)
	s.relink(c, j, nil)
	s.cutOff(c, j)
	j.next = 0
	s.schedule(j)
	c.row(s.row(j, nil)).publish(s.jobEvent(j, "job.deleted", ""))
	return c, &belfryv1.Answer{Outcome: &belfryv1.Answer_Deleted{Deleted: &belfryv1.Deleted{}}}
}

func (s *State) pauseAsked(j *jobRec, p *belfryv1.Pause) (*change, *belfryv1.Answer) {
	switch j.status {
	case job.Paused:
		return nil, s.jobAnswer(j, false)
	case job.Active:
	default:
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "a job in state %s cannot be paused: nothing of it is due", j.status)
	}
	c := s.change(j)
	s.pause(c, j, p.GetReason())
	c.row(s.row(j, nil))
	return c, s.jobAnswer(j, false)
}

// pause stops a job: its armed slots are not due any more, and those that pass
// while it is paused become one range.
func (s *State) pause(c *change, j *jobRec, reason string) {
	if _, sched, err := s.planOf(j); err == nil {
		s.settle(c, j, sched, job.Skipped, "paused")
	}
	s.disarm(c, j, func(int64) bool { return false })
	s.setStatus(j, job.Paused, clip(reason, 500))
	j.next = 0
	s.schedule(j)
	c.publish(s.jobEvent(j, "job.paused", reason))
}

func (s *State) resume(j *jobRec, r *belfryv1.Resume) (*change, *belfryv1.Answer) {
	switch j.status {
	case job.Active:
		return nil, s.jobAnswer(j, false)
	case job.Paused:
	default:
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "a job in state %s cannot be resumed: register it again with a schedule that comes due", j.status)
	}
	c := s.change(j)
	if err := s.unpause(c, j, r.GetCatchUp()); err != nil {
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "the job's schedule cannot be read: %v", err)
	}
	c.row(s.row(j, nil)).publish(s.jobEvent(j, "job.resumed", r.GetReason()))
	return c, s.jobAnswer(j, false)
}

// unpause makes a paused job active. A pause is no outage
// (kubernetes/kubernetes#45825): what passed is skipped, unless its catch-up is
// asked for.
func (s *State) unpause(c *change, j *jobRec, catchUp bool) error {
	sp, sched, err := s.planOf(j)
	if err != nil {
		return err
	}
	if !catchUp {
		s.settle(c, j, sched, job.Skipped, "paused")
		s.closeRange(c, j)
	}
	s.setStatus(j, job.Active, "")
	if err := j.moveCursor(sched, j.cursor); err != nil {
		return err
	}
	if catchUp {
		if err := s.judgeGap(c, j, sp, sched, "paused"); err != nil {
			return err
		}
	}
	if err := s.arm(c, j, sp, sched); err != nil {
		return err
	}
	s.settleStatus(c, j)
	s.schedule(j)
	return nil
}

// triggerAsked runs a job once, now. The execution's id is made from the
// command's, so a repeated command finds the first one's.
func (s *State) triggerAsked(j *jobRec, command string) (*change, *belfryv1.Answer) {
	sp, err := j.decodeSpec()
	if err != nil || j.status == job.Faulty {
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "the job cannot be read: register it again")
	}
	if n := j.outstanding(); n >= places(sp) {
		return s.refuse(belfryv1.Refusal_CODE_BUSY, "", "the job has %d unfinished executions, and may have %d: wait for one to end", n, places(sp))
	}
	f := s.launch(j, sp, s.now, s.now)
	f.kind, f.hash = job.Manual, job.CommandHash(command)
	f.id = job.ManualIDOf(j.id, j.gen, f.hash, time.UnixMilli(s.now))
	answer := &belfryv1.Answer{Outcome: &belfryv1.Answer_Execution{Execution: &belfryv1.Execution{ExecutionId: f.id, ScheduledFor: f.slot}}}
	if s.running[f.id] != nil {
		return nil, answer
	}
	if why := s.refusedByOverlap(f); why != "" {
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "%s", why)
	}
	if !f.fits() {
		return s.crowded(j)
	}
	if len(s.holders(f)) == 0 {
		f.epochs = []int64{s.life} // it is due now, and let in at once
	}
	c := s.change(j)
	s.enter(f, c)
	c.row(s.row(j, nil))
	return c, answer
}

// sameTiming tells whether two stored schedules are one.
func sameTiming(a, b *belfryv1.Timing) bool { return proto.Equal(a, b) }
