package partition

import (
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/actors/wheel"
	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// jobRec is a job in memory. A million of them wait in one process, so the
// spec stays in its stored form and what only a job with a past has lies in
// past.
type jobRec struct {
	timer wheel.Timer[timed] // when to arm its next slot, or to sweep it

	id      string
	status  job.Status
	gen     int64
	rev     int64
	cursor  int64 // newest slot that is armed, recorded or passed over
	reached int64 // newest slot dispatched or recorded: the cursor never moves back behind it
	next    int64 // first slot after the cursor; 0: none. Invariant: > cursor.
	created int64
	updated int64
	spec    []byte // protobuf of JobSpec
	past    *past
	links   *links // nil: no job depends on it, nor it on any
	soon    bool   // counted in State.soon
	inLine  bool   // in State.line
}

// past is what has happened to a job.
type past struct {
	flights         []*flight
	open            *belfryv1.SlotRange    // Invariant: not nil only while it is the newest record.
	catchUp         []*belfryv1.CatchUpRun // missed slots that still run, one run an outage, oldest first
	backfills       []*belfryv1.Backfill   // in the order in which they were asked for
	backlog         int64                  // the slot since which max_outstanding holds slots back; 0: none
	days            []int32
	last            *belfryv1.LastExecution
	specs           map[int64]*belfryv1.JobSpec // older revisions that flights are pinned to
	reason          string
	statusAt        int64
	counters        counters
	turn, extraTurn int64 // of its next flight among those that wait for a host: one of the schedule's, and one that is extra
	runs            *runs // of a job with max_runs
	pace            pace
}

type counters struct{ succeeded, failed, missed, skipped, cancelled int64 }

// history returns the job's past, made when it is needed for the first time.
func (j *jobRec) history() *past {
	if j.past == nil {
		j.past = &past{}
	}
	return j.past
}

func (j *jobRec) flights() []*flight {
	if j.past == nil {
		return nil
	}
	return j.past.flights
}

// decodeSpec reads the current spec. A spec that cannot be read is that job's
// fault alone.
func (j *jobRec) decodeSpec() (*belfryv1.JobSpec, error) {
	sp := new(belfryv1.JobSpec)
	if err := proto.Unmarshal(j.spec, sp); err != nil {
		return nil, fmt.Errorf("decode spec: %w", err)
	}
	return sp, nil
}

func (s *State) slice(jobID string) int16 { return job.SliceOf(jobID, s.cfg.Partitions) }

// row is the job's own row. With its spec at hand, that and the labels are
// written too.
func (s *State) row(j *jobRec, sp *belfryv1.JobSpec) persistence.Row {
	st := j.state()
	messages.StampFormat(st, s.cfg.Format)
	r := persistence.Row{
		Slice: s.slice(j.id), JobID: j.id,
		Revision: j.rev, Status: j.status, NextRun: j.next,
		State: encode(st),
	}
	if sp != nil {
		r.Spec, r.Labels = j.spec, sp.GetLabels()
		if r.Labels == nil {
			r.Labels = noLabels
		}
	}
	return r
}

var noLabels = map[string]string{} // nil would keep those that are stored

// state is the stored form of what has happened to the job.
func (j *jobRec) state() *belfryv1.JobState {
	st := j.rest()
	if flights := j.flights(); len(flights) > 0 {
		st.InFlight = make([]*belfryv1.InFlight, len(flights))
		for i, f := range flights {
			st.InFlight[i] = f.stored()
		}
	}
	return st
}

// rest is its state without its executions.
func (j *jobRec) rest() *belfryv1.JobState {
	st := &belfryv1.JobState{
		Generation: j.gen, Revision: j.rev, CreatedAt: j.created, UpdatedAt: j.updated, Cursor: j.cursor,
		Dependents: int32(len(j.downs())),
	}
	if j.links != nil {
		st.Wired = j.links.wired
	}
	p := j.past
	if p == nil {
		return st
	}
	st.StatusReason, st.StatusAt = p.reason, p.statusAt
	if full := p.pace.bucket.Full(); full.UnixMilli() > 0 {
		st.RateFull = job.CeilMillis(full)
	}
	st.Backfills = p.backfills
	st.OpenRange, st.CatchUp, st.BacklogSince, st.Days, st.Last = p.open, p.catchUp, p.backlog, p.days, p.last
	st.Succeeded, st.Failed, st.Missed = p.counters.succeeded, p.counters.failed, p.counters.missed
	st.Skipped, st.Cancelled = p.counters.skipped, p.counters.cancelled
	if r := p.runs; r != nil {
		st.RunsBefore, st.RunsSince, st.LastSlot = r.before, r.since, r.last
	}
	return st
}

// view is the job as an answer shows it: a copy, since the state moves on.
func (j *jobRec) view() *belfryv1.Job {
	v := &belfryv1.Job{JobId: j.id, Status: string(j.status), State: proto.Clone(j.state()).(*belfryv1.JobState), NextRun: j.next}
	v.Spec, _ = j.decodeSpec()
	return v
}

func (s *State) setStatus(j *jobRec, to job.Status, reason string) {
	if j.status == to {
		return
	}
	s.counts[j.status]--
	s.counts[to]++
	j.status = to
	p := j.history()
	p.reason, p.statusAt = reason, s.now
}

type compilation struct {
	schedule *job.Schedule
	err      error
}

// maxCompiled bounds the cache of schedules; past it the cache starts anew.
const maxCompiled = 256

// compile returns the schedule of a stored job, from the cache when jobs share
// it.
func (s *State) compile(jobID string, sp *belfryv1.JobSpec) (*job.Schedule, error) {
	timing := messages.TimingOf(jobID, sp)
	if !timing.Shared() {
		return job.Compile(timing)
	}
	key := timing.Key()
	if c, ok := s.cache[key]; ok {
		return c.schedule, c.err
	}
	sched, err := job.Compile(timing)
	if len(s.cache) >= maxCompiled {
		clear(s.cache)
	}
	s.cache[key] = &compilation{sched, err}
	return sched, err
}

// planOf is a job's spec and the schedule that it is given, when both can be
// read.
func (s *State) planOf(j *jobRec) (*belfryv1.JobSpec, *job.Schedule, error) {
	sp, err := j.decodeSpec()
	if err != nil {
		return nil, nil, err
	}
	sched, err := s.compile(j.id, sp)
	if err != nil {
		return nil, nil, fmt.Errorf("schedule: %w", err)
	}
	return sp, j.given(sched), nil
}

// moveCursor passes over everything up to slot and finds the next one. A
// schedule whose next is not later than the cursor is a fault of the job
// (mariusbancila/croncpp#8): it would fire for ever.
func (j *jobRec) moveCursor(sched *job.Schedule, to int64) error {
	j.cursor = to
	j.next = 0
	if at, ok := sched.Next(time.UnixMilli(to)); ok {
		if at.UnixMilli() <= to {
			return fmt.Errorf("schedule: the slot after %s is not later", job.Instant(to).Format(time.RFC3339Nano))
		}
		j.next = at.UnixMilli()
	}
	return nil
}

// fault marks one job as faulty and leaves the rest of the partition alone.
func (s *State) fault(j *jobRec, why string) {
	s.unschedule(j)
	s.setStatus(j, job.Faulty, clip(why, 200))
	j.next = 0
	s.change(j).row(s.row(j, nil)).publish(s.jobEvent(j, "job.error", why))
}

// guard keeps a panic over one job's data to that job: it is marked, and the
// rest of the partition goes on. It reports whether the work went through.
func (s *State) guard(id string, work func()) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			s.panics++
			s.lastPanic = fmt.Sprintf("job %s: %v\n%s", id, r, debug.Stack())
			j := s.jobs[id]
			if j == nil {
				return
			}
			s.spoilt(j, fmt.Sprintf("internal: panic: %v", r))
		}
	}()
	work()
	return true
}

