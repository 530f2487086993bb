package partition

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestSimulation plays random lives of a partition, one a seed: commands, time,
// answers of the store in doubt, lost owners, targets that fail. After each
// step the invariants hold (world.stepNow), and at the end every slot has
// exactly one record and every delivery its place in the history. See explore.
func TestSimulation(t *testing.T) {
	n := explore(t, "life", simActs, func(t testing.TB, p plan) { newSim(t, p.seed).play(p) })
	t.Logf("%d lives", n)
}

// simActs is how many random things happen in a life.
const simActs = 60

// sim is one random life.
type sim struct {
	*world
	r       *rand.Rand
	ids     []string
	lives   map[string][]*life
	acked   map[string]bool // ids with an acknowledged registration
	fills   []*fill
	rough   bool          // the store misbehaves just now
	slow    bool          // it takes its time just now
	late    *Commit       // what it has not answered yet
	back    time.Duration // by which the clock was stepped back so far
	out     outsiders
	witness *witness
}

// life is one registration as the simulation knows it, for the jobs that it
// never edits: their slots can be counted by walking the schedule.
type life struct {
	gen      int64
	from, to time.Time // to is zero while it lives
	spec     *belfryv1.JobSpec
	edited   bool
}

func newSim(t testing.TB, seed uint64) *sim {
	s := &sim{world: newWorld(t), r: seeded(seed), lives: map[string][]*life{}, acked: map[string]bool{}, witness: newWitness(t)}
	for i := 0; len(s.ids) < 3; i++ {
		if id := fmt.Sprint("j", i); job.PartitionOf(id, 16) == s.cfg.Partition {
			s.ids = append(s.ids, id)
		}
	}
	s.out = outsiders{newest: map[string]*hold1{}, success: map[string]string{}, ended: map[string]leaseEnd{}}
	s.fate.commit = s.commitFate
	s.stalled = func(c Commit) { s.late = &c }
	s.fate.outcome = s.outcome
	s.fate.busy = func() bool { return s.r.IntN(4) == 0 }
	return s
}

func (s *sim) commitFate() verdict {
	if barrier := s.state.queue.flying.settle != (uuid.UUID{}); s.slow && !barrier && s.r.IntN(4) > 0 {
		return silent
	}
	if !s.rough || s.r.IntN(3) == 0 {
		return fine
	}
	return []verdict{fine, doubtDone, doubtDead, unavailable}[s.r.IntN(4)]
}

func (s *sim) outcome(*belfryv1.Delivery) *belfryv1.Result {
	switch s.r.IntN(8) {
	case 0:
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 500, Error: "500"}
	case 1:
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_TIMEOUT, Error: "timeout"}
	case 2:
		return nil
	}
	return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}
}

func (s *sim) play(p plan) {
	s.sparse = p.sparse
	for act := range simActs {
		if !p.dropped[act] {
			s.r = seeded(p.luck(act))
			s.act()
			s.hear()
			s.witness.hear(s.answerTo)
		}
	}
	s.rough, s.slow = false, false
	s.answerLate()
	s.fate.outcome = nil
	s.fate.busy = nil
	s.finishAll()
	s.finishOutside()
	s.advance(20 * time.Minute)
	s.finishOutside()
	s.verify()
}

// ask sends a command, and has the checker know what came of it.
func (s *sim) ask(c *belfryv1.Command) *belfryv1.Answer {
	s.witness.asked(s.nextRef+1, c, s.now)
	a := s.world.ask(c)
	s.witness.hear(s.answerTo)
	return a
}

func (s *sim) answerTo(ref Ref) *belfryv1.Answer {
	a, _ := s.answers[ref].(*belfryv1.Answer)
	return a
}

// act does one random thing.
func (s *sim) act() {
	id := s.ids[s.r.IntN(len(s.ids))]
	if s.r.IntN(3) == 0 {
		s.answerLate()
	}
	for range s.r.IntN(4) {
		s.outside()
	}
	switch s.r.IntN(25) {
	case 0, 1:
		s.registerRandom(id)
	case 2:
		s.deleteJob(id)
	case 3:
		s.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Pause{Pause: &belfryv1.Pause{}}})
	case 4:
		s.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Resume{Resume: &belfryv1.Resume{CatchUp: s.r.IntN(2) == 0}}})
	case 5:
		s.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
	case 22:
		s.cancelExecution(id)
	case 23, 24:
		s.aboutDead(id)
	case 6:
		s.rough = !s.rough
	case 7:
		s.lose(time.Duration(s.r.IntN(300)) * []time.Duration{time.Second, 20 * time.Millisecond}[s.r.IntN(2)])
	case 8:
		s.finishAll()
	case 9:
		s.slow = !s.slow
	case 17, 18:
		s.fills = append(s.fills, s.backfillRandom(id, s.r, s.ask)...)
	case 19:
		s.cancelRandom()
	case 20:
		s.stepClock(time.Duration(s.r.IntN(3600)-120) * time.Second)
	case 21: // a long outage
		s.lose(time.Duration(s.r.IntN(72)) * time.Hour)
	case 10, 11: // too short for the store to be away
		s.advance(time.Duration(s.r.IntN(700)) * time.Millisecond)
	default:
		s.advance(time.Duration(s.r.IntN(120_000)) * time.Millisecond)
	}
}

