package partition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// witness is a simulated life as the checker of chaos sees it: what was asked for
// and answered, what the target received, and what was done to the owner. What
// the checker cannot know of a job ends what it is asked about that one.
type witness struct {
	t       testing.TB
	history check.History
	jobs    map[string]*witnessed
	order   []string
	waiting []request
	late    map[string]bool // executions whose only worker has said, after their end, that they succeeded
	lossy   bool            // a command without an answer may take effect long after it was asked
	slack   time.Duration   // how exactly it is known when a command took effect
	back    bool            // the clock was stepped back: the checker's does not
}

// witnessed is a job and all that was ever registered as it.
type witnessed struct {
	check.Job
	specs   []*belfryv1.JobSpec
	rations bool
	unsure  bool // what else was registered is not known
}

// mostWitnessed is how many slots of a job are looked at.
const mostWitnessed = 5_000

func newWitness(t testing.TB) *witness {
	return &witness{t: t, history: check.History{Records: map[string][]check.Record{}}, jobs: map[string]*witnessed{}, late: map[string]bool{}, slack: time.Millisecond}
}

func (g *witness) job(id string) *witnessed {
	if g.jobs[id] == nil {
		g.jobs[id] = &witnessed{Job: check.Job{ID: id}}
		g.order = append(g.order, id)
	}
	return g.jobs[id]
}

// request is a command without an answer yet.
type request struct {
	ref  Ref
	c    *belfryv1.Command
	call time.Time
}

// asked notes a command.
func (g *witness) asked(ref Ref, c *belfryv1.Command, call time.Time) {
	g.waiting = append(g.waiting, request{ref, c, call})
}

// hear notes what has come of the commands that were asked.
func (g *witness) hear(answer func(Ref) *belfryv1.Answer) {
	g.waiting = slices.DeleteFunc(g.waiting, func(r request) bool {
		a := answer(r.ref)
		if a != nil && a.GetRefusal() == nil {
			g.answered(r, a)
		}
		return a != nil
	})
}

// unheard: nobody will ever answer what is not answered by now.
func (g *witness) unheard() {
	for _, r := range g.waiting {
		g.answered(r, nil)
	}
	g.waiting = nil
}

// answered notes a command and what came of it; a is nil when nobody knows. An
// answer says when it was given: a slot of that very moment may be on either side.
func (g *witness) answered(r request, a *belfryv1.Answer) {
	j, c := g.job(r.c.GetJobId()), r.c
	op := check.Op{Call: r.call, Return: r.call, Outcome: check.Unknown}
	if a != nil {
		at := job.Instant(a.GetAt())
		op = check.Op{Call: at.Add(-g.slack), Return: at.Add(g.slack - time.Millisecond)}
	}
	switch {
	case c.GetCancel() != nil:
		j.MayCancel = true
	case a == nil && (g.lossy || c.GetRegister() != nil || c.GetDelete() != nil):
		j.stop(op.Call) // whether it is there, or since when and as what, is not known
		j.unsure = true
	case c.GetRegister() != nil:
		op.Verb = check.Update
		if a.GetCreated() {
			op.Verb = check.Register
		}
		g.registered(j, op, a.GetJob())
	case c.GetDelete() != nil:
		op.Verb = check.Delete
		j.does(op)
	case c.GetPause() != nil:
		op.Verb = check.Pause
		j.does(op)
	case c.GetResume() != nil:
		op.Verb, op.CatchUp = check.Resume, c.GetResume().GetCatchUp()
		j.does(op)
	}
}

// registered: the slots that max_runs leaves depend on when it was edited.
func (g *witness) registered(j *witnessed, op check.Op, now *belfryv1.Job) {
	sp := now.GetSpec()
	if op.Verb == check.Update && j.rations {
		j.stop(op.Call)
	}
	j.specs = append(j.specs, sp)
	op.Schedule = scheduleOf(g.t, sp, job.Instant(now.GetState().GetCreatedAt()))
	j.rations = sp.GetMaxRuns() > 0
	j.does(op)
	if i, ok := op.Schedule.(check.Interval); ok {
		j.stop(op.Call.Add(mostWitnessed * i.Every))
	}
}

