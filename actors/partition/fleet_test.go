package partition

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// ttl is how long a node may be silent in a fleet.
const ttl = 3 * time.Second

// mostSkew is how wrong the clock of a node may be.
const mostSkew = 150 * time.Millisecond

// fleet is a cluster in virtual time: nodes, each with a worker and perhaps the
// owner of the one partition, a store, and a network between them. Messages take
// their time, and are lost, repeated and overtaken while it is rough. Several
// nodes may believe that they own the partition; the store decides.
type fleet struct {
	t     testing.TB
	r     *rand.Rand
	now   time.Time
	queue happenings
	made  int64
	cfg   Config
	ids   uint64
	trace []string

	store  model
	read   int                // of its history, into lines
	lines  map[resultKey]bool // attempts that have one
	rough  bool               // the network misbehaves
	shaky  bool               // the store does
	quiet  bool               // nothing fails any more
	nodes  []*fleetNode
	births int
	sparse bool // the invariants are checked now and then only
	steps  int
	exact  bool   // nothing is random: a script says what happens
	target string // how it answers then
	doubt  int    // so many requests to the store get lost, and their answers with them

	receipts []*receipt
	running  map[string][]*receipt // by execution
	solitary map[string]bool       // executions that were sent as ones that run beside no other of their job
	forsaken map[WorkerID]time.Time
	doubled  map[resultKey]bool // attempts that were received twice
	answers  map[Ref]*belfryv1.Answer
	lastRef  Ref
	terms    []check.Takeover
	repeats  int // second deliveries while the first still ran, all excused
	handed   int
}

// receipt is a request as the target saw it.
type receipt struct {
	id      string
	attempt int32
	epoch   int64
	slot    int64
	at      time.Time
	w       *fleetWorker
	h       *holding
	stale   bool // its sender had lost the partition by then
}

// fleetNode is a process. What happens to it while it is paused happens when it
// goes on.
type fleetNode struct {
	f      *fleet
	name   string
	skew   time.Duration
	worker *fleetWorker
	up     bool
	cut    bool // from every other node, not from the store
	noDB   bool // from the store
	mute   bool // seems to be there, and every message is lost
	paused bool
	missed []func()
	beat   time.Time // of its last successful beat
	stamps map[WorkerID]int64
	heard  map[WorkerID]time.Time // when each worker was reachable last

	state   *State
	view    []Worker
	told    bool // of the end of its ownership
	given   bool // was told to yield
	wakeAt  time.Time
	next    *fleetNode
	flipped bool // its adoption is over
}

// happening is something that is going to be.
type happening struct {
	at time.Time
	n  int64
	do func()
}

type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, k int) bool {
	return h[i].at.Before(h[k].at) || h[i].at.Equal(h[k].at) && h[i].n < h[k].n
}
func (h happenings) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func newFleet(t testing.TB, seed uint64) *fleet {
	f := &fleet{
		t: t, r: seeded(seed), now: origin, cfg: DefaultConfig(),
		running: map[string][]*receipt{}, solitary: map[string]bool{}, forsaken: map[WorkerID]time.Time{}, doubled: map[resultKey]bool{}, answers: map[Ref]*belfryv1.Answer{}, lines: map[resultKey]bool{},
	}
	f.store.rows = map[[2]string]persistence.Row{}
	f.cfg.Partitions = 16
	f.cfg.Partition = job.PartitionOf("a", 16)
	f.cfg.AdoptFor = ttl
	f.cfg.Hosts = hostLimits()
	f.cfg.NewID = func() uuid.UUID {
		f.ids++
		return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, f.ids))
	}
	return f
}