// stepClock steps the clock; what outside workers were promised is as long as
// before.
func (s *sim) stepClock(by time.Duration) {
	s.witness.fault(check.Outage, "", s.now, s.now.Add(by))
	s.witness.back = s.witness.back || by < 0
	s.now = s.now.Add(by)
	s.back -= min(by, 0)
	for _, h := range s.out.holds {
		h.until = h.until.Add(min(by, 0))
	}
	s.step(Tick{Judge: true})
}

// One of the jobs is always registered with max_runs.
const (
	rationed = 2
	simRuns  = 25
)

var simOverlaps = []job.Overlap{job.OverlapAllow, job.OverlapSkip, job.OverlapQueued, job.OverlapReplace}

var simExprs = []string{"* * * * *", "*/2 * * * *", "@every 7s", "30 * * * *", "@every 1s"}

func (s *sim) registerRandom(id string) {
	expr := simExprs[s.r.IntN(len(simExprs))]
	sp := spec(expr, func(j *job.Spec) {
		j.CatchUp.Policy = []job.CatchUpPolicy{job.CatchUpLatest, job.CatchUpAll, job.CatchUpNone}[s.r.IntN(3)]
		j.CatchUp.Max = 1 + s.r.IntN(20)
		j.CatchUp.Grace = time.Duration(1+s.r.IntN(60)) * time.Second
		j.Retry.MaxAttempts = 1 + s.r.IntN(4)
		j.MaxOutstanding = 1 + s.r.IntN(5)
		j.Timeout = time.Duration(1+s.r.IntN(30)) * time.Second
		throttled(s.r)(j)
		if s.r.IntN(2) == 0 {
			j.Target = job.Target{Queue: &job.QueueTarget{Name: simQueues[s.r.IntN(2)]}}
			j.RateLimit = job.RateLimit{} // all is claimed at one instant at the end
		}
		if s.r.IntN(2) == 0 {
			j.Schedule.Jitter = time.Duration(1+s.r.IntN(450)) * time.Millisecond
		}
		if id == s.ids[rationed] {
			j.MaxRuns = simRuns
		}
		j.Overlap, j.OverlapQueue = simOverlaps[s.r.IntN(len(simOverlaps))], 1+s.r.IntN(3)
	})
	before := s.now
	a := s.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: sp}}})
	s.noteRegistration(id, a, before)
}

// aboutDead replays one of a job's dead letters, or purges it.
func (s *sim) aboutDead(id string) {
	dead := s.dead(id)
	if len(dead) == 0 {
		return
	}
	c := &belfryv1.Command{JobId: id}
	execution := dead[s.r.IntN(len(dead))]
	if s.r.IntN(4) == 0 && s.deliveredOnce(execution) { // its worker had done it
		s.witness.late[execution] = true
		s.finish(&belfryv1.Delivery{ExecutionId: execution, JobId: id, Attempt: 1}, &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED}, s.state.life)
		s.step(Tick{})
		return
	}
	if s.r.IntN(5) == 0 {
		c.Action = &belfryv1.Command_Purge{Purge: &belfryv1.Purge{ExecutionId: execution}}
	} else {
		c.Action = &belfryv1.Command_Replay{Replay: &belfryv1.ReplayDead{ExecutionId: execution, SameKey: s.r.IntN(2) == 0}}
	}
	s.ask(c)
}

// deliveredOnce tells that a worker of a node was given an execution, and once.
func (s *sim) deliveredOnce(execution string) bool {
	n := 0
	for _, d := range s.deliveries {
		if d.id == execution {
			n++
		}
	}
	return n == 1
}

