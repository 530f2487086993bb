package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// lateWake is how far behind its time a wake-up must come to count as a stall
// of the process or a forward step of the clock: what is overdue then is
// judged, not fired.
const lateWake = 5 * time.Second

// longestSleep bounds how long a timer is set for: a wall clock that runs fast or
// slow for hours is never stepped.
const longestSleep = time.Minute

// storeTimeout bounds one request to the store; past it the write is in doubt.
const storeTimeout = 10 * time.Second

// Shell is what an owner's actor needs beside its state.
type Shell struct {
	Store   persistence.Store
	Ask     func(ctx context.Context, partition int32, m proto.Message) (proto.Message, error) // the owner of another partition
	Alive   func() bool                                                                        // false: the node cannot be sure that it still owns anything, and no delivery is sent; nil: it always can
	Stamp   func(WorkerID) int64                                                               // the worker's own newest stamp, for its deliveries; nil or 0: they need none
	Publish func(*belfryv1.Event)
	Now     func() time.Time     // the wall clock by which things are due; nil: time.Now
	Hint    func(*belfryv1.Hint) // tells the broker of a queue; it may be lost. nil: nobody is told
	Metrics *Metrics
	Log     *slog.Logger
}

// owner is the actor of a partition: messages in, events to the state, effects
// out. Only its mailbox touches the state.
type owner struct {
	Shell
	state *State
	part  int32

	self   *actor.PID
	root   *actor.RootContext
	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	wakeAt time.Time // zero: no wake-up is wanted
	timed  bool      // the timer is set for wakeAt. It runs on the monotonic clock, so it may fire too early and is set again.

	workers map[WorkerID]*actor.PID // of the live ones
	refs    map[Ref]*actor.PID
	last    Ref
	next    string // who is to own the partition next, once it is given up
	givenUp bool
	stats   *atomic.Pointer[Stats]
	shown   time.Time
	changed bool // since then
	panics  int  // of the state, as far as they are logged

	holdings map[WorkerID]*holdings // parts of answers that are on their way
}

// Messages of the owner to itself, from its host, and to its host. A full
// mailbox still takes them.
type (
	wake   struct{}
	stored struct{ event Event }
	poke   struct{} // the clock was stepped, or the process stood still

	workersChanged struct { // see Workers
		list    []Worker
		partial bool
	}
	yield   struct{ next string } // give the partition up; next may own it then
	yielded struct {              // everything is durable under the fence
		partition int32
		fence     persistence.Fence
	}
)

func (wake) Reserved()           {}
func (stored) Reserved()         {}
func (poke) Reserved()           {}
func (workersChanged) Reserved() {}
func (yield) Reserved()          {}
func (yielded) Reserved()        {}

func newOwner(sh Shell, part int32, state *State, stats *atomic.Pointer[Stats]) actor.Actor {
	if sh.Now == nil {
		sh.Now = time.Now
	}
	return &owner{Shell: sh, state: state, part: part, workers: map[WorkerID]*actor.PID{}, holdings: map[WorkerID]*holdings{}, refs: map[Ref]*actor.PID{}, stats: stats}
}

// Receive is the table of what an owner understands.
func (o *owner) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		o.start(ctx)
	case *actor.Stopping:
		o.stop()
	case *actor.Stopped, *actor.Restarting:
	case wake, poke:
		o.timed = false
		o.step(ctx, Tick{})
	case stored:
		o.step(ctx, m.event)
	case workersChanged:
		o.setWorkers(ctx, m)
	case deadRead:
		o.aboutDead(ctx, m)
	case yield:
		o.next, o.givenUp = m.next, true
		o.step(ctx, Yield{})
	case *belfryv1.Results:
		o.step(ctx, Reported{WorkerIDOf(ctx.Sender()), m.GetResults()})
	case *belfryv1.Busy:
		o.step(ctx, Busied{
			WorkerIDOf(ctx.Sender()), m.GetNumber(), m.GetDeliveries(), m.GetHost(), m.GetReason(), m.GetSince(), m.GetRetryInMs(),
		})
	case *belfryv1.Offer:
		o.step(ctx, Offered{WorkerIDOf(ctx.Sender()), m.GetId(), int(m.GetSlots()), m.GetHost()})
	case *belfryv1.Begun:
		o.step(ctx, Begun{WorkerIDOf(ctx.Sender()), m.GetDeliveries()})
	case *belfryv1.Holds:
		o.held(ctx, m)
	case *actor.DeadLetterResponse:
		// The worker turned a message away, or is being restarted: deliveries are
		// sent again after their timeout, acknowledgements with the next result.
	default:
		o.asked(ctx)
	}
}