func (f *fleet) say(format string, args ...any) {
	f.trace = append(f.trace, f.now.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (f *fleet) fail(format string, args ...any) {
	f.t.Helper()
	tail := f.trace[max(len(f.trace)-400, 0):]
	for _, l := range tail {
		f.t.Log(l)
	}
	f.t.Fatalf(format, args...)
}

func (f *fleet) after(d time.Duration, do func()) {
	f.made++
	heap.Push(&f.queue, happening{f.now.Add(max(d, 0)), f.made, do})
}

// run lets time pass.
func (f *fleet) run(d time.Duration) {
	end := f.now.Add(d)
	for len(f.queue) > 0 && !f.queue[0].at.After(end) {
		h := heap.Pop(&f.queue).(happening)
		f.now = h.at
		h.do()
	}
	f.now = end
}

// start brings up a process: a new incarnation, with a worker.
func (f *fleet) start(name string, slots int) *fleetNode {
	f.births++
	n := &fleetNode{f: f, name: name, up: true, stamps: map[WorkerID]int64{}, heard: map[WorkerID]time.Time{}, beat: f.now}
	if !f.exact && f.r.IntN(3) == 0 && !f.quiet {
		n.skew = time.Duration(f.r.IntN(300))*time.Millisecond - mostSkew
	}
	n.worker = &fleetWorker{f: f, node: n, id: WorkerID(fmt.Sprintf("%s/worker-%d", name, f.births)), slots: slots, held: map[resultKey]*holding{}}
	f.nodes = append(f.nodes, n)
	n.pulse()
	return n
}

// live are the processes that run.
func (f *fleet) live() []*fleetNode {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(n *fleetNode) bool { return !n.up })
}

// after runs something in the process, if it lives then; when it is paused,
// once it goes on.
func (n *fleetNode) after(d time.Duration, do func()) {
	n.f.after(d, func() { n.now(do) })
}

func (n *fleetNode) now(do func()) {
	switch {
	case !n.up:
	case n.paused:
		n.missed = append(n.missed, do)
	default:
		do()
	}
}

// pulse is what a process does every sixth of the TTL: its beat, its view of the
// workers, and its worker's stamps and repeats.
func (n *fleetNode) pulse() {
	if !n.up {
		return
	}
	n.f.after(ttl/6, n.pulse)
	if n.paused {
		return
	}
	if !n.noDB {
		n.beat = n.f.now
	}
	for _, o := range n.f.live() {
		if n == o || !n.cut && !o.cut && !o.paused {
			n.heard[o.worker.id] = n.f.now
			n.stamps[o.worker.id] = n.f.now.UnixMilli()
			if o.state != nil && !o.told && !o.given {
				n.worker.hear(o.state.life, o)
			}
		}
	}
	n.look()
	n.worker.resend()
}

// look makes the view of the live workers anew: its own first.
func (n *fleetNode) look() {
	view := []Worker{{ID: n.worker.id, Draining: n.worker.draining}}
	for _, o := range n.f.live() {
		if at, ok := n.heard[o.worker.id]; o != n && ok && n.f.now.Sub(at) < 1500*time.Millisecond {
			view = append(view, Worker{ID: o.worker.id, Remote: true, Draining: o.worker.draining})
		}
	}
	if slices.Equal(view, n.view) {
		return
	}
	for _, w := range n.view {
		if !slices.ContainsFunc(view, func(x Worker) bool { return x.ID == w.ID }) {
			n.f.forsake(w.ID)
		}
	}
	n.view = view
	if n.state != nil {
		n.step(Workers{List: view})
	}
}

// forsake notes that what a worker has may be given to others from here on.
func (f *fleet) forsake(id WorkerID) { f.forsaken[id] = f.now }

// between carries a message from one process to another.
func (f *fleet) between(from, to *fleetNode, do func()) {
	if from == to {
		to.after(0, do)
		return
	}
	if from.cut || to.cut || from.mute || to.mute {
		return
	}
	delay := f.trip(10)
	copies := 1
	if f.rough {
		switch f.r.IntN(20) {
		case 0, 1:
			return
		case 2:
			delay += time.Duration(f.r.IntN(4000)) * time.Millisecond
		case 3:
			copies = 2
		}
	}
	for range copies {
		to.after(delay, do)
		delay += time.Duration(f.r.IntN(50)) * time.Millisecond
	}
}

// trip is how long something is on its way.
func (f *fleet) trip(most int) time.Duration {
	if f.exact {
		return time.Millisecond
	}
	return time.Duration(1+f.r.IntN(most)) * time.Millisecond
}

// call is what a target does with a request.
func (f *fleet) call(x *belfryv1.Delivery) (took time.Duration, r *belfryv1.Result) {
	r = &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}
	took = time.Duration(1+f.r.IntN(200)) * time.Millisecond
	if f.quiet {
		return took, r
	}
	if f.exact {
		return f.scripted(r)
	}
	timeout := time.Duration(x.GetTimeoutMs()) * time.Millisecond
	switch f.r.IntN(8) {
	case 0:
		r = &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 500, Error: "500"}
	case 1:
		took, r = timeout, &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_TIMEOUT, Error: "timeout"}
	case 2, 3:
		took = time.Duration(f.r.Int64N(int64(timeout)))
	}
	return took, r
}

