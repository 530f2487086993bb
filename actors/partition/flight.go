package partition

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/actors/wheel"
	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence/guards"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// phase is where a flight stands. It lives in memory only: what is durable is
// the attempt and when it may be sent.
type phase byte

const (
	committing phase = iota // its row is not durable yet
	waiting                 // durable; its timer runs
	adopting                // due, perhaps with a worker that a former owner sent it to
	keptOut                 // due, and another one of its job has not ended: see overlap.go
	queued                  // due, waits for a worker with a slot
	sent                    // with a worker, as far as we know
	unclaimed               // due, waits for an outside worker to claim it
	leased                  // an outside worker has it, until its lease expires
	judged                  // its result is decided and not durable yet
)

// flight is an execution that is not decided yet.
type flight struct {
	timer wheel.Timer[timed] // when to send it, or to ask again what became of it

	job       *jobRec
	spec      *belfryv1.JobSpec // as it was armed
	id        string
	gen       int64 // of the registration it belongs to; the job's may be a later one
	kind      job.Kind
	hash      string // of the command that asked for it, when it is manual
	slot      int64  // scheduled_for
	due       int64  // when it may be sent first; its age counts from here
	rev       int64
	attempt   int32
	retryAt   int64
	epochs    []int64 // under which the current attempt may have been sent. Invariant: the last one is our life's before it is sent.
	lastError string
	expires   int64 // when it has waited for too long; 0: it did not wait yet
	turn      int64 // among those that wait for its host; 0: none yet
	bytes     int   // of its delivery, about; 0: not counted yet
	armed     int64
	unknown   int32
	catchUp   bool
	run       *belfryv1.Run    // nil: it is the first of its own
	again     bool             // dependents were told an outcome of the run before
	backfill  int64            // number of the one that it belongs to; 0: none
	newKey    bool             // of a backfill: not the slot's own
	paced     bool             // counted in State.paced
	replay    *belfryv1.Replay // of a dead letter; nil: it is none
	cancel    string           // why it is being cancelled; "": it is not

	phase     phase
	owed      *change // while committing: the change that makes it durable
	firstSent int64
	sentNow   int64 // when the current attempt was sent to its worker

	// Who may have the current attempt, besides the workers of former owners.
	worker    *worker // that has it; nil: none. Invariant: it is live.
	confirmed bool    // it has said so
	number    int64   // of the dispatch that carried it last
	tries     int     // how often we sent it to that worker; 0: a former owner did
	strays    bool    // a worker that was lost may have it from us as well

	late *belfryv1.Result // the success of an earlier delivery, while worker is still at this one; nil: none

	lease *lease // of the outside worker that has the current attempt; nil: none has
	lost  *lease // the last one, when it expired. Invariant: not beside a lease.
}

// sendAt is when the current attempt may be sent.
func (f *flight) sendAt() int64 {
	if f.retryAt != 0 {
		return f.retryAt
	}
	return f.due
}

// begun tells that a worker may have the current attempt just now.
func (f *flight) begun() bool { return f.worker != nil || f.lease != nil || f.phase == adopting }

// ours tells that a worker may have got the current attempt from us.
func (f *flight) ours() bool { return f.tries > 0 || f.strays }

// size is how many bytes its delivery has, about.
func (f *flight) size() int {
	if f.bytes == 0 {
		f.bytes = proto.Size(f.spec.GetTarget()) + 2*len(f.id) + len(f.job.id) + 64
	}
	return f.bytes
}

// former tells that a former owner may have sent the current attempt.
func (f *flight) former(life int64) bool {
	return !f.claimable() && len(f.epochs) > 0 && f.epochs[0] != life
}

// formers is how many former owners may have.
func (f *flight) formers(life int64) int {
	if n := len(f.epochs); n > 0 && f.epochs[n-1] == life {
		return n - 1
	}
	return len(f.epochs)
}

// sentUnder is the epoch under which the current attempt was sent, as far as we
// know.
func (f *flight) sentUnder(life int64) int64 {
	if f.ours() {
		return life
	}
	under := life
	for _, epoch := range f.epochs {
		if epoch != life {
			under = epoch
		}
	}
	return under
}

// leave notes that the flight's worker does not have it.
func (f *flight) leave() { f.worker, f.confirmed, f.number, f.tries = nil, false, 0, 0 }

// deleted tells that the registration that it belongs to is gone.
func (f *flight) deleted() bool {
	return !f.replay.GetApart() && (f.job.status == job.Deleted || f.gen != f.job.gen)
}