// held takes what a worker holds, once all parts of its answer are there.
func (o *owner) held(ctx actor.Context, m *belfryv1.Holds) {
	if m.GetEpoch() != o.state.life {
		return
	}
	from := WorkerIDOf(ctx.Sender())
	parts := o.holdings[from]
	if parts == nil {
		parts = &holdings{}
		o.holdings[from] = parts
	}
	if all, whole := parts.take(m); whole {
		delete(o.holdings, from)
		o.step(ctx, Holds{from, all})
	}
}

// asked takes requests. Once the partition is given up they are the next
// owner's.
func (o *owner) asked(ctx actor.Context) {
	if o.givenUp {
		if ctx.Sender() != nil {
			ctx.Respond(&belfryv1.NotOwner{Partition: o.part, Node: o.next})
		}
		return
	}
	if o.Alive != nil && !o.Alive() && o.turnAway(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *belfryv1.Command:
		if m.GetReplay() != nil || m.GetPurge() != nil {
			o.readDead(ctx, m)
			return
		}
		o.step(ctx, Asked{Ref: o.ref(ctx), Commands: []*belfryv1.Command{m}, Single: true})
	case *belfryv1.Commands:
		for _, c := range m.GetCommands() {
			fillDead(c, nil) // it is read for single ones only
		}
		o.step(ctx, Asked{Ref: o.ref(ctx), Commands: m.GetCommands()})
	case *belfryv1.Describe:
		o.step(ctx, Described{Ref: o.ref(ctx), JobID: m.GetJobId()})
	case *belfryv1.GetGraph:
		o.step(ctx, Graphed{Ref: o.ref(ctx), Of: m.GetOf(), Upstreams: m.GetUpstreams()})
	case *belfryv1.Claim:
		o.step(ctx, Claimed{Ref: o.ref(ctx), Claim: m})
	case *belfryv1.Heartbeat:
		o.step(ctx, Extended{Ref: o.ref(ctx), Heartbeat: m})
	case *belfryv1.GetJob:
		o.read(ctx, func(ctx context.Context) proto.Message { return o.getJob(ctx, m) })
	case *belfryv1.ListExecutions:
		o.read(ctx, func(ctx context.Context) proto.Message { return o.listExecutions(ctx, m) })
	default:
		o.Log.Warn("message of an unknown type", "type", fmt.Sprintf("%T", m))
	}
}

// turnAway refuses what would be answered from memory, perhaps with no write that
// could fail: another owner may have changed all of it.
func (o *owner) turnAway(ctx actor.Context) bool {
	refuse := func(c *belfryv1.Command) *belfryv1.Answer {
		return refusal(c.GetId(), belfryv1.Refusal_CODE_UNAVAILABLE, "", "this node is not sure that it still owns the job: try again")
	}
	var answer proto.Message
	switch m := ctx.Message().(type) {
	case *belfryv1.Command:
		answer = refuse(m)
	case *belfryv1.Commands:
		all := &belfryv1.Answers{}
		for _, c := range m.GetCommands() {
			all.Answers = append(all.Answers, refuse(c))
		}
		answer = all
	case *belfryv1.Heartbeat:
		answer = refuse(&belfryv1.Command{})
	case *belfryv1.Claim:
		answer = &belfryv1.Answers{}
	case *belfryv1.Describe, *belfryv1.GetGraph:
		return true
	default:
		return false
	}
	if ctx.Sender() != nil {
		ctx.Respond(answer)
	}
	return true
}

// WorkerIDOf names the worker behind a PID; "" when there is none.
func WorkerIDOf(pid *actor.PID) WorkerID {
	if pid == nil {
		return ""
	}
	return WorkerID(pid.GetAddress() + "/" + pid.GetId())
}

// pid is the actor that a worker's name names. Also one that is not live any
// more may be owed an acknowledgement.
func (id WorkerID) pid() *actor.PID {
	address, name, _ := strings.Cut(string(id), "/")
	return actor.NewPID(address, name)
}

func (o *owner) setWorkers(ctx actor.Context, m workersChanged) {
	clear(o.workers)
	for _, w := range m.list {
		o.workers[w.ID] = w.ID.pid()
	}
	o.step(ctx, Workers{m.list, m.partial})
}

func (o *owner) tell(ctx actor.Context, to WorkerID, message any) {
	pid := o.workers[to]
	if pid == nil {
		pid = to.pid()
	}
	ctx.Request(pid, message)
}