// spoilt marks a job about which nothing in memory can be relied on: it keeps
// only what has to be swept with it.
func (s *State) spoilt(j *jobRec, why string) {
	for _, f := range append([]*flight(nil), j.flights()...) {
		s.drop(f)
	}
	if j.past != nil {
		j.past = &past{specs: j.past.specs, days: j.past.days, runs: j.past.runs}
	}
	s.fault(j, why)
}

// Panics is how many panics over single jobs were caught so far, and the last
// with its stack.
func (s *State) Panics() (n int, last string) { return s.panics, s.lastPanic }

// unschedule takes the job out of the wheel and the counts that go with it.
func (s *State) unschedule(j *jobRec) {
	s.wheel.Cancel(&j.timer)
	s.setSoon(j, false)
}

func (s *State) setSoon(j *jobRec, soon bool) {
	if j.soon == soon {
		return
	}
	j.soon = soon
	if soon {
		s.soon++
	} else {
		s.soon--
	}
}

// schedule puts the job's timer where it belongs: for an active job with a next
// slot, the longest arm-ahead before it. At max_outstanding there is no timer:
// the end of an execution arms the next.
func (s *State) schedule(j *jobRec) {
	s.unschedule(j)
	s.queueExtra(j)
	switch {
	case j.status == job.Active && j.next != 0 && (j.past == nil || j.past.backlog == 0):
		j.timer.Value = timed{job: j}
		s.wheel.Schedule(&j.timer, j.next-s.cfg.ArmAheadMax.Milliseconds())
	case j.status == job.Finished || j.status == job.Deleted:
		j.timer.Value = timed{job: j}
		s.wheel.Schedule(&j.timer, j.history().statusAt+s.cfg.Retention.Milliseconds())
	}
}

var deterministic = proto.MarshalOptions{Deterministic: true}

// encode never fails: our own messages hold valid UTF-8, checked on the way in.
func encode(m proto.Message) []byte {
	b, err := deterministic.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("partition: encode %T: %v", m, err))
	}
	return b
}

// clip cuts a text to n bytes without splitting a character.
func clip(text string, n int) string {
	if n = max(n, 0); len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}