func (f *fleet) scripted(ok *belfryv1.Result) (took time.Duration, r *belfryv1.Result) {
	if how, slow := strings.CutPrefix(f.target, "takes "); slow {
		took, _ := time.ParseDuration(how)
		return took, ok
	}
	if f.target == "fails" {
		return time.Millisecond, &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 500, Error: "500"}
	}
	return time.Millisecond, ok
}

// received notes a request, and that it is no second one while the first still
// runs where its owner could have known.
func (f *fleet) received(w *fleetWorker, h *holding) {
	rc := &receipt{
		id: h.x.GetExecutionId(), attempt: h.x.GetAttempt(), epoch: h.epoch, slot: h.x.GetScheduledFor(), at: f.now, w: w, h: h,
		stale: h.epoch < f.life(),
	}
	f.say("%s begins %s attempt %d epoch %d", w.id, rc.id, rc.attempt, rc.epoch)
	f.receipts = append(f.receipts, rc)
	if rc.epoch < w.epoch {
		f.fail("%s begins a delivery of epoch %d, and has heard of epoch %d", w.id, rc.epoch, w.epoch)
	}
	for _, first := range f.running[rc.id] {
		if first.h.result != nil || !first.w.node.up {
			continue
		}
		f.repeats++
		excused := first.stale || rc.stale || f.lately(first.w, first.at) || f.lately(w, rc.at) || f.doubled[resultKey{first.id, first.attempt}]
		if first.w == w && first.attempt == rc.attempt || !excused {
			f.fail("%s: attempt %d was begun by %s, and attempt %d still runs on %s since %s", rc.id, rc.attempt, w.id, first.attempt, first.w.id, first.at.Format("15:04:05.000"))
		}
	}
	f.alone(rc)
	for _, other := range f.running[rc.id] {
		// Two workers have it after a fault, and the failure of one counts.
		f.doubled[resultKey{rc.id, rc.attempt}] = f.doubled[resultKey{rc.id, rc.attempt}] || other.attempt == rc.attempt
	}
	f.running[rc.id] = append(f.running[rc.id], rc)
}

// lately tells whether a worker was given up shortly before it began something
// or later: one that was paused may begin what another has by now.
func (f *fleet) lately(w *fleetWorker, began time.Time) bool {
	lost, ever := f.forsaken[w.id]
	return ever && lost.Add(5*time.Second).After(began)
}

// alone: where a job's executions do not run beside others, none does, as far as
// the sender could have known (C12).
func (f *fleet) alone(rc *receipt) {
	mine := f.sentBy(rc)
	if mine == nil || !f.solitary[rc.id] || rc.stale {
		return
	}
	registration := registrationOf(rc.id)
	for id, receipts := range f.running {
		if id == rc.id || !f.solitary[id] || registrationOf(id) != registration {
			continue
		}
		if slices.ContainsFunc(receipts, func(r *receipt) bool { return f.lately(r.w, r.at) }) {
			continue // it runs twice, and the success of one counts
		}
		for _, first := range receipts {
			lost, ever := f.forsaken[first.w.id]
			if first.h.result != nil || !first.w.node.up || first.stale || ever && lost.Add(5*time.Second).After(first.at) || f.everDoubled(first) {
				continue
			}
			f.fail("%s is begun, and %s still runs on %s since %s: the overlap is %s", rc.id, id, first.w.id, first.at.Format("15:04:05.000"), mine.spec.GetOverlap())
		}
	}
}

// registrationOf is the part of an execution's id that names its job and
// generation.
func registrationOf(id string) string {
	name, rest, _ := strings.Cut(id, "~")
	generation, _, _ := strings.Cut(rest, "~")
	return id[:len(name)+1+len(generation)]
}

