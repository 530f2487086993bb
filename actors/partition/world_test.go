package partition

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// world drives a State in virtual time against a model of the store and of a
// worker. Everything that may go wrong is decided by fate.
type world struct {
	t     testing.TB
	now   time.Time
	cfg   Config
	state *State
	store model
	fate  fate
	ids   uint64

	worker     WorkerID // of this process
	sends      *[]Send  // if set, what is sent goes there, and nobody begins it
	acks       []Acknowledge
	yielded    *persistence.Fence
	tell       func(*belfryv1.Command) // if set, gets what other owners are asked
	interrupt  func() bool             // if set, asked before each effect: the process dies there
	deliveries []delivery
	running    map[string]*job1 // with the worker, by execution id
	held       []*belfryv1.Result
	answers    map[Ref]proto.Message
	events     []*belfryv1.Event
	hints      []*belfryv1.Hint
	nextRef    Ref
	refuse     func(persistence.Batch) bool // the store cannot take its content
	stalled    func(Commit)                 // told of commits that get no answer
	pending    []func()                     // what happens after the step under way
	stopped    bool
	unreadable int  // how many reads of dead letters fail
	unchecked  bool // the test checks the invariants itself, now and then: it has many jobs
	sparse     bool // they are checked every so many steps
	steps      int
}

// fate decides. The zero value lets everything succeed at once.
type fate struct {
	commit  func() verdict                            // of a commit or barrier
	outcome func(*belfryv1.Delivery) *belfryv1.Result // nil: the call hangs; default: success
	busy    func() bool                               // the worker has no slot
}

type verdict int

const (
	fine        verdict = iota
	doubtDone           // applied, and the answer is lost
	doubtDead           // not applied, and nobody knows
	unavailable         // not applied, and the store says so
	silent              // no answer at all until the test says so
)

type delivery struct {
	id, key string
	slot    time.Time
	due     time.Time // not before
	at      time.Time
	attempt int32
	epoch   int64

	answered time.Time // zero: not at all
	status   int       // of that
	recorded time.Time // when the worker was told so, or its process ended
}

type job1 struct {
	d  *belfryv1.Delivery
	of int // its place in world.deliveries
}

// model is what a store promises, without the disk.
type model struct {
	fence   persistence.Fence
	rows    map[[2]string]persistence.Row
	history []persistence.HistoryRow
	outs    map[[2]string][]byte // every outcome for dependents that was ever stored, by job id and item
	commits int
}

var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(t testing.TB) *world { return newWorldOf(t, job.PartitionOf("a", 16)) }

func newWorldOf(t testing.TB, partition int32) *world {
	w := &world{t: t, now: origin, running: map[string]*job1{}, answers: map[Ref]proto.Message{}}
	w.store.rows, w.store.outs = map[[2]string]persistence.Row{}, map[[2]string][]byte{}
	w.cfg = DefaultConfig()
	w.cfg.Partitions, w.cfg.Node = 16, "n1"
	w.cfg.Partition = partition
	w.cfg.NewID = func() uuid.UUID {
		w.ids++
		return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, partition, w.ids))
	}
	w.boot()
	return w
}

// boot acquires the partition and loads it, as a new owner does.
func (w *world) boot() {
	w.store.fence.Epoch++
	w.store.fence.Seq++
	w.store.fence.OpID = w.cfg.NewID()
	w.state = New(w.cfg, w.store.fence, w.now)
	w.stopped = false
	keys := make([][2]string, 0, len(w.store.rows))
	for k := range w.store.rows {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, k int) bool { // jobs first
		if (keys[i][1] == "") != (keys[k][1] == "") {
			return keys[i][1] == ""
		}
		return keys[i][1]+keys[i][0] < keys[k][1]+keys[k][0]
	})
	for _, k := range keys {
		if err := w.state.LoadRow(w.store.rows[k]); err != nil {
			w.t.Fatal(err)
		}
	}
	w.state.Loaded()
	w.ids++
	w.worker = WorkerID(fmt.Sprint("n1/worker-", w.ids))
	w.step(Tick{Judge: true})
	w.step(Workers{List: []Worker{{ID: w.worker}}})
}

// crash ends the process: memory, and all that was running, is gone.
func (w *world) crash() {
	w.state = nil
	for _, j := range w.running {
		w.deliveries[j.of].recorded = w.now
	}
	w.running = map[string]*job1{}
	w.held, w.pending = nil, nil
}

