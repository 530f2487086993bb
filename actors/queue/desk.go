package queue

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/actors"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// DeskName is the name of a node's desk.
const DeskName = "queues"

// tickEvery is how exactly waits end.
const tickEvery = 50 * time.Millisecond

// deskKind is restarted: who waited asks again, and owners hint again.
var deskKind = actors.Kind{Name: "queues", Mailbox: 65_536, OnPanic: actors.Policy{
	Restarts: 10, Within: time.Minute, Backoff: 10 * time.Millisecond, MaxBackoff: time.Second, Jitter: 0.2,
}}

// desk is the actor of the brokers that are placed on a node.
type desk struct {
	log     *slog.Logger
	brokers map[string]*broker // by queue
	timer   *time.Timer
	ticking bool
}

type tick struct{}

func (tick) Reserved() {}

// StartDesk starts the desk of a node, before others hear of the node.
func StartDesk(props *actors.Factory, log *slog.Logger) (*actor.PID, error) {
	p := props.Props(deskKind, func() actor.Actor { return &desk{log: log, brokers: map[string]*broker{}} }, props.Guardian(deskKind, nil))
	pid, err := props.System().Root.SpawnNamed(p, DeskName)
	if err != nil {
		return nil, fmt.Errorf("start the desk of queues: %w", err)
	}
	return pid, nil
}

// Receive is the table of what a desk understands.
func (d *desk) Receive(ctx actor.Context) {
	now := time.Now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		root, self := ctx.ActorSystem().Root, ctx.Self()
		d.timer = time.AfterFunc(time.Hour, func() { root.Send(self, tick{}) })
	case *actor.Stopping, *actor.Restarting:
		d.timer.Stop()
	case *actor.Stopped, *actor.DeadLetterResponse:
	case *belfryv1.Hint:
		d.of(m.GetQueue()).hint(now, m)
	case *belfryv1.Poll:
		d.poll(ctx, now, m)
	case *belfryv1.Unpoll:
		if b := d.brokers[m.GetQueue()]; b != nil {
			b.unpoll(m.GetId())
		}
	case tick:
		d.tick(now)
	default:
		d.log.Warn("message of an unknown type", "type", fmt.Sprintf("%T", m))
	}
	if !d.ticking && len(d.brokers) > 0 {
		d.ticking = true
		d.timer.Reset(tickEvery)
	}
}

func (d *desk) of(queue string) *broker {
	b := d.brokers[queue]
	if b == nil {
		b = newBroker()
		d.brokers[queue] = b
	}
	return b
}

func (d *desk) poll(ctx actor.Context, now time.Time, m *belfryv1.Poll) {
	sender, root := ctx.Sender(), ctx.ActorSystem().Root
	if sender == nil {
		return
	}
	d.of(m.GetQueue()).poll(now, &poll{
		id: m.GetId(), max: max(m.GetMax(), 1), until: now.Add(time.Duration(m.GetWaitMs()) * time.Millisecond),
		reply: func(r *belfryv1.Referral) { root.Send(sender, r) },
	})
}

// tick ends waits, and forgets the brokers that nobody needs.
func (d *desk) tick(now time.Time) {
	d.ticking = false
	for queue, b := range d.brokers {
		if b.expire(now); b.idle(now) {
			delete(d.brokers, queue)
		}
	}
}