// everDoubled: two workers had an attempt of it after a fault, and the success of
// one decides it while the other still runs, or the attempt after that.
func (f *fleet) everDoubled(rc *receipt) bool {
	for n := range rc.attempt {
		if f.doubled[resultKey{rc.id, n + 1}] {
			return true
		}
	}
	return false
}

// sentBy is a request as its sender has it; nil: it has it no more.
func (f *fleet) sentBy(rc *receipt) *flight {
	for _, n := range f.nodes {
		if n.state != nil && n.state.life == rc.epoch {
			return n.state.running[rc.id]
		}
	}
	return nil
}

// life is the epoch of the last acquisition.
func (f *fleet) life() int64 {
	most := int64(0)
	for _, n := range f.nodes {
		if n.state != nil {
			most = max(most, n.state.life)
		}
	}
	return most
}

// step tells the owner in a process what has happened.
func (n *fleetNode) step(e Event) {
	f := n.f
	if n.state == nil {
		return
	}
	before := n.state.done
	effects := slices.Clone(n.state.Step(f.now.Add(n.skew), e))
	if f.steps++; !f.sparse || f.steps%sparseEvery == 0 {
		if err := n.state.check(); err != nil {
			f.fail("%s after %T: %v", n.name, e, err)
		}
	}
	if before && len(effects) > 0 {
		f.fail("%s acts after its end: %T", n.name, effects[0])
	}
	if n.state.adoption.over && !n.flipped {
		n.flipped = true
		n.unasked()
	}
	for _, e := range effects {
		n.carry(e)
	}
	n.rest()
}

// unasked: whom the owner could not ask may have what it sends again now.
func (n *fleetNode) unasked() {
	for _, o := range n.f.live() {
		if w := n.state.worker(o.worker.id); w == nil || !w.told {
			n.f.forsake(o.worker.id)
		}
	}
}

func (n *fleetNode) rest() {
	at, ok := n.state.Wake()
	at = at.Add(-n.skew)
	if at.Before(n.f.now) {
		at = n.f.now
	}
	if !ok || !n.wakeAt.IsZero() && !at.Before(n.wakeAt) {
		return
	}
	n.wakeAt = at
	state := n.state
	n.after(at.Sub(n.f.now), func() {
		if n.state != state || !n.wakeAt.Equal(at) {
			return
		}
		n.wakeAt = time.Time{}
		n.step(Tick{Judge: n.f.now.Sub(at) > lateWake})
	})
}

func (n *fleetNode) carry(e Effect) {
	f := n.f
	switch e := e.(type) {
	case Commit:
		n.commit(e)
	case Settle:
		n.settle(e)
	case FindDead:
		n.findDead(e)
	case Reply:
		if a, ok := e.Answer.(*belfryv1.Answer); ok {
			f.answers[e.To] = a
		}
	case Inquire:
		n.toWorker(e.To, func(w *fleetWorker, epoch int64) { w.inquired(n, epoch) })
	case Acknowledge:
		n.acknowledge(e)
	case Send:
		n.send(e)
	case Yielded:
		f.say("%s has yielded at %d/%d", n.name, e.Fence.Epoch, e.Fence.Seq)
		n.told = true
		n.handOver(e.Fence)
	case Stop:
		f.say("%s is fenced", n.name)
		n.told = true
		if e.Fault != "" {
			f.fail("%s stopped: %s", n.name, e.Fault)
		}
	}
}

func (n *fleetNode) toWorker(id WorkerID, do func(w *fleetWorker, epoch int64)) {
	epoch := n.state.life
	for _, o := range n.f.nodes {
		if o.worker.id == id {
			n.f.between(n, o, func() { do(o.worker, epoch) })
		}
	}
}

func (n *fleetNode) acknowledge(e Acknowledge) {
	for _, r := range e.Refs {
		if f := n.state.running[r.GetExecutionId()]; f != nil && f.attempt == r.GetAttempt() && f.worker != nil && f.worker.ID != e.To {
			continue // a failure of a worker that was lost: another one is at it
		}
		if n.f.endedElsewhere(r, e.To) {
			continue // such a failure, and by now the other one has ended: its line is on the way
		}
		if !n.f.recorded(r) && !n.f.unasked(r) {
			n.f.fail("%s acknowledges %s attempt %d, which is not recorded", n.name, r.GetExecutionId(), r.GetAttempt())
		}
	}
	n.toWorker(e.To, func(w *fleetWorker, _ int64) { w.acknowledged(e.Refs) })
}

