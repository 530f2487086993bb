package partition

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// A dead letter is a row of its own, with all that a replay needs. It is not in
// the owner's memory: a command about one brings what the store has, read by the
// owner's shell. So what is read may be older than what the queue of changes
// holds. Rows of dead letters are written whole or removed, never changed;
// whether a replay is on the way, and which were removed last, memory knows.
//
//	dead/x ──replay──▶ execution r, linked with x both ways
//	                      │ succeeded: dead/x is removed
//	                      │ dead itself: dead/x is removed, and dead/r is there
//	                      └ cancelled: dead/x stays
//
// A success of x itself that comes late removes dead/x, too (see cameLate). So of
// one effect there is at most one dead letter. What is older than the
// retention goes (see deadSweep).

// deadRow is the row of a dead letter; nil: its removal.
func (s *State) deadRow(jobID, execution string, d *belfryv1.DeadLetter) persistence.Row {
	r := persistence.Row{Slice: job.DeadSliceOffset + s.slice(jobID), JobID: jobID, Item: persistence.DeadItem(execution), Delete: d == nil}
	if d != nil {
		r.Status, r.Labels, r.Spec = job.Status(job.Failed), d.GetSpec().GetLabels(), encode(d.GetSpec())
		bare := proto.Clone(d).(*belfryv1.DeadLetter)
		bare.Spec = nil
		r.State = encode(bare)
	} else {
		s.cleared.add(execution)
	}
	return r
}

// clearedKept is how many dead letters that are gone an owner remembers: more
// than are removed while one is read.
const clearedKept = 512

// cleared remembers which dead letters were removed last.
type cleared struct {
	of    map[string]bool // by execution
	order []string        // the oldest first
}

func (l *cleared) add(execution string) {
	l.of[execution] = true
	l.order = append(l.order, execution)
	if len(l.order) > clearedKept {
		delete(l.of, l.order[0])
		l.order = l.order[1:]
	}
}

// there is a dead letter that was read, if it is still there; nil: it is not.
func (l *cleared) there(d *belfryv1.DeadLetter) *belfryv1.DeadLetter {
	if l.of[d.GetExecutionId()] {
		return nil
	}
	return d
}

// bury ends an execution as a dead letter.
func (s *State) bury(c *change, f *flight, e ending) {
	e.status = job.Failed
	summary, epoch := s.end(c, f, e)
	d := &belfryv1.DeadLetter{
		ExecutionId: f.id, JobId: f.job.id, Generation: f.gen, Revision: f.rev, ScheduledFor: f.nominal(), Due: f.due,
		FailedAt: e.finished, Attempts: summary.GetAttempts(), UnknownAttempts: summary.GetUnknownAttempts(), Reason: e.reason, Spec: f.spec, Run: f.runOf(),
		FirstSent: f.firstSent, LastError: f.lastError, Summary: summary, SummaryEpoch: epoch, Lost: f.lost.stored(),
	}
	if key := f.key(); key != f.id {
		d.Key = key
	}
	if e.last != nil {
		d.LastError = e.last.record.GetError()
	}
	c.row(s.deadRow(f.job.id, f.id, d))
	s.clearDead(c, f)
}

// clearDead removes the dead letter that an execution was a replay of.
func (s *State) clearDead(c *change, f *flight) {
	if of := f.replay.GetOf(); of != "" {
		c.row(s.deadRow(f.job.id, of, nil))
	}
}

// nominal is scheduled_for as the target sees it.
func (f *flight) nominal() int64 {
	if f.replay != nil {
		return f.replay.GetSlot()
	}
	return f.slot
}

// replayAsked runs a dead letter once more: its spec, its slot and, unless
// another effect is wanted, its key.
func (s *State) replayAsked(j *jobRec, command string, m *belfryv1.ReplayDead) (*change, *belfryv1.Answer) {
	d := s.cleared.there(m.GetDead())
	if d == nil {
		return s.noDead(m.GetExecutionId())
	}
	if on := j.replayOf(d.GetExecutionId()); on != nil {
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "it is being replayed by %s: wait for its end, or cancel it", on.id)
	}
	if why := s.keyForgotten(d, m); why != "" {
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "%s", why)
	}
	f := s.replay(j, d, command, m.GetNewKey())
	if n, most := j.replays(), max(places(f.spec)/2, 1); n >= most {
		return s.refuse(belfryv1.Refusal_CODE_BUSY, "", "%d dead letters of the job are being replayed, and at most %d are at once, so that its schedule has places too: wait for one to end", n, most)
	}
	if why := s.refusedByOverlap(f); why != "" {
		return s.refuse(belfryv1.Refusal_CODE_STATE, "", "%s", why)
	}
	if !f.fits() {
		return s.crowded(j)
	}
	if len(s.holders(f)) == 0 {
		f.epochs = []int64{s.life}
	}
	c := s.change(j)
	if p := j.history(); f.rev != j.rev && p.specs[f.rev] == nil {
		if p.specs == nil {
			p.specs = map[int64]*belfryv1.JobSpec{}
		}
		p.specs[f.rev] = f.spec
		c.row(s.specRow(j.id, f.rev, encode(f.spec)))
	}
	s.enter(f, c)
	s.linkReplay(c, j, d, f.id)
	c.row(s.row(j, nil)).publish(&belfryv1.Event{
		Type: "dead_letter.replayed", JobId: j.id, ExecutionId: d.GetExecutionId(), ScheduledFor: d.GetScheduledFor(), At: s.now, Reason: "as " + f.id,
	})
	return c, &belfryv1.Answer{Outcome: &belfryv1.Answer_Execution{Execution: &belfryv1.Execution{
		ExecutionId: f.id, ScheduledFor: f.nominal(), ReplayOf: d.GetExecutionId(),
	}}}
}