func (w *world) step(e Event) {
	w.pending = append(w.pending, func() { w.stepNow(e) })
	for len(w.pending) > 0 && w.state != nil && !w.stopped {
		next := w.pending[0]
		w.pending = w.pending[1:]
		next()
	}
}

func (w *world) stepNow(e Event) {
	effects := append([]Effect(nil), w.state.Step(w.now, e)...)
	if w.steps++; !w.unchecked && (!w.sparse || w.steps%sparseEvery == 0) {
		w.check(e)
	}
	for _, e := range effects {
		if w.interrupt != nil && w.interrupt() {
			w.crash()
			return
		}
		w.carry(e)
	}
}

func (w *world) check(after Event) {
	if err := w.state.check(); err != nil {
		w.t.Fatalf("at %s after %T: %v", w.now.Format(time.RFC3339Nano), after, err)
	}
}

func (w *world) carry(e Effect) {
	switch e := e.(type) {
	case Commit:
		w.commit(e)
	case Settle:
		w.settle(e)
	case Reply:
		w.answers[e.To] = e.Answer
	case Tell:
		w.stored(e.Command.GetNotify())
		if w.tell != nil {
			w.tell(e.Command)
		}
	case Recall:
		w.answers[e.To] = w.recall(e)
	case Send:
		if w.sends != nil {
			*w.sends = append(*w.sends, e)
			return
		}
		w.dispatch(e.Dispatch)
	case Inquire:
		if w.sends != nil {
			return
		}
		w.pending = append(w.pending, func() { w.stepNow(Holds{From: e.To, Deliveries: w.holding()}) })
	case Acknowledge:
		if w.sends != nil {
			w.acks = append(w.acks, e)
			return
		}
		w.acknowledge(e.Refs)
	case Yielded:
		if w.yielded != nil {
			w.t.Fatal("it yields twice")
		}
		w.yielded = &e.Fence
	case Hint:
		w.hints = append(w.hints, e.Hint)
	case Publish:
		w.events = append(w.events, e.Event)
	case Stop:
		w.stopped = true
		if e.Fault != "" {
			w.t.Fatalf("the partition stopped: %s", e.Fault)
		}
	case FindDead:
		found := Late{From: e.From, Result: e.Result, Dead: w.store.dead(w.t, e.Result), Failed: w.unreadable > 0}
		w.unreadable = max(w.unreadable-1, 0)
		w.pending = append(w.pending, func() { w.stepNow(found) })
	case FindOld:
		w.findOld(e)
	case Expire:
		w.store.history = slices.DeleteFunc(w.store.history, func(h persistence.HistoryRow) bool { return h.Day < e.Before })
	}
}

func (w *world) verdict() verdict {
	if w.fate.commit == nil {
		return fine
	}
	return w.fate.commit()
}

func (w *world) commit(c Commit) {
	if c.Held.Epoch != w.store.fence.Epoch || c.Held.Seq != w.store.fence.Seq || c.Held.OpID != w.store.fence.OpID {
		w.t.Fatalf("commit after %+v, and the fence is %+v", c.Held, w.store.fence)
	}
	if w.refuse != nil && w.refuse(c.Batch) {
		w.pending = append(w.pending, func() { w.stepNow(Refused{"test"}) })
		return
	}
	v := w.verdict()
	if v == fine || v == doubtDone {
		w.store.apply(c.Batch)
	}
	if v == silent && w.stalled != nil {
		w.stalled(c)
	}
	w.answer(v, func() Event { return Applied{w.store.fence} })
}

func (w *world) settle(e Settle) {
	v := w.verdict()
	done := w.store.fence.OpID == e.Batch
	if (v == fine || v == doubtDone) && !done && w.store.fence.OpID != e.Op {
		w.store.fence.Epoch++
		w.store.fence.Seq++
		w.store.fence.OpID = e.Op
	}
	if v == doubtDead || v == doubtDone {
		v = unavailable // the shell repeats a barrier that is in doubt itself
	}
	w.answer(v, func() Event { return Settled{w.store.fence, done} })
}

func (w *world) answer(v verdict, good func() Event) {
	w.pending = append(w.pending, func() {
		switch v {
		case fine:
			w.stepNow(good())
		case doubtDone, doubtDead:
			w.stepNow(InDoubt{})
		case unavailable:
			w.stepNow(Unavailable{"test"})
		}
	})
}