// unasked: only a former owner sent it, after it had lost the partition, and the
// next one had paused or moved the slot before it was due.
func (f *fleet) unasked(r *belfryv1.DeliveryRef) bool {
	sent := f.running[r.GetExecutionId()]
	return len(sent) > 0 && !slices.ContainsFunc(sent, func(rc *receipt) bool { return !rc.stale })
}

// endedElsewhere tells that a worker's attempt has failed, and another worker has
// had the same one, and has come to its end.
func (f *fleet) endedElsewhere(r *belfryv1.DeliveryRef, to WorkerID) bool {
	failed, ended := false, false
	for _, rc := range f.running[r.GetExecutionId()] {
		switch {
		case rc.attempt != r.GetAttempt() || rc.h.result == nil:
		case rc.w.id != to:
			ended = true
		default:
			failed = rc.h.result.GetOutcome() != belfryv1.Result_OUTCOME_SUCCEEDED
		}
	}
	return failed && ended
}

// recorded: what a worker may forget is in the store.
func (f *fleet) recorded(r *belfryv1.DeliveryRef) bool {
	for _, h := range f.store.history[f.read:] {
		f.lines[resultKey{h.ExecutionID, lineOf(f.t, h)}] = true
	}
	f.read = len(f.store.history)
	return f.lines[keyOfResult(r)]
}

func (n *fleetNode) send(e Send) {
	f := n.f
	if n.told || n.given {
		f.fail("%s sends after it gave the partition up", n.name)
	}
	for _, x := range e.Dispatch.GetDeliveries() {
		if due := time.UnixMilli(x.GetScheduledFor()); f.now.Add(n.skew).Before(due) {
			f.fail("%s sends %s before its time", n.name, x.GetExecutionId())
		}
	}
	if f.now.Sub(n.beat) > ttl-250*time.Millisecond {
		n.after(0, func() { n.step(Withheld(e)) })
		return
	}
	if e.To != n.worker.id {
		e.Dispatch.Stamp = n.stamps[e.To]
	}
	d := proto.Clone(e.Dispatch).(*belfryv1.Dispatch)
	for _, x := range d.GetDeliveries() {
		if sent := n.state.running[x.GetExecutionId()]; sent != nil {
			f.solitary[sent.id] = solitary(sent.spec) && !sent.apart()
		}
		f.say("%s epoch %d sends %s attempt %d to %s (#%d)", n.name, d.GetEpoch(), x.GetExecutionId(), x.GetAttempt(), e.To, d.GetNumber())
	}
	n.toWorker(e.To, func(w *fleetWorker, _ int64) { w.dispatched(n, d) })
}

// askStore sends a request to the store and brings the answer back, or unsure
// when one of the two is lost.
func (n *fleetNode) askStore(apply func() Event, unsure Event) {
	f, state := n.f, n.state
	back := func(e Event) {
		n.after(f.trip(8), func() {
			if n.state == state {
				n.step(e)
			}
		})
	}
	fate := 0
	if f.shaky {
		fate = f.r.IntN(8)
	}
	if f.doubt > 0 {
		f.doubt--
		fate = 4
	}
	if n.noDB {
		fate = 1 + f.r.IntN(3)
	}
	switch fate {
	case 1: // lost on the way there
		f.after(50*time.Millisecond, func() { back(unsure) })
	case 2: // refused
		f.after(50*time.Millisecond, func() { back(Unavailable{"test"}) })
	case 3: // it comes much later, when nobody waits for it any more
		f.after(time.Duration(f.r.IntN(3000))*time.Millisecond, func() { apply() })
		f.after(50*time.Millisecond, func() { back(unsure) })
	case 4: // the answer is lost
		f.after(f.trip(8), func() { apply(); back(unsure) })
	default:
		f.after(f.trip(8), func() { back(apply()) })
	}
}

func same(a, b persistence.Fence) bool {
	return a.Epoch == b.Epoch && a.Seq == b.Seq && a.OpID == b.OpID
}

