package actors

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
)

// Factory makes the Props of every actor of a node.
type Factory struct {
	system  *actor.ActorSystem
	log     *slog.Logger
	metrics *Metrics
}

// NewFactory makes the factory of a node.
func NewFactory(system *actor.ActorSystem, log *slog.Logger, metrics *Metrics) *Factory {
	return &Factory{system: system, log: log, metrics: metrics}
}

// System is the actor system of the node.
func (f *Factory) System() *actor.ActorSystem { return f.system }

// Option changes the Props of one actor.
type Option func(*options)

type options struct {
	onFull func(message any, sender *actor.PID)
	props  []actor.PropsOption
}

// OnFull is called with each message that the full mailbox turned away, in the
// goroutine of its sender (nil when it gave none). It must be quick. Without
// it the message becomes a dead letter, which fails a request at once.
func OnFull(hook func(message any, sender *actor.PID)) Option {
	return func(o *options) { o.onFull = hook }
}

// Inline makes an actor run in the goroutine of whoever sends to it, instead of
// one of its own: for small actors that hear from their parent alone, where
// starting and switching goroutines would cost more than the actor. It must not
// wait for anything. Its panics go to its supervisor, as ever, and not to the
// sender.
func Inline() Option {
	return func(o *options) { o.props = append(o.props, actor.WithDispatcher(inline{})) }
}

// inline is an actor.Dispatcher.
type inline struct{}

func (inline) Schedule(f func()) { f() }

// Throughput is after how many messages in a row others may run.
func (inline) Throughput() int { return 300 }

// Props makes the Props of an actor of a kind. The producer is called for the
// first incarnation and for each restart.
func (f *Factory) Props(kind Kind, producer func() actor.Actor, opts ...Option) *actor.Props {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	refused := f.metrics.refused.WithLabelValues(kind.Name)
	full := func(pid *actor.PID, message any) {
		refused.Inc()
		if o.onFull != nil {
			_, body, sender := actor.UnwrapEnvelope(message)
			o.onFull(body, sender)
			return
		}
		f.system.DeadLetter.SendUserMessage(pid, message)
	}
	guard := &guard{log: f.log.With("kind", kind.Name), panics: f.metrics.panics.WithLabelValues(kind.Name)}
	return actor.PropsFromProducer(
		func() actor.Actor { return &incarnation{actor: producer(), guard: guard} },
		append(o.props, actor.WithMailbox(func() actor.Mailbox { return &mailbox{limit: kind.Mailbox, full: full} }))...,
	)
}

// guard is what all incarnations made from the same Props share.
type guard struct {
	log    *slog.Logger
	panics prometheus.Counter
}

// incarnation is an actor from one start to its restart or end. It stands
// around the actor itself, and not as a receiver middleware, because a
// middleware costs an envelope per message and 200 B per actor.
type incarnation struct {
	actor    actor.Actor
	guard    *guard
	stopping bool
}

// Receive implements actor.Actor.
func (i *incarnation) Receive(ctx actor.Context) {
	defer i.recovered(ctx)
	if _, ok := ctx.Message().(*actor.Stopping); ok {
		i.stopping = true
	}
	i.actor.Receive(ctx)
}

// recovered logs and counts a panic and passes it on to the supervisor, except
// where protoactor would make a zombie of it.
func (i *incarnation) recovered(ctx actor.Context) {
	reason := recover()
	if reason == nil {
		return
	}
	i.guard.panics.Inc()
	message := ctx.Message()
	i.guard.log.Error("panic in an actor",
		"actor", ctx.Self().GetId(), "message", fmt.Sprintf("%T", message), "reason", fmt.Sprint(reason), "stack", string(debug.Stack()))
	if i.onTheWayOut(message) {
		return
	}
	panic(reason)
}

// onTheWayOut reports whether the actor is ending anyway. A panic in Stopping
// would restart it, one in Stopped would keep its parent from ever stopping,
// and one in Terminated, while it waits for its children, would leave it
// waiting.
func (i *incarnation) onTheWayOut(message any) bool {
	switch message.(type) {
	case *actor.Stopping, *actor.Stopped, *actor.Restarting:
		return true
	case *actor.Terminated:
		return i.stopping
	}
	return false
}
