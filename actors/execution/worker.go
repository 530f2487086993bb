package execution

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/actors"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// resultsChunk is how many results one message carries.
const resultsChunk = 64

// NewWorker makes the Props of a worker. A node spawns one, from the root
// context.
func NewWorker(f *actors.Factory, cfg Config, opts ...actors.Option) (*actor.Props, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &shared{Config: cfg, ledger: newLedger(cfg.Slots, cfg.Limits), panics: map[string]any{}}
	s.executions = f.Props(actors.Execution, func() actor.Actor { return &execution{shared: s} }, actors.Inline())
	opts = append([]actors.Option{f.Supervises(actors.Execution, s.stopped), f.Guardian(actors.Worker, s.gaveUp)}, opts...)
	return f.Props(actors.Worker, func() actor.Actor { return &worker{shared: s} }, opts...), nil
}

// shared is what the incarnations of a worker have in common.
type shared struct {
	Config
	ledger     *ledger
	drain      drainage
	panics     map[string]any // why execution actors were stopped, until they end
	executions *actor.Props
}

// stopped is told, as part of the worker, why an execution actor is stopped.
func (s *shared) stopped(child *actor.PID, reason any) { s.panics[child.GetId()] = reason }

// gaveUp is told when a worker was stopped for good.
func (s *shared) gaveUp(_ *actor.PID, reason any) {
	if s.Stopped != nil {
		s.Stopped(reason)
	}
}

// worker is one incarnation.
type worker struct {
	*shared
	root     *actor.RootContext
	self     *actor.PID
	flushing bool        // a flush is in the mailbox
	fenced   bool        // partitions stand in line, and this node may send nothing
	timer    *time.Timer // sends wake
	wakeAt   time.Time
}

// Messages of the worker to itself. They are few: one flush and one wake at a
// time.
type (
	flush struct{ last bool }
	wake  struct{}
)

// Reserved marks a message that a full mailbox takes.
func (flush) Reserved() {}

// Reserved marks a message that a full mailbox takes.
func (wake) Reserved() {}

// Receive is the table of what a worker understands.
func (w *worker) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		w.start(ctx)
	case *actor.Restarting: // a drain goes on
		w.timer.Stop()
	case *actor.Stopping:
		w.timer.Stop()
		w.drain.stop()
	case *actor.Stopped:
	case *belfryv1.Dispatch:
		w.dispatched(ctx, m)
	case *belfryv1.Inquire:
		w.inquired(ctx, m)
	case *belfryv1.Acks:
		w.ledger.acknowledge(m.GetDeliveries())
		w.flushSoon(ctx)
	case *ended:
		w.called(ctx, m)
	case *actor.Terminated:
		w.terminated(ctx, m.Who)
	case flush:
		w.flush(ctx, m.last)
	case wake:
		w.woken(ctx)
	case *drain:
		w.beginDrain(ctx, m)
	case cut:
		w.cutCalls(ctx)
	case giveUp:
		w.answerDrain(ctx)
	case *actor.DeadLetterResponse:
		w.ledger.owners.dead(m.Target) // what it was told is told again, to whoever is next
	default:
		w.Log.Warn("message of an unknown type", "node", w.Node, "type", fmt.Sprintf("%T", m))
	}
}

// start also ends what an earlier incarnation had running: its calls were cut
// when it was restarted.
func (w *worker) start(ctx actor.Context) {
	w.root, w.self = ctx.ActorSystem().Root, ctx.Self()
	w.timer = time.AfterFunc(time.Hour, func() { w.root.Send(w.self, wake{}) })
	for _, h := range w.ledger.held {
		if h.result == nil {
			w.ended(ctx, h, interrupted())
		}
	}
	w.flushSoon(ctx)
}

func (w *worker) begin(ctx actor.Context, h *held, may func() bool) {
	w.ledger.spawned++
	child, err := ctx.SpawnNamed(w.executions, "e"+strconv.FormatInt(w.ledger.spawned, 36))
	if err != nil {
		w.ended(ctx, h, internal(h.delivery, err))
		return
	}
	w.ledger.begin(h, child)
	ctx.Send(child, &begin{h, h.delivery, h.epoch, may})
}

// called takes the result of a call, and only then stops its actor: the
// Terminated of one that stopped by itself would overtake the result.
func (w *worker) called(ctx actor.Context, m *ended) {
	if child := m.held.child; child != nil {
		ctx.Stop(child)
	}
	if m.result == nil {
		w.notSent(ctx, m.held)
		return
	}
	w.ended(ctx, m.held, m.result)
}

// notSent gives a delivery back of which nothing was sent.
func (w *worker) notSent(ctx actor.Context, h *held) {
	if w.ledger.giveBack(h) {
		w.Metrics.gaveBack(fenced, 1)
		w.flushSoon(ctx)
	}
}