func (n *fleetNode) commit(c Commit) {
	f := n.f
	n.askStore(func() Event {
		if f.store.fence.OpID == c.Batch.OpID {
			return Applied{f.store.fence}
		}
		if !same(c.Held, f.store.fence) {
			return Fenced{f.store.fence}
		}
		f.store.apply(c.Batch)
		return Applied{f.store.fence}
	}, InDoubt{})
}

// findDead reads now, and is told later.
func (n *fleetNode) findDead(e FindDead) {
	f, state := n.f, n.state
	found := Late{From: e.From, Result: e.Result, Dead: f.store.dead(f.t, e.Result), Failed: n.noDB || f.shaky && f.r.IntN(8) == 0}
	n.after(f.trip(8), func() {
		if n.state == state {
			n.step(found)
		}
	})
}

func (n *fleetNode) settle(e Settle) {
	f := n.f
	n.askStore(func() Event {
		switch now := &f.store.fence; {
		case now.OpID == e.Batch:
			return Settled{*now, true}
		case now.OpID == e.Op:
			return Settled{*now, false}
		case !same(e.Held, *now):
			return Fenced{*now}
		default:
			now.Epoch++
			now.Seq++
			now.OpID = e.Op
			return Settled{*now, false}
		}
	}, Unavailable{"test"})
}

// acquire raises the epoch and loads what is there.
func (n *fleetNode) acquire(ended bool) {
	f := n.f
	f.store.fence.Epoch++
	f.store.fence.Seq++
	f.store.fence.OpID = f.cfg.NewID()
	cfg := f.cfg
	cfg.Node = n.name
	if ended {
		cfg.FormerEnded = f.store.fence.Epoch - 1
	}
	n.state = New(cfg, f.store.fence, f.now.Add(n.skew))
	n.told, n.given, n.flipped, n.wakeAt = false, false, false, time.Time{}
	f.say("%s acquires epoch %d", n.name, n.state.life)
	f.terms = append(f.terms, check.Takeover{Epoch: n.state.life, Node: n.name, At: f.now})
	keys := make([][2]string, 0, len(f.store.rows))
	for k := range f.store.rows {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, k int) bool { return keys[i][1]+keys[i][0] < keys[k][1]+keys[k][0] })
	for _, k := range keys {
		n.state.LoadRow(f.store.rows[k])
	}
	n.state.Loaded()
	for _, o := range f.live() {
		if o != n && (o.cut || n.cut || o.paused) {
			f.forsake(o.worker.id) // it may not be in the view
		}
	}
	state := n.state
	n.step(Tick{Judge: true})
	n.after(f.trip(20), func() {
		if n.state == state {
			n.step(Workers{List: n.view})
		}
	})
}

// handOver gives the partition to the next node, or lets anybody take it.
func (n *fleetNode) handOver(fence persistence.Fence) {
	f, next := n.f, n.next
	f.after(f.trip(30), func() {
		if !same(fence, f.store.fence) {
			return // somebody was faster
		}
		if next == nil || !next.up || next.paused || next.noDB {
			next = f.candidate()
		}
		if next != nil {
			f.handed++
			next.acquire(true)
		}
	})
}

// candidate is a node that could own the partition.
func (f *fleet) candidate() *fleetNode {
	nodes := slices.DeleteFunc(f.live(), func(n *fleetNode) bool { return n.paused || n.noDB || n.worker.draining })
	if len(nodes) == 0 {
		return nil
	}
	return nodes[f.r.IntN(len(nodes))]
}

// owner is who holds the newest epoch, if it still acts.
func (f *fleet) owner() *fleetNode {
	for _, n := range f.live() {
		if n.state != nil && n.state.life == f.life() && !n.told && !n.given {
			return n
		}
	}
	return nil
}

// ask sends a command to an owner, which need not be the right one.
func (f *fleet) ask(n *fleetNode, c *belfryv1.Command) Ref {
	f.lastRef++
	ref := f.lastRef
	c.Id = fmt.Sprint("c", ref)
	if n != nil && n.state != nil && !n.told && !n.given {
		n.now(func() { n.step(Asked{Ref: ref, Commands: []*belfryv1.Command{c}, Single: true}) })
	}
	return ref
}