// send hands deliveries over, unless the node may have lost the partition
// without knowing: then they go back to the state.
func (o *owner) send(ctx actor.Context, e Send) {
	if o.Alive != nil && !o.Alive() {
		o.root.Send(o.self, stored{Withheld(e)})
		return
	}
	if o.Stamp != nil {
		e.Dispatch.Stamp = o.Stamp(e.To)
	}
	o.tell(ctx, e.To, e.Dispatch)
}

func (o *owner) start(ctx actor.Context) {
	o.self, o.root = ctx.Self(), ctx.ActorSystem().Root
	o.ctx, o.cancel = context.WithCancel(context.Background())
	o.timer = time.AfterFunc(time.Hour, func() { o.root.Send(o.self, wake{}) })
	o.changed = true
	o.carry(ctx, o.state.Step(o.Now(), Tick{Judge: true}))
	o.rest(o.Now())
}

func (o *owner) stop() {
	o.timer.Stop()
	o.cancel()
}

// ref remembers who asked.
func (o *owner) ref(ctx actor.Context) Ref {
	o.last++
	if sender := ctx.Sender(); sender != nil {
		o.refs[o.last] = sender
	}
	return o.last
}

// step tells the state what has happened. When the wake-up it had asked for is
// long past, the process stood still or the clock was stepped, and that comes
// first.
func (o *owner) step(ctx actor.Context, e Event) {
	now := o.Now()
	if !o.wakeAt.IsZero() && now.Round(0).Sub(o.wakeAt) > lateWake {
		o.Log.Warn("overdue after a stall or a step of the clock", "behind", now.Round(0).Sub(o.wakeAt).String())
		o.wakeAt = time.Time{}
		o.carry(ctx, o.state.Step(now, Tick{Judge: true}))
	}
	effects := o.state.Step(now, e)
	if _, idle := e.(Tick); !idle || len(effects) > 0 {
		o.changed = true
	}
	o.carry(ctx, effects)
	o.rest(now)
	if n, last := o.state.Panics(); n > o.panics {
		o.Metrics.jobPanics.Add(float64(n - o.panics))
		o.Log.Error("panic over one job: it is marked as faulty", "panic", last)
		o.panics = n
	}
}

// rest sets the timer for the next wake-up and shows the numbers.
func (o *owner) rest(now time.Time) {
	at, ok := o.state.Wake()
	switch {
	case !ok:
		at = now.Add(time.Hour)
	case at.Before(now):
		at = now.Round(0) // a timer set for the past is due now, not late
	}
	if stale := o.show(now); !stale.IsZero() && stale.Before(at) {
		at = stale.Round(0)
	}
	if !at.Equal(o.wakeAt) || !o.timed {
		o.wakeAt, o.timed = at, true
		o.timer.Reset(min(max(at.Sub(o.Now()), 0), longestSleep))
	}
}

// show publishes the numbers at most once a second, and says when it wants to
// be called again because something has happened since.
func (o *owner) show(now time.Time) (again time.Time) {
	if !o.changed {
		return time.Time{}
	}
	if since := now.Sub(o.shown); since >= 0 && since < time.Second {
		return o.shown.Add(time.Second)
	}
	o.shown, o.changed = now, false
	st := o.state.Stats(now)
	o.stats.Store(&st)
	return time.Time{}
}

// carry carries effects out, in order.
func (o *owner) carry(ctx actor.Context, effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Commit:
			o.commit(e)
		case Settle:
			o.settle(e)
		case Reply:
			o.reply(e.To, e.Answer)
		case Tell:
			o.ask(e.Command)
		case Recall:
			o.recall(e)
		case Send:
			o.send(ctx, e)
		case Inquire:
			o.tell(ctx, e.To, &belfryv1.Inquire{Partition: o.part, Epoch: o.state.life})
		case Acknowledge:
			o.tell(ctx, e.To, &belfryv1.Acks{Deliveries: e.Refs})
		case Hint:
			if o.Hint != nil {
				o.Hint(e.Hint)
			}
		case Publish:
			o.Metrics.observe(e.Event)
			o.Publish(e.Event)
		case Expire:
			o.expire(e.Before)
		case FindDead:
			o.findDead(e)
		case FindOld:
			o.findOld(e)
		case Yielded:
			if host := ctx.Parent(); host != nil {
				ctx.Send(host, yielded{o.part, e.Fence})
			}
		case Stop:
			o.lost(e)
			ctx.Stop(o.self)
			return
		}
	}
}

// lost tells of the end of this ownership.
func (o *owner) lost(e Stop) {
	if e.Fault != "" {
		o.Log.Error("the partition stops", "fault", e.Fault)
		return
	}
	o.Metrics.fenceRefused.Inc()
	o.Log.Warn("another owner holds the partition", "holder", e.Holder.Owner, "their_epoch", e.Holder.Epoch)
}