// orphaned says why an execution may end and is not tried again: the
// registration that it belongs to, or its backfill, is gone. "": it is wanted.
func (f *flight) orphaned() string {
	if f.deleted() {
		return "the job was deleted"
	}
	if b := f.job.past.backfillOf(f.backfill); b != nil && cancelled(b) {
		return backfillCancelled
	}
	return ""
}

// key is what a target recognises a repeat by: of a slot that a backfill runs
// again, the slot's own.
func (f *flight) key() string {
	if key := f.replay.GetKey(); key != "" {
		return key
	}
	if f.kind == job.Backfilled && !f.newKey {
		return job.ScheduledID(f.job.id, f.gen, time.UnixMilli(f.slot))
	}
	return f.id
}

func (f *flight) trigger() string {
	switch {
	case f.kind == job.Manual:
		return "manual"
	case f.kind == job.Dependent:
		return "dependency"
	case f.kind == job.Backfilled:
		return "backfill"
	case f.kind == job.Replayed:
		return "replay"
	case f.catchUp:
		return "catch_up"
	}
	return "schedule"
}

// stored is the flight's part of the job's state.
func (f *flight) stored() *belfryv1.InFlight {
	m := &belfryv1.InFlight{
		ScheduledFor: f.slot, Due: f.due, Revision: f.rev, Attempt: f.attempt, RetryAt: f.retryAt,
		Epochs: f.epochs, LastError: f.lastError, ArmedAt: f.armed, UnknownAttempts: f.unknown, CatchUp: f.catchUp, Cancel: f.cancel,
		Run: f.run, Again: f.again, Lease: f.lease.stored(), Lost: f.lost.stored(),
	}
	switch f.kind {
	case job.Manual:
		m.Kind, m.Hash = belfryv1.InFlight_KIND_MANUAL, f.hash
	case job.Dependent:
		m.Kind, m.Hash = belfryv1.InFlight_KIND_DEPENDENT, f.hash
	case job.Replayed:
		m.Kind, m.Hash, m.Replay = belfryv1.InFlight_KIND_REPLAY, f.hash, f.replay
	case job.Backfilled:
		m.Kind, m.Hash, m.Backfill, m.NewKey = belfryv1.InFlight_KIND_BACKFILL, f.hash, f.backfill, f.newKey
	}
	if f.gen != f.job.gen {
		m.ExecutionId = f.id // cannot be derived from the job
	}
	return m
}

// restored is the flight of a stored one.
func restored(j *jobRec, m *belfryv1.InFlight) *flight {
	f := &flight{
		job: j, gen: j.gen, id: messages.ExecutionID(j.id, j.gen, m), hash: m.GetHash(), slot: m.GetScheduledFor(), due: m.GetDue(), rev: m.GetRevision(), attempt: m.GetAttempt(),
		retryAt: m.GetRetryAt(), epochs: m.GetEpochs(), lastError: m.GetLastError(), armed: m.GetArmedAt(),
		unknown: m.GetUnknownAttempts(), catchUp: m.GetCatchUp(), cancel: m.GetCancel(), run: m.GetRun(), again: m.GetAgain(),
		backfill: m.GetBackfill(), newKey: m.GetNewKey(), phase: waiting,
		lease: restoredLease(m.GetLease()), lost: restoredLease(m.GetLost()),
	}
	if f.lease != nil {
		f.firstSent, f.sentNow = f.lease.granted, f.lease.granted
	}
	switch m.GetKind() {
	case belfryv1.InFlight_KIND_MANUAL:
		f.kind = job.Manual
	case belfryv1.InFlight_KIND_DEPENDENT:
		f.kind = job.Dependent
	case belfryv1.InFlight_KIND_REPLAY:
		f.kind, f.replay = job.Replayed, m.GetReplay()
	case belfryv1.InFlight_KIND_BACKFILL:
		f.kind = job.Backfilled
	}
	if ref, ok := job.ParseExecutionID(f.id); ok {
		f.gen = ref.Generation
	}
	f.timer.Value = timed{flight: f}
	return f
}

// launch makes a new execution of a job, to be sent at due.
func (s *State) launch(j *jobRec, sp *belfryv1.JobSpec, slot, due int64) *flight {
	f := &flight{
		job: j, gen: j.gen, spec: sp, slot: slot, due: due, rev: j.rev, attempt: 1, armed: s.now, epochs: s.firstEpochs(sp),
		id: job.ScheduledID(j.id, j.gen, time.UnixMilli(slot)),
	}
	f.timer.Value = timed{flight: f}
	return f
}