func (j *witnessed) does(op check.Op) {
	n := len(j.Ops)
	there := op.Verb == check.Register || n > 0 && j.Ops[n-1].Verb != check.Delete
	if there && (op.CatchUp || j.Until.IsZero() || op.Call.Before(j.Until)) {
		j.Ops = append(j.Ops, op)
	}
}

// stop ends what is looked at.
func (j *witnessed) stop(at time.Time) {
	if j.Until.IsZero() || at.Before(j.Until) {
		j.Until = at
	}
}

// scheduleOf is a schedule as the checker walks it.
func scheduleOf(t testing.TB, sp *belfryv1.JobSpec, from time.Time) check.Schedule {
	var s check.Schedule = check.Cron{Expr: sp.GetTiming().GetExpr(), Zone: "UTC"}
	if text, ok := strings.CutPrefix(sp.GetTiming().GetExpr(), "@every "); ok {
		every, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		s = check.Interval{First: job.Instant(sp.GetTiming().GetAnchor()), Every: every}
	}
	if n := sp.GetMaxRuns(); n > 0 {
		return firstFew(s, from, int(n))
	}
	return s
}

// upTo is a schedule that ends.
type upTo struct {
	check.Schedule
	last time.Time
}

// Due are those up to the last one.
func (u upTo) Due(after, until time.Time) []time.Time {
	if until.After(u.last) {
		until = u.last
	}
	return u.Schedule.Due(after, until)
}

// firstFew are the first n slots of a schedule.
func firstFew(s check.Schedule, from time.Time, n int) check.Schedule {
	for within := time.Duration(n) * time.Second; ; within *= 2 {
		if all := s.Due(from, from.Add(within)); len(all) >= n {
			return upTo{s, all[n-1]}
		}
	}
}

// fault notes what was done to the owner. It ends after what is of its last
// moment.
func (g *witness) fault(kind check.FaultKind, node string, from, to time.Time) {
	g.history.Faults = append(g.history.Faults, check.Fault{Kind: kind, Node: node, At: from, End: to.Add(time.Millisecond)})
}

// findings are those of the checker, once all is over.
func (g *witness) findings(store *model, state *State, now time.Time) string {
	g.unheard()
	h := &g.history
	for _, id := range g.order {
		j := g.jobs[id]
		j.stop(now)
		h.Records[id] = g.records(store, state.jobs[id], j)
		g.heardLate(h.Records[id])
		g.policies(j)
		h.Jobs = append(h.Jobs, j.Job)
	}
	if found := h.Check(); len(found) > 0 {
		return check.Text(found)
	}
	return ""
}

