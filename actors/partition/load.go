package partition

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/guards"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// LoadRow takes one stored row. A row that cannot be read marks its own job as
// faulty and is left as it is in the store. A *messages.NewerFormat ends the
// load: the partition is for a node that knows it.
func (s *State) LoadRow(r persistence.Row) error {
	switch {
	case strings.HasPrefix(r.JobID, "/"):
		s.loadEdges(r)
	case r.Item == "":
		return s.loadJob(r)
	case strings.HasPrefix(r.Item, "spec/"):
		s.loadSpec(r)
	case strings.HasPrefix(r.Item, "cmd/"):
		s.loadCommand(r)
	default:
		s.loadLink(r)
	}
	return nil
}

func (s *State) loadJob(r persistence.Row) error {
	j := &jobRec{id: r.JobID, rev: r.Revision, status: r.Status, spec: r.Spec, next: r.NextRun}
	s.jobs[j.id] = j
	st := new(belfryv1.JobState)
	if err := proto.Unmarshal(r.State, st); err != nil {
		s.spoil(j, fmt.Errorf("decode state: %w", err))
		return nil
	}
	if err := messages.CheckFormat(st); err != nil {
		return fmt.Errorf("job %s: %w", r.JobID, err)
	}
	s.cfg.Format = max(s.cfg.Format, messages.FormatOf(st))
	j.gen, j.rev, j.cursor = st.GetGeneration(), st.GetRevision(), st.GetCursor()
	j.created, j.updated, j.reached = st.GetCreatedAt(), st.GetUpdatedAt(), st.GetCursor()
	if wired := st.GetWired(); wired != 0 {
		j.linked().wired = wired
	}
	s.loadPast(j, st)
	switch j.status {
	case job.Active, job.Paused, job.Finished, job.Deleted, job.Faulty:
	default:
		s.spoil(j, fmt.Errorf("unknown status %q", j.status))
		return nil
	}
	s.counts[j.status]++
	return nil
}

// loadPast restores what has happened, when anything has.
func (s *State) loadPast(j *jobRec, st *belfryv1.JobState) {
	c := counters{st.GetSucceeded(), st.GetFailed(), st.GetMissed(), st.GetSkipped(), st.GetCancelled()}
	if len(st.GetInFlight()) == 0 && st.GetOpenRange() == nil && len(st.GetCatchUp()) == 0 && st.GetBacklogSince() == 0 &&
		len(st.GetDays()) == 0 && len(st.GetBackfills()) == 0 && st.GetLast() == nil && st.GetStatusReason() == "" && st.GetStatusAt() == 0 && st.GetLastSlot() == 0 && c == (counters{}) {
		return
	}
	j.past = &past{
		open: st.GetOpenRange(), catchUp: st.GetCatchUp(), backlog: st.GetBacklogSince(), days: st.GetDays(), last: st.GetLast(),
		backfills: st.GetBackfills(), reason: st.GetStatusReason(), statusAt: st.GetStatusAt(), counters: c, runs: storedRuns(st),
	}
	if at := st.GetRateFull(); at > 0 {
		j.past.pace.bucket = job.BucketOf(time.UnixMilli(at))
	}
	for _, m := range st.GetInFlight() {
		f := restored(j, m)
		f.attempt = max(f.attempt, 1)
		j.past.flights = append(j.past.flights, f)
		s.running[f.id] = f
		s.beginPaced(f)
		if f.kind == job.Scheduled && f.slot > s.now {
			j.reached = min(j.reached, f.slot-1)
		}
	}
	j.reached = max(j.reached, j.recorded())
}

// recorded is the latest slot that is known to be recorded: it may be later than
// now, and than what is in flight, after a backward step of the clock.
func (j *jobRec) recorded() int64 {
	ended := j.past.last
	if ref, ok := job.ParseExecutionID(ended.GetExecutionId()); !ok || ref.Kind != job.Scheduled || ref.Generation != j.gen {
		ended = nil
	}
	return max(j.past.open.GetLast(), ended.GetScheduledFor())
}