func (m *model) apply(b persistence.Batch) {
	m.commits++
	m.fence.Seq++
	m.fence.OpID = b.OpID
	m.fence.LastNumber = b.LastNumber
	for _, r := range b.Rows {
		k := [2]string{r.JobID, r.Item}
		if r.Delete {
			delete(m.rows, k)
			continue
		}
		if old, ok := m.rows[k]; ok {
			if r.Spec == nil {
				r.Spec = old.Spec
			}
			if r.State == nil {
				r.State = old.State
			}
			if r.Labels == nil {
				r.Labels = old.Labels
			}
		}
		m.rows[k] = r
		if strings.HasPrefix(r.Item, "out/") {
			m.outs[k] = r.State
		}
	}
	m.history = append(m.history, b.History...)
}

func (w *world) recall(e Recall) *belfryv1.Answer {
	row, ok := w.store.rows[[2]string{e.Command.GetJobId(), persistence.CommandItem(e.Command.GetId())}]
	if !ok {
		w.t.Fatalf("no row remembers %s", e.Command.GetId())
	}
	m, a := new(belfryv1.RememberedCommand), new(belfryv1.Answer)
	if err := errors.Join(proto.Unmarshal(row.State, m), proto.Unmarshal(m.GetAnswer(), a)); err != nil {
		w.t.Fatal(err)
	}
	return a
}

// dispatch is the worker: it remembers until acknowledged and holds no queue.
func (w *world) dispatch(d *belfryv1.Dispatch) {
	var busy []*belfryv1.DeliveryRef
	for _, x := range d.GetDeliveries() {
		if w.running[x.GetExecutionId()] != nil {
			continue
		}
		if w.fate.busy != nil && d.GetOffer() == 0 && w.fate.busy() {
			busy = append(busy, &belfryv1.DeliveryRef{ExecutionId: x.GetExecutionId(), Attempt: x.GetAttempt()})
			continue
		}
		w.begin(x, d.GetEpoch())
	}
	if len(busy) > 0 {
		w.pending = append(w.pending, func() { w.stepNow(Busied{From: w.worker, Number: d.GetNumber(), Deliveries: busy}) },
			func() { w.stepNow(Offered{From: w.worker, ID: 1, Slots: len(busy)}) })
	}
	w.cancel(d)
}

// cancel ends calls: nobody knows what came of them.
func (w *world) cancel(d *belfryv1.Dispatch) {
	var unknown []*belfryv1.DeliveryRef
	for _, ref := range d.GetCancel() {
		j := w.running[ref.GetExecutionId()]
		switch {
		case j == nil || j.d.GetAttempt() != ref.GetAttempt():
			unknown = append(unknown, ref)
		case !w.ended(j.d):
			w.finish(j.d, &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_UNKNOWN, Error: "the execution is cancelled"}, w.state.life)
		}
	}
	if len(unknown) > 0 {
		w.pending = append(w.pending, func() { w.stepNow(Busied{From: w.worker, Number: d.GetNumber(), Deliveries: unknown}) })
	}
}

// ended tells that a call has a result which is not acknowledged.
func (w *world) ended(x *belfryv1.Delivery) bool {
	return slices.ContainsFunc(w.held, func(r *belfryv1.Result) bool {
		return r.GetExecutionId() == x.GetExecutionId() && r.GetAttempt() == x.GetAttempt()
	})
}

func (w *world) holding() []*belfryv1.DeliveryRef {
	var refs []*belfryv1.DeliveryRef
	for id, x := range w.running {
		refs = append(refs, &belfryv1.DeliveryRef{ExecutionId: id, Attempt: x.d.GetAttempt()})
	}
	return refs
}

func (w *world) begin(x *belfryv1.Delivery, epoch int64) {
	w.alone(x)
	w.running[x.GetExecutionId()] = &job1{x, len(w.deliveries)}
	due := x.GetScheduledFor()
	if ref, ok := job.ParseExecutionID(x.GetExecutionId()); ok && ref.Kind == job.Replayed {
		due = x.GetDue() // its slot is that of a dead letter, from before a step of the clock perhaps
	}
	w.deliveries = append(w.deliveries, delivery{
		id: x.GetExecutionId(), key: x.GetKey(), slot: time.UnixMilli(x.GetScheduledFor()).UTC(), due: time.UnixMilli(due).UTC(), at: w.now, attempt: x.GetAttempt(), epoch: epoch,
	})
	r := &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}
	if w.fate.outcome != nil {
		if r = w.fate.outcome(x); r == nil {
			return
		}
	}
	w.finish(x, r, epoch)
}