// cancelExecution cancels one of the executions in flight.
func (s *sim) cancelExecution(id string) {
	j := s.state.jobs[id]
	if j == nil || len(j.flights()) == 0 {
		return
	}
	f := j.flights()[s.r.IntN(len(j.flights()))]
	s.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Cancel{Cancel: &belfryv1.Cancel{ExecutionId: f.id}}})
}

func (s *sim) noteRegistration(id string, a *belfryv1.Answer, at time.Time) {
	ls := s.lives[id]
	j := a.GetJob()
	switch {
	case a.GetRefusal() != nil:
	case j == nil: // nobody knows whether it came to be, or what it changed
		for _, l := range ls {
			l.edited = true
		}
		s.lives[id] = append(ls, &life{edited: true})
	case a.GetCreated():
		s.lives[id] = append(ls, &life{gen: j.GetState().GetGeneration(), from: at, spec: j.GetSpec()})
		s.acked[id] = true
	case len(ls) > 0:
		ls[len(ls)-1].edited = true
	}
}

func (s *sim) deleteJob(id string) {
	a := s.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}})
	ls := s.lives[id]
	if len(ls) == 0 {
		return
	}
	switch l := ls[len(ls)-1]; {
	case a.GetDeleted() != nil:
		l.to = time.UnixMilli(s.state.jobs[id].cursor) // later than now when the clock was stepped back
		s.acked[id] = false
	case a == nil:
		l.edited = true
		s.acked[id] = false
	}
}

// answerLate lets a slow store answer.
func (s *sim) answerLate() {
	if c := s.late; c != nil {
		s.late = nil
		s.store.apply(c.Batch)
		s.step(Applied{s.store.fence})
	}
}

// lose kills the owner and starts another after a while. What the store has not
// answered may be in it or not.
func (s *sim) lose(after time.Duration) {
	if c := s.late; c != nil && s.r.IntN(2) == 0 {
		s.store.apply(c.Batch)
	}
	s.late = nil
	s.crash()
	s.witness.hear(s.answerTo)
	s.witness.unheard()
	s.witness.fault(check.Killed, s.cfg.Node, s.now, s.now.Add(after))
	s.witness.fault(check.Outage, "", s.now, s.now.Add(after))
	s.now = s.now.Add(after)
	s.boot()
}

func (s *sim) finishAll() {
	for _, id := range slices.Sorted(maps.Keys(s.running)) {
		j := s.running[id]
		held := false
		for _, r := range s.held {
			held = held || r.GetExecutionId() == j.d.GetExecutionId()
		}
		if !held {
			s.finish(j.d, &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}, s.state.life)
		}
	}
	s.step(Tick{})
}

// verify compares what was promised with what there is.
func (s *sim) verify() {
	for _, id := range s.ids {
		if j := s.state.jobs[id]; s.acked[id] && (j == nil || j.status == job.Deleted) {
			s.t.Fatalf("job %s was acknowledged and is gone", id)
		}
		s.verifyRecords(id)
		s.verifyDead(id)
		if id == s.ids[rationed] {
			s.verifyRation(id)
		}
		for _, l := range s.lives[id] {
			if !l.edited {
				s.verifyLife(id, l)
			}
		}
	}
	s.verifyDeliveries()
	s.verifyBackfills(s.fills)
	s.verifyOutside()
	s.judged()
}

// judged: the checker of chaos finds nothing, in what came to targets and outside
// workers.
func (s *sim) judged() {
	if s.witness.back {
		return // the checker's clock never is
	}
	h := &s.witness.history
	for _, d := range s.deliveries {
		h.Receipts = append(h.Receipts, receiptOf(d))
	}
	done := s.completed()
	for _, o := range s.out.holds {
		if done[o.GetLease()] != "" || !o.released {
			h.Receipts = append(h.Receipts, o.receipt())
		}
	}
	if found := s.witness.findings(&s.store, s.state, s.now); found != "" {

		s.t.Fatal(found)
	}
}

// verifyRecords: no slot of a generation has two records.
func (s *sim) verifyRecords(id string) {
	last := map[int64]line{}
	for _, l := range s.lines(id) {
		ref, ok := job.ParseExecutionID(l.id)
		if l.id == "open" {
			ref.Generation = s.state.jobs[id].gen
		} else if !ok {
			s.t.Fatalf("job %s: id %q cannot be taken apart", id, l.id)
		}
		if ref.Kind != job.Scheduled {
			continue
		}
		if before, ok := last[ref.Generation]; ok && l.first <= before.last {
			s.t.Fatalf("job %s: the slots of %+v overlap those of %+v", id, l, before)
		}
		last[ref.Generation] = l
	}
}