// spoil marks a job whose row cannot be read, without touching the row.
func (s *State) spoil(j *jobRec, err error) {
	j.status, j.next, j.spec = job.Faulty, 0, nil
	j.past = &past{reason: clip(err.Error(), 200), statusAt: s.now}
	s.counts[job.Faulty]++
}

func (s *State) loadSpec(r persistence.Row) {
	j := s.jobs[r.JobID]
	sp := new(belfryv1.JobSpec)
	if j == nil || j.past == nil || proto.Unmarshal(r.Spec, sp) != nil {
		return
	}
	if j.past.specs == nil {
		j.past.specs = map[int64]*belfryv1.JobSpec{}
	}
	j.past.specs[r.Revision] = sp
}

func (s *State) loadCommand(r persistence.Row) {
	m := new(belfryv1.RememberedCommand)
	if proto.Unmarshal(r.State, m) != nil {
		return
	}
	s.commands.known[keyOf(m.GetMark().GetId())] = true
	s.commands.order = append(s.commands.order, remembered{r.JobID, m.GetMark().GetId(), m.GetMark().GetAt()})
}

// Loaded ends the load: every timer is set, and executions that a former owner
// may have sent are marked so. A Tick with Judge must follow.
func (s *State) Loaded() {
	for id, j := range s.jobs {
		s.guard(id, func() { s.loaded(j) })
	}
	slices.SortFunc(s.adoption.flights, inDueOrder)
	slices.SortStableFunc(s.commands.order, func(a, b remembered) int { return int(a.at - b.at) })
	s.timeCommandSweep()
	s.timeDeadSweep()
	s.loadedLinks()
}

func (s *State) loaded(j *jobRec) {
	s.loadedFlights(j)
	if j.status == job.Active && (j.next == 0 && j.past == nil || j.next != 0 && j.next <= j.cursor) {
		s.rederive(j)
	}
	s.schedule(j)
}

// rederive finds the next slot of a row that does not name a plausible one.
func (s *State) rederive(j *jobRec) {
	_, sched, err := s.planOf(j)
	if err == nil {
		err = j.moveCursor(sched, j.cursor)
	}
	if err != nil {
		s.counts[j.status]--
		s.spoil(j, err)
	}
}

// loadedFlights finds the spec of each flight and sets its timer. What is due by
// now and may have been sent by a former owner waits until the workers have
// said what they hold. What is not due is nobody's yet: but a former owner that
// does not know yet that it is one may still send it at its instant, so its row
// goes on naming that owner, unless that very one has ended. It is made to name
// this one too shortly before its instant, so that it need not wait for that then.
func (s *State) loadedFlights(j *jobRec) {
	s.adoption.sent = s.now + clockSpread
	for _, f := range append([]*flight(nil), j.flights()...) {
		if f.spec = j.shared(f.rev, nil); f.spec == nil {
			f.spec = s.specOf(j, f.rev)
		}
		s.paceAfter(f)
		if f.sendAt() > s.adoption.sent {
			f.epochs = slices.DeleteFunc(f.epochs, func(epoch int64) bool { return epoch == s.cfg.FormerEnded })
		}
		switch {
		case f.spec == nil:
			s.abandon(f, "what it was armed with cannot be read")
		case guards.NoClock:
			s.wheel.Schedule(&f.timer, s.now)
		case f.sendAt() <= s.now && f.former(s.life):
			s.awaitHolds(f)
		default:
			s.wheel.Schedule(&f.timer, f.sendAt()-s.cfg.ArmAhead.Milliseconds())
		}
	}
}

func (s *State) specOf(j *jobRec, rev int64) *belfryv1.JobSpec {
	if rev == j.rev {
		if sp, err := j.decodeSpec(); err == nil {
			return sp
		}
		return nil
	}
	if j.past == nil {
		return nil
	}
	return j.past.specs[rev]
}