// alone: where a job's executions do not run beside others, none does (C12).
func (w *world) alone(x *belfryv1.Delivery) {
	f := w.state.running[x.GetExecutionId()]
	if f == nil || !solitary(f.spec) {
		return
	}
	for id, j := range w.running {
		if o := w.state.running[id]; id != f.id && o != nil && o.job == f.job && o.gen == f.gen && solitary(o.spec) && !w.ended(j.d) {
			w.t.Fatalf("%s begins while %s runs, and the overlap is %s", f.id, id, f.spec.GetOverlap())
		}
	}
}

func (w *world) finish(x *belfryv1.Delivery, r *belfryv1.Result, epoch int64) {
	r.ExecutionId, r.JobId, r.Attempt, r.Epoch = x.GetExecutionId(), x.GetJobId(), x.GetAttempt(), epoch
	r.SentAt, r.FinishedAt = w.now.UnixMilli(), w.now.UnixMilli()
	if j := w.running[x.GetExecutionId()]; j != nil {
		w.deliveries[j.of].answered, w.deliveries[j.of].status = w.now, int(r.GetStatusCode())
	}
	w.held = append(w.held, r)
	w.pending = append(w.pending, func() { w.stepNow(Reported{w.worker, []*belfryv1.Result{r}}) })
}

func (w *world) acknowledge(refs []*belfryv1.DeliveryRef) {
	for _, ref := range refs {
		w.acknowledged(ref)
		w.held = slices.DeleteFunc(w.held, func(r *belfryv1.Result) bool {
			return r.GetExecutionId() == ref.GetExecutionId() && r.GetAttempt() == ref.GetAttempt()
		})
		if j := w.running[ref.GetExecutionId()]; j != nil {
			w.deliveries[j.of].recorded = w.now
			delete(w.running, ref.GetExecutionId())
		}
	}
}

// acknowledged: what a worker may forget is in the store.
func (w *world) acknowledged(ref *belfryv1.DeliveryRef) {
	for _, h := range w.store.history {
		if h.ExecutionID == ref.GetExecutionId() && lineOf(w.t, h) == ref.GetAttempt() {
			return
		}
	}
	w.t.Fatalf("%s attempt %d was acknowledged and is not recorded", ref.GetExecutionId(), ref.GetAttempt())
}

// lineOf is the attempt that a row of history is the line of: its own, or the
// only one of an execution, in the summary; 0 for any other summary.
func lineOf(t testing.TB, h persistence.HistoryRow) int32 {
	r := new(belfryv1.Record)
	if err := proto.Unmarshal(h.Record, r); err != nil {
		t.Fatal(err)
	}
	if h.Attempt == 0 && r.GetOutcome() != "" {
		return 1
	}
	return h.Attempt
}

// stored: what a dependent is told is in the store.
func (w *world) stored(n *belfryv1.Notify) {
	for _, o := range n.GetOutcomes() {
		if !bytes.Equal(w.store.outs[[2]string{n.GetUpstream(), persistence.OutcomeItem(o.GetN())}], encode(o)) {
			w.t.Fatalf("a dependent of %s is told outcome %d, and it is not stored: %v", n.GetUpstream(), o.GetN(), o)
		}
	}
}

// ask sends a command and returns its answer, nil when there is none yet.
func (w *world) ask(c *belfryv1.Command) *belfryv1.Answer {
	w.nextRef++
	ref := w.nextRef
	if c.Id == "" {
		c.Id = fmt.Sprintf("c%d", ref)
	}
	w.readDead(c)
	w.step(Asked{Ref: ref, Commands: []*belfryv1.Command{c}, Single: true})
	a, _ := w.answers[ref].(*belfryv1.Answer)
	return a
}

// readDead puts what the store has into a command about a dead letter, as the
// shell does.
func (w *world) readDead(c *belfryv1.Command) {
	id := c.GetReplay().GetExecutionId() + c.GetPurge().GetExecutionId()
	if row, ok := w.store.rows[[2]string{c.GetJobId(), persistence.DeadItem(id)}]; ok {
		d, err := messages.DecodeDead(row.Spec, row.State)
		if err != nil {
			w.t.Fatal(err)
		}
		fillDead(c, d)
	}
}

// newest is the history as readers take it: of an attempt, the newest decision
// under each epoch.
func (m *model) newest() map[attemptKey]persistence.HistoryRow {
	out := map[attemptKey]persistence.HistoryRow{}
	for _, h := range m.history {
		if key := (attemptKey{h.ExecutionID, h.Attempt, h.Epoch}); h.Decision > out[key].Decision {
			out[key] = h
		}
	}
	return out
}