func (s *State) noDead(execution string) (*change, *belfryv1.Answer) {
	return s.refuse(belfryv1.Refusal_CODE_NO_EXECUTION, "", "there is no dead letter %q: it was replayed or purged, or it never was one", execution)
}

// replay makes the execution.
func (s *State) replay(j *jobRec, d *belfryv1.DeadLetter, command string, newKey bool) *flight {
	f := s.launch(j, d.GetSpec(), s.now, s.now)
	f.kind, f.hash, f.gen, f.rev = job.Replayed, job.CommandHash(command), d.GetGeneration(), d.GetRevision()
	f.id = job.MarkedID(job.Replayed, j.id, f.gen, f.hash, time.UnixMilli(s.now))
	f.run, f.again = d.GetRun(), true
	f.replay = &belfryv1.Replay{Of: d.GetExecutionId(), Key: keyOfDead(d), Slot: d.GetScheduledFor(), Apart: f.deleted()}
	if newKey {
		f.replay.Key = ""
	}
	return f
}

func keyOfDead(d *belfryv1.DeadLetter) string {
	if d.GetKey() != "" {
		return d.GetKey()
	}
	return d.GetExecutionId()
}

// keyForgotten says why it must be said which key is meant; "": it is clear. A
// target that has forgotten the key takes a repeat for something new.
func (s *State) keyForgotten(d *belfryv1.DeadLetter, m *belfryv1.ReplayDead) string {
	lifetime := messages.FromTarget(d.GetSpec().GetTarget()).KeyLifetime
	used := d.GetFirstSent()
	if m.GetNewKey() || m.GetSameKey() || used == 0 || s.now-used <= lifetime.Milliseconds() {
		return ""
	}
	return "its key was first used " + job.Instant(used).Format(time.RFC3339) + ", and the target may have forgotten it (target.key_lifetime is " + lifetime.String() +
		`): say "same_key": true if a repeat does no harm or the target still knows the key, or "new_key": true if the effect is known not to have happened`
}

// linkReplay names a replay in the history of its original.
func (s *State) linkReplay(c *change, j *jobRec, d *belfryv1.DeadLetter, replay string) {
	ref, ok := job.ParseExecutionID(d.GetExecutionId())
	if d.GetSummary() == nil || !ok {
		return // it was buried by an earlier version
	}
	summary := proto.Clone(d.GetSummary()).(*belfryv1.Record)
	summary.ReplayedBy = replay
	c.record(j, ref.At.UnixMilli(), d.GetExecutionId(), 0, d.GetSummaryEpoch(), summary)
}

// replayOf is the replay of a dead letter that is on the way; nil: there is none.
func (j *jobRec) replayOf(execution string) *flight {
	for _, f := range j.flights() {
		if f.replay.GetOf() == execution {
			return f
		}
	}
	return nil
}

func (j *jobRec) replays() int {
	n := 0
	for _, f := range j.flights() {
		if f.replay != nil {
			n++
		}
	}
	return n
}

// purgeAsked forgets a dead letter.
func (s *State) purgeAsked(j *jobRec, m *belfryv1.Purge) (*change, *belfryv1.Answer) {
	if s.cleared.there(m.GetDead()) == nil {
		return s.noDead(m.GetExecutionId())
	}
	c := s.change(j).row(s.deadRow(j.id, m.GetExecutionId(), nil))
	c.publish(&belfryv1.Event{Type: "dead_letter.purged", JobId: j.id, ExecutionId: m.GetExecutionId(), ScheduledFor: m.GetDead().GetScheduledFor(), At: s.now})
	return c, &belfryv1.Answer{Outcome: &belfryv1.Answer_Deleted{Deleted: &belfryv1.Deleted{}}}
}