// verifyDead: a dead letter is of an execution that failed, and so it stays.
func (s *sim) verifyDead(id string) {
	dead := s.dead(id)
	for _, l := range s.lines(id) {
		if slices.Contains(dead, l.id) && l.status != string(job.Failed) {
			s.t.Fatalf("%s is a dead letter, and %s: %s", l.id, l.status, l.reason)
		}
	}
}

// verifyRation: however often the owner was lost and the job was edited, each
// registration was given max_runs slots and no more.
func (s *sim) verifyRation(id string) {
	given := map[int64]int64{}
	for _, l := range s.lines(id) {
		ref, ok := job.ParseExecutionID(l.id)
		if l.id == "open" {
			ref.Generation = s.state.jobs[id].gen
		}
		if !ok || ref.Kind == job.Scheduled {
			given[ref.Generation] += l.count
		}
	}
	for gen, n := range given {
		if n > simRuns {
			s.t.Fatalf("job %s generation %d was given %d slots, max_runs is %d:\n%v", id, gen, n, simRuns, s.lines(id))
		}
	}
	if j := s.state.jobs[id]; j != nil && j.status == job.Finished && given[j.gen] != simRuns {
		s.t.Fatalf("job %s is finished after %d slots, max_runs is %d:\n%v", id, given[j.gen], simRuns, s.lines(id))
	}
}

// verifyLife: each slot of a registration is in exactly one record.
func (s *sim) verifyLife(id string, l *life) {
	covered := int64(0)
	for _, x := range s.lines(id) {
		if ref, ok := job.ParseExecutionID(x.id); ok && (ref.Kind != job.Scheduled || ref.Generation != l.gen) {
			continue
		}
		if x.id == "open" && s.state.jobs[id].gen != l.gen {
			continue
		}
		covered += x.count
	}
	j := s.state.jobs[id]
	to := l.to
	if to.IsZero() {
		to = time.UnixMilli(j.cursor)
		if p := j.past; p != nil {
			for _, run := range p.catchUp {
				covered += timingOf(s.t, l.spec).Missed(time.UnixMilli(run.GetNext()-1), time.UnixMilli(run.GetTo()), 0).Count
			}
		}
	}
	want := int64(len(slots(s.t, l.spec, l.from, to)))
	if covered != want {
		s.t.Fatalf("job %s generation %d (%s): %d slots up to %s, and records cover %d:\n%v",
			id, l.gen, l.spec.GetTiming().GetExpr(), want, to.UTC().Format(time.RFC3339Nano), covered, s.lines(id))
	}
}

// verifyDeliveries: never early, one key, repeats only under a later epoch, and
// a row for each.
func (s *sim) verifyDeliveries() {
	rows := map[string]bool{}
	for _, h := range s.store.history {
		rows[fmt.Sprint(h.ExecutionID, "/", lineOf(s.t, h))] = true
		r := new(belfryv1.Record)
		if err := proto.Unmarshal(h.Record, r); err != nil {
			s.t.Fatal(err)
		}
		if h.Attempt > 0 && messages.Outcome(0) == job.Outcome(r.GetStatus()) && r.GetReason() == "" && r.GetError() == "" {
			s.t.Fatalf("execution %s attempt %d is unknown without a reason", h.ExecutionID, h.Attempt)
		}
	}
	last := map[string]delivery{}
	for _, d := range s.deliveries {
		if d.at.Before(d.due) {
			s.t.Fatalf("%s was delivered at %s, before its time", d.id, d.at)
		}
		before, again := last[d.id]
		if again && d.attempt == before.attempt && d.epoch <= before.epoch {
			s.t.Fatalf("%s attempt %d was delivered twice under epoch %d", d.id, d.attempt, d.epoch)
		}
		for n := before.attempt + 1; again && n < d.attempt; n++ {
			if !rows[fmt.Sprint(d.id, "/", n)] { // its owners died before they sent it
				s.t.Fatalf("%s: attempt %d follows %d, and %d has no row", d.id, d.attempt, before.attempt, n)
			}
		}
		if again && d.attempt < before.attempt {
			s.t.Fatalf("%s: attempt %d follows %d", d.id, d.attempt, before.attempt)
		}
		last[d.id] = d
		if _, inFlight := s.state.running[d.id]; !inFlight && !rows[fmt.Sprint(d.id, "/", d.attempt)] {
			s.t.Fatalf("%s attempt %d was delivered and has no row", d.id, d.attempt)
		}
	}
}