// shared is the spec of a revision as another flight of the job has it: many that
// wait have one copy together.
func (j *jobRec) shared(rev int64, sp *belfryv1.JobSpec) *belfryv1.JobSpec {
	for _, f := range j.flights() {
		if f.rev == rev && f.spec != nil {
			return f.spec
		}
	}
	return sp
}

// enter adds a new flight to its job. It is durable with the change.
func (s *State) enter(f *flight, c *change) {
	p := f.job.history()
	f.spec = f.job.shared(f.rev, f.spec)
	p.flights = append(p.flights, f)
	s.running[f.id] = f
	s.beginPaced(f)
	f.commitWith(c)
	s.wheel.Schedule(&f.timer, f.sendAt())
}

// commitWith holds the flight back until a change is durable.
func (f *flight) commitWith(c *change) {
	f.phase, f.owed = committing, c
	c.flights = append(c.flights, f)
}

// drop takes a flight out of the state: it is decided, or was never sent and
// is not wanted any more.
func (s *State) drop(f *flight) {
	s.unqueue(f)
	s.wheel.Cancel(&f.timer)
	if f.phase == unclaimed {
		s.shelves.remove(f)
	}
	s.endPaced(f)
	delete(s.running, f.id)
	p := f.job.past
	for i, other := range p.flights {
		if other == f {
			p.flights = append(p.flights[:i], p.flights[i+1:]...)
			break
		}
	}
	f.phase = judged
	s.vacate(f)
}

// durable tells a flight that a change of its is in the store.
func (s *State) durable(f *flight, c *change) {
	if f.phase != committing || f.owed != c || s.running[f.id] != f {
		return // decided, dropped or changed again in the meantime
	}
	f.phase, f.owed = waiting, nil
	if f.worker != nil {
		f.phase = sent
	}
	switch {
	case s.yielding:
	case f.begun() || s.now >= f.sendAt() || guards.NoClock && f.former(s.life):
		s.becomeReady(f)
	case !f.timer.Scheduled(): // it went off before, and the clock was stepped back
		s.wheel.Schedule(&f.timer, f.sendAt())
	}
}

// flightDue is a flight's timer: it is to be sent, or soon; or its worker has not
// said that it has it, or has not reported long after the timeout. The worker
// knows what it holds: sending it the same delivery again begins nothing twice.
// Or it has waited for a worker for too long, or one that has claimed it is silent.
func (s *State) flightDue(f *flight) {
	switch {
	case f.phase == waiting && s.now < f.sendAt() && !guards.NoClock:
		if f.letIn() || !solitary(f.spec) {
			s.nameLife(f)
		}
		s.wheel.Schedule(&f.timer, f.sendAt())
	case f.phase == sent && s.now < f.sendAt(): // the clock was stepped back behind it: its worker is asked when it is due again
		s.wheel.Schedule(&f.timer, f.sendAt())
	case f.phase == waiting || f.phase == sent:
		s.becomeReady(f)
	case f.phase == queued || f.phase == unclaimed || f.phase == keptOut:
		s.expire(f)
	case f.phase == leased:
		s.expireLease(f)
	}
}

// nameLife has a flight's row name the epoch under which it will be sent. It is
// true when that is durable already.
func (s *State) nameLife(f *flight) bool {
	if n := len(f.epochs); n > 0 && f.epochs[n-1] == s.life {
		return true
	}
	c := s.change(f.job)
	if !f.letIn() {
		s.closeRange(c, f.job)
	}
	f.epochs = append(f.epochs, s.life)
	f.commitWith(c.row(s.row(f.job, nil)))
	return false
}

// becomeReady queues a due flight for a worker, or for the one that has it, once
// it may run beside what else its job has and its row names the epoch under
// which it will be sent.
func (s *State) becomeReady(f *flight) {
	s.wheel.Cancel(&f.timer)
	s.reach(f)
	if !f.claimable() && f.phase == waiting && s.maybeSent(f) {
		s.awaitHolds(f)
		return
	}
	switch {
	case f.begun():
	case f.cancel != "":
		s.abandon(f, f.cancel)
		return
	case !s.admit(f):
		return
	}
	if f.claimable() {
		if f.letIn() || s.nameLife(f) {
			s.offer(f)
		}
		return
	}
	if !s.nameLife(f) {
		return
	}
	if f.worker != nil {
		f.phase = sent
		s.again = append(s.again, f)
		return
	}
	s.enqueue(f)
}

// reach notes that a slot is sent: the cursor never moves back behind it.
func (s *State) reach(f *flight) {
	if f.kind == job.Scheduled && f.gen == f.job.gen {
		f.job.reached = max(f.job.reached, f.slot)
	}
}