// policies are what the rules need to know, where all that was registered as the
// job says the same.
func (g *witness) policies(j *witnessed) {
	j.MayFail = true
	same := func(of func(*belfryv1.JobSpec) proto.Message) bool {
		return !slices.ContainsFunc(j.specs, func(sp *belfryv1.JobSpec) bool { return !proto.Equal(of(sp), of(j.specs[0])) })
	}
	j.MaySkip, j.MayMiss, j.MayCancel = true, true, true
	if len(j.specs) == 0 || j.unsure {
		return
	}
	first := j.specs[0]
	// An outside worker may hold what it was never told of.
	queued := slices.ContainsFunc(j.specs, func(sp *belfryv1.JobSpec) bool { return sp.GetTarget().GetQueue() != nil })
	if r := first.GetRetry(); !queued && same(func(sp *belfryv1.JobSpec) proto.Message { return sp.GetRetry() }) {
		j.Retry = &check.Retry{
			MaxAttempts: int(r.GetMaxAttempts()), Initial: millis(r.GetInitialBackoffMs()), Max: millis(r.GetMaxBackoffMs()), Multiplier: r.GetMultiplier(), Jitter: r.GetJitter(),
		}
	}
	alike := !slices.ContainsFunc(j.specs, func(sp *belfryv1.JobSpec) bool { return sp.GetOverlap() != first.GetOverlap() })
	overlaps := map[belfryv1.Overlap]check.Overlap{belfryv1.Overlap_OVERLAP_SKIP: check.Skip, belfryv1.Overlap_OVERLAP_QUEUE: check.Queue, belfryv1.Overlap_OVERLAP_REPLACE: check.Replace}
	if alike {
		j.Overlap = overlaps[first.GetOverlap()]
	}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// records are the history of a job as the API shows it, without what is on the
// way: that ends what is looked at.
func (g *witness) records(store *model, j *jobRec, of *witnessed) []check.Record {
	latest := map[string]persistence.HistoryRow{}
	for _, h := range store.history {
		if h.JobID == of.ID && h.Attempt == 0 && h.Decision >= latest[h.ExecutionID].Decision {
			latest[h.ExecutionID] = h
		}
	}
	var out []check.Record
	for _, h := range latest {
		r := new(belfryv1.Record)
		if err := proto.Unmarshal(h.Record, r); err != nil {
			g.t.Fatal(err)
		}
		rec := check.Record{
			ExecutionID: h.ExecutionID, ScheduledFor: job.Instant(h.ScheduledFor), Status: r.GetStatus(), Reason: r.GetReason(),
			AttemptCount: int(r.GetAttempts()), Unknown: int(r.GetUnknownAttempts()), Range: rangeOf(r.GetRange()),
		}
		out = append(out, rec)
	}
	if j != nil && j.past != nil {
		if o := j.past.open; o != nil {
			first := job.Instant(o.GetFirst())
			out = append(out, check.Record{ExecutionID: job.ScheduledID(j.id, j.gen, first), ScheduledFor: first, Status: o.GetStatus(), Reason: o.GetReason(), Range: rangeOf(o)})
		}
		for _, f := range j.past.flights {
			of.stop(time.UnixMilli(f.slot))
		}
		for _, run := range j.past.catchUp {
			of.stop(time.UnixMilli(run.GetNext()))
		}
	}
	slices.SortFunc(out, func(a, b check.Record) int { return strings.Compare(a.ExecutionID, b.ExecutionID) })
	return out
}

// heardLate: where the owner has heard of a success at last, the target had it.
func (g *witness) heardLate(records []check.Record) {
	for _, r := range records {
		if !g.late[r.ExecutionID] || r.Status != string(job.Succeeded) {
			continue
		}
		for i := range g.history.Receipts {
			if g.history.Receipts[i].Execution == r.ExecutionID {
				g.history.Receipts[i].Status = 200
			}
		}
	}
}

func rangeOf(r *belfryv1.SlotRange) *check.Range {
	if r == nil {
		return nil
	}
	return &check.Range{First: job.Instant(r.GetFirst()), Last: job.Instant(r.GetLast()), Count: int(r.GetCount())}
}

// receiptOf is a delivery of a node's worker.
func receiptOf(d delivery) check.Receipt {
	ref, _ := job.ParseExecutionID(d.id)
	return check.Receipt{
		Execution: d.id, Job: ref.JobID, Key: d.key, ScheduledFor: d.slot, Attempt: int(d.attempt), Epoch: d.epoch,
		Received: d.at, Answered: d.answered, Status: d.status, Recorded: d.recorded,
	}
}

// receipt is a delivery of a node's worker in a fleet.
func (rc *receipt) receipt() check.Receipt {
	ref, _ := job.ParseExecutionID(rc.id)
	r := check.Receipt{
		Execution: rc.id, Job: ref.JobID, Key: rc.h.x.GetKey(), ScheduledFor: job.Instant(rc.slot), Attempt: int(rc.attempt), Epoch: rc.epoch, Received: rc.at,
	}
	if x := rc.h.result; x != nil {
		r.Answered, r.Status = job.Instant(x.GetFinishedAt()), int(x.GetStatusCode())
	}
	return r
}

// receipt is what an outside worker was given: the same as a delivery.
func (h *hold1) receipt() check.Receipt {
	epoch, _, _ := strings.Cut(h.GetLease(), "-")
	n, err := strconv.ParseInt(epoch, 36, 64)
	if err != nil {
		panic(fmt.Sprintf("lease %s: %v", h.GetLease(), err))
	}
	return check.Receipt{
		Execution: h.GetExecutionId(), Job: h.GetJobId(), Key: h.GetKey(), ScheduledFor: job.Instant(h.GetScheduledFor()), Attempt: int(h.GetAttempt()),
		Epoch: n, Received: h.at, Answered: h.answered, Status: h.status, Recorded: h.answered,
	}
}

// TestLivesAreJudged: what is not so in a life the checker finds, in what the
// simulations tell it.
func TestLivesAreJudged(t *testing.T) {
	lies := []struct {
		rule, name string
		tell       func(*check.History) bool // false: there is nothing that it can be about
	}{
		{"C1", "a record is lost", aboutRecord(func(rs []check.Record, i int) []check.Record { return slices.Delete(rs, i, i+1) })},
		{"C1", "a record is there twice", aboutRecord(func(rs []check.Record, i int) []check.Record { return append(rs, rs[i]) })},
		{"C4", "a record has another id", aboutRecord(func(rs []check.Record, i int) []check.Record { rs[i].ExecutionID += "0"; return rs })},
		{"C17", "a record is not settled", aboutRecord(func(rs []check.Record, i int) []check.Record { rs[i].Status = "running"; return rs })},
		{"C2", "a delivery is early", aboutDelivery(func(r *check.Receipt) { r.Received = r.ScheduledFor.Add(-time.Second) })},
		{"C5", "a delivery has another key", aboutDelivery(func(r *check.Receipt) { r.Key = "k" })},
		{"C16", "a delivery has no record", aboutDelivery(func(r *check.Receipt) { r.Execution += "0" })},
		{"C16", "an attempt is not recorded", aboutDelivery(func(r *check.Receipt) { r.Attempt = 99 })},
	}
	told := map[string]int{}
	for seed := range uint64(6) {
		life, cluster := newSim(t, seed+1), newFleetSim(t, seed+1)
		life.play(plan{seed: seed + 1, sparse: true})
		cluster.play(plan{seed: seed + 1, sparse: true})
		for kind, of := range map[string]*witness{"life": life.witness, "fleet": cluster.witness} {
			for _, lie := range lies {
				h := of.history
				h.Receipts, h.Records = slices.Clone(h.Receipts), map[string][]check.Record{}
				for id, rs := range of.history.Records {
					h.Records[id] = slices.Clone(rs)
				}
				if of.back || !lie.tell(&h) {
					continue
				}
				told[kind+": "+lie.name]++
				if found := h.Check(); !slices.ContainsFunc(found, func(f check.Finding) bool { return f.Rule == lie.rule }) {
					t.Errorf("%s %d: %s, and %s does not say so: %v", kind, seed+1, lie.name, lie.rule, found)
				}
			}
		}
	}
	if len(told) != 2*len(lies) {
		t.Errorf("only these could be told: %v", told)
	}
}

// aboutRecord changes the first record of a slot of its own that there had to be.
func aboutRecord(change func(rs []check.Record, i int) []check.Record) func(*check.History) bool {
	return func(h *check.History) bool {
		for _, j := range h.Jobs {
			for i, r := range h.Records[j.ID] {
				sure := len(j.Ops) == 1 && r.Range == nil && r.ScheduledFor.Before(j.Until)
				if ref, ok := job.ParseExecutionID(r.ExecutionID); sure && ok && ref.Kind == job.Scheduled {
					h.Records[j.ID] = change(h.Records[j.ID], i)
					return true
				}
			}
		}
		return false
	}
}

// aboutDelivery changes the first delivery of a slot.
func aboutDelivery(change func(*check.Receipt)) func(*check.History) bool {
	return func(h *check.History) bool {
		i := slices.IndexFunc(h.Receipts, func(r check.Receipt) bool {
			ref, ok := job.ParseExecutionID(r.Execution)
			return ok && ref.Kind == job.Scheduled
		})
		if i >= 0 {
			change(&h.Receipts[i])
		}
		return i >= 0
	}
}