// commit writes a batch beside the mailbox; the outcome comes back as an event.
func (o *owner) commit(e Commit) {
	sent := time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(o.ctx, storeTimeout)
		defer cancel()
		f, err := o.Store.Commit(ctx, e.Held, e.Batch)
		o.Metrics.committed(len(e.Batch.Rows)+len(e.Batch.History), time.Since(sent))
		o.back(Applied{f}, err)
	}()
}

func (o *owner) settle(e Settle) {
	go func() {
		ctx, cancel := context.WithTimeout(o.ctx, storeTimeout)
		defer cancel()
		f, applied, err := o.Store.Settle(ctx, e.Held, e.Batch, e.Op)
		if err == nil {
			o.Metrics.settled(applied)
		}
		if errors.Is(err, persistence.ErrInDoubt) {
			err = job.ErrUnavailable // the barrier itself is repeated
		}
		o.back(Settled{f, applied}, err)
	}()
}

// back turns the store's answer into an event.
func (o *owner) back(good Event, err error) {
	var fenced *persistence.Fenced
	var refused *persistence.RowRefused
	e := good
	switch {
	case err == nil:
	case errors.As(err, &fenced):
		e = Fenced{fenced.Holder}
	case errors.As(err, &refused):
		e = Refused{refused.Why}
	case errors.Is(err, persistence.ErrInDoubt) || errors.Is(err, context.DeadlineExceeded):
		e = InDoubt{}
	default:
		e = Unavailable{err.Error()}
	}
	o.root.Send(o.self, stored{e})
}

func (o *owner) reply(to Ref, answer proto.Message) {
	if pid := o.refs[to]; pid != nil {
		o.root.Send(pid, answer)
	}
	delete(o.refs, to)
}

// errandTimeout bounds one try of a question to another owner; the state repeats
// it.
const errandTimeout = 3 * time.Second

// ask asks another owner, beside the mailbox; what it answers comes back as an
// event.
func (o *owner) ask(cmd *belfryv1.Command) {
	go func() {
		ctx, cancel := context.WithTimeout(o.ctx, errandTimeout)
		defer cancel()
		m, err := o.Ask(ctx, job.PartitionOf(cmd.GetJobId(), o.state.cfg.Partitions), cmd)
		answer, _ := m.(*belfryv1.Answer)
		if err != nil {
			o.Log.Debug("another owner does not answer", "job", cmd.GetJobId(), "command", cmd.GetId(), "err", err)
		}
		o.root.Send(o.self, stored{Told{cmd.GetId(), answer}})
	}()
}

// recall answers a repeated command with the stored answer to the first one.
func (o *owner) recall(e Recall) {
	pid := o.refs[e.To]
	delete(o.refs, e.To)
	if pid == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(o.ctx, storeTimeout)
		defer cancel()
		o.root.Send(pid, o.recalled(ctx, e))
	}()
}

func (o *owner) recalled(ctx context.Context, e Recall) *belfryv1.Answer {
	id := e.Command.GetId()
	row, err := o.Store.Get(ctx, o.part, e.Slice, e.Command.GetJobId(), persistence.CommandItem(id))
	if err != nil {
		return refusal(id, belfryv1.Refusal_CODE_UNAVAILABLE, "", "the first answer under this key cannot be read now: %v", err)
	}
	first, answer := new(belfryv1.RememberedCommand), new(belfryv1.Answer)
	if proto.Unmarshal(row.State, first) != nil || proto.Unmarshal(first.GetAnswer(), answer) != nil {
		return refusal(id, belfryv1.Refusal_CODE_UNAVAILABLE, "", "the first answer under this key cannot be read")
	}
	if !bytes.Equal(first.GetMark().GetFingerprint(), e.Command.GetFingerprint()) {
		return refusal(id, belfryv1.Refusal_CODE_KEY_REUSED, "", "this key was used for another request: use a new one")
	}
	return answer
}

func (o *owner) expire(before job.Day) {
	go func() {
		ctx, cancel := context.WithTimeout(o.ctx, time.Minute)
		defer cancel()
		if err := o.Store.Expire(ctx, o.part, before); err != nil && o.ctx.Err() == nil {
			o.Log.Warn("expire history: tried again in a minute", "before", before.String(), "err", err)
			time.AfterFunc(time.Minute, func() {
				if o.ctx.Err() == nil {
					o.expire(before)
				}
			})
		}
	}()
}