func (w *worker) ended(ctx actor.Context, h *held, r *belfryv1.Result) {
	r.Node = w.Node
	if !w.ledger.end(h, r) {
		return
	}
	h.host.heed(time.Now(), r)
	w.Metrics.ended(r, time.Since(h.begun))
	w.flushSoon(ctx)
}

// terminated ends the delivery of an execution actor that ended without a
// result: it panicked, or it is stopped along with the worker.
func (w *worker) terminated(ctx actor.Context, child *actor.PID) {
	reason, panicked := w.panics[child.GetId()]
	delete(w.panics, child.GetId())
	switch h := w.ledger.children[child.GetId()]; {
	case h == nil:
	case panicked:
		w.ended(ctx, h, internal(h.delivery, reason))
	default:
		w.ended(ctx, h, interrupted())
	}
}

// flushSoon sends a flush behind everything that waits in the mailbox, so that
// results and free slots of all of it go out together. Before it works, calls
// that have ended too may say so: a flush goes around once more behind those.
func (w *worker) flushSoon(ctx actor.Context) {
	if !w.flushing {
		w.flushing = true
		ctx.Send(ctx.Self(), flush{})
	}
}

func (w *worker) flush(ctx actor.Context, last bool) {
	if !last {
		runtime.Gosched()
		ctx.Send(ctx.Self(), flush{last: true})
		return
	}
	w.flushing = false
	now := time.Now()
	for !w.ledger.outbox.empty() {
		partition, results := w.ledger.post(now, resultsChunk)
		if to := w.owner(partition).owner; to != nil && len(results) > 0 {
			ctx.Request(to, &belfryv1.Results{Results: results})
		}
	}
	w.giveBack(ctx)
	w.offer(ctx, now)
	w.tellChanges()
	w.Metrics.show(w.ledger)
	w.drained(ctx)
	w.rest(now)
}

// giveBack tells owners what was begun and not sent. One that misses it sends
// the delivery again.
func (w *worker) giveBack(ctx actor.Context) {
	for as, refs := range w.ledger.returned {
		o := w.owner(as.partition)
		if o.owner == nil {
			continue
		}
		if as.epoch != o.epoch {
			as.number = 0 // this owner knows of them by what we told it
		}
		ctx.Request(o.owner, &belfryv1.Busy{Partition: as.partition, Epoch: o.epoch, Number: as.number, Deliveries: refs})
	}
	clear(w.ledger.returned)
}

// offer gives free slots to the partitions in line.
func (w *worker) offer(ctx actor.Context, now time.Time) {
	lines := w.ledger.linesInTurn()
	wanted := slices.ContainsFunc(lines, func(l *line) bool { return len(l.order) > 0 })
	w.fenced = wanted && !w.Lease()()
	if w.ledger.draining || w.fenced {
		return
	}
	for _, l := range lines {
		if !l.gather(now, w.ledger.room(l, now)) {
			w.offerTo(ctx, now, l)
		}
	}
}

func (w *worker) offerTo(ctx actor.Context, now time.Time, l *line) {
	owned := func(p int32) bool { return w.owner(p).owner != nil }
	for o := l.offer(now, w.ledger.room(l, now), owned); o != nil; o = l.offer(now, w.ledger.room(l, now), owned) {
		offer := &belfryv1.Offer{Id: o.id, Slots: int32(o.slots)}
		if l.host != nil {
			offer.Host = l.host.name
		}
		if to := w.owner(o.partition).owner; to != nil {
			ctx.Request(to, offer)
		}
	}
}

// woken looks at what waited too long.
func (w *worker) woken(ctx actor.Context) {
	now := time.Now()
	w.wakeAt = time.Time{}
	if n := w.ledger.overdue(now, w.Resend); n > 0 {
		w.Metrics.resent.Add(float64(n))
		w.Log.Debug("results are reported again", slog.String("node", w.Node), slog.Int("results", n))
	}
	for _, l := range w.ledger.lines() {
		l.lapse(now, w.OfferFor)
	}
	w.flushSoon(ctx)
}

// rest sets the timer for the next thing that may be overdue.
func (w *worker) rest(now time.Time) {
	at, ok := w.ledger.next(now, w.Resend, w.OfferFor)
	if retry := now.Add(w.OfferFor); w.fenced && (!ok || retry.Before(at)) {
		at, ok = retry, true // who stands in line is offered nothing until then
	}
	if !ok || !w.wakeAt.IsZero() && !at.Before(w.wakeAt) {
		return
	}
	w.wakeAt = at
	w.timer.Reset(max(at.Sub(now), 0))
}