type attemptKey struct {
	execution string
	attempt   int32
	epoch     int64
}

// dead is the dead letter of an execution; nil: there is none.
func (m *model) dead(t testing.TB, r *belfryv1.Result) *belfryv1.DeadLetter {
	row, ok := m.rows[[2]string{r.GetJobId(), persistence.DeadItem(r.GetExecutionId())}]
	if !ok {
		return nil
	}
	d, err := messages.DecodeDead(row.Spec, row.State)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// findOld reads dead letters as the shell does, in the order of the store.
func (w *world) findOld(e FindOld) {
	if w.unreadable > 0 {
		w.unreadable--
		w.pending = append(w.pending, func() { w.stepNow(Old{Next: e.From}) })
		return
	}
	page := Old{Next: job.SideSliceOffset}
	for _, r := range slices.SortedFunc(maps.Values(w.store.rows), func(a, b persistence.Row) int {
		return cmp.Or(cmp.Compare(a.Slice, b.Slice), strings.Compare(a.JobID, b.JobID), strings.Compare(a.Item, b.Item))
	}) {
		if r.Slice >= e.From && r.Slice < job.SideSliceOffset && page.add(e, r) != nil {
			break
		}
	}
	w.pending = append(w.pending, func() { w.stepNow(page) })
}

// dead are the ids of a job's dead letters, in order.
func (w *world) dead(id string) []string {
	var out []string
	for k := range w.store.rows {
		if name, ok := strings.CutPrefix(k[1], "dead/"); ok && k[0] == id {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// advance moves time, waking the state whenever it asks for it.
func (w *world) advance(d time.Duration) {
	end := w.now.Add(d)
	for {
		at, ok := w.state.Wake()
		if !ok || at.After(end) {
			break
		}
		if at.After(w.now) {
			w.now = at
		}
		w.step(Tick{})
	}
	if end.After(w.now) {
		w.now = end
	}
	w.step(Tick{})
}

func spec(expr string, edit ...func(*job.Spec)) *belfryv1.JobSpec {
	s := job.Spec{
		Schedule: job.Timing{Expr: expr},
		Target:   job.Target{HTTP: &job.HTTPTarget{URL: "https://example.com/hook"}},
	}
	s.CatchUp.Grace = 30 * time.Second
	for _, e := range edit {
		e(&s)
	}
	return storedSpec(s)
}

func (w *world) register(id, expr string, edit ...func(*job.Spec)) *belfryv1.Answer {
	return w.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: spec(expr, edit...)}}})
}

// line is one record of a job as a test reads it.
type line struct {
	first, last int64
	count       int64
	status      string
	reason      string
	id          string
}

// lines are the records of a job's slots, in order: written, open, in flight.
func (w *world) lines(id string) []line {
	latest := map[string]persistence.HistoryRow{}
	for _, h := range w.store.history {
		if h.JobID == id && h.Attempt == 0 && h.Decision >= latest[h.ExecutionID].Decision {
			latest[h.ExecutionID] = h
		}
	}
	var out []line
	for _, h := range latest {
		r := new(belfryv1.Record)
		if err := proto.Unmarshal(h.Record, r); err != nil {
			w.t.Fatal(err)
		}
		l := line{h.ScheduledFor, h.ScheduledFor, 1, r.GetStatus(), r.GetReason(), h.ExecutionID}
		if g := r.GetRange(); g != nil {
			l.first, l.last, l.count = g.GetFirst(), g.GetLast(), g.GetCount()
		}
		out = append(out, l)
	}
	if j := w.state.jobs[id]; j != nil && j.past != nil {
		if o := j.past.open; o != nil {
			out = append(out, line{o.GetFirst(), o.GetLast(), o.GetCount(), o.GetStatus(), o.GetReason(), "open"})
		}
		for _, f := range j.past.flights {
			out = append(out, line{f.slot, f.slot, 1, "in flight", "", f.id})
		}
	}
	slices.SortFunc(out, func(a, b line) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.id, b.id)) })
	return out
}

// slots are those of a schedule in (from, to], walked one by one.
func slots(t testing.TB, sp *belfryv1.JobSpec, from, to time.Time) []time.Time {
	s := timingOf(t, sp).First(sp.GetMaxRuns(), from)
	var out []time.Time
	for at, ok := s.Next(from); ok && !at.After(to); at, ok = s.Next(at) {
		out = append(out, at)
	}
	return out
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }
