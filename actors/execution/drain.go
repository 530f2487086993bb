package execution

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Drain makes a worker begin nothing new and returns when all that it holds is
// acknowledged. Calls that still run after the timeout are cut and reported as
// unknown; they get one Resend more to be acknowledged. Left is how many
// deliveries were not. A drained worker stays drained.
func Drain(system *actor.ActorSystem, worker *actor.PID, timeout time.Duration) (left int, err error) {
	const grace = 30 * time.Second // beyond the longest that the worker itself waits
	answer, err := system.Root.RequestFuture(worker, &drain{timeout}, timeout+grace).Result()
	if err != nil {
		return 0, fmt.Errorf("drain worker: %w", err)
	}
	d, ok := answer.(*drained)
	if !ok {
		return 0, fmt.Errorf("drain worker: answer of type %T", answer)
	}
	return d.left, nil
}

type (
	drain   struct{ timeout time.Duration }
	drained struct{ left int }
	cut     struct{} // the time for running calls is over
	giveUp  struct{} // the time for acknowledgements is over
)

// Reserved marks a message that a full mailbox takes.
func (*drain) Reserved() {}

// Reserved marks a message that a full mailbox takes.
func (cut) Reserved() {}

// Reserved marks a message that a full mailbox takes.
func (giveUp) Reserved() {}

// drainage is who waits for the worker to be empty.
type drainage struct {
	waiting []*actor.PID
	timer   *time.Timer
}

func (d *drainage) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (w *worker) beginDrain(ctx actor.Context, m *drain) {
	if !w.ledger.draining {
		w.ledger.draining = true
		w.Log.Info("the worker drains", "node", w.Node, "running", w.ledger.running, "held", len(w.ledger.held))
	}
	if sender := ctx.Sender(); sender != nil {
		w.drain.waiting = append(w.drain.waiting, sender)
	}
	w.drain.stop()
	w.drain.timer = w.after(m.timeout, cut{})
	w.flushSoon(ctx)
}

// drained answers when nothing is held any more.
func (w *worker) drained(ctx actor.Context) {
	if len(w.ledger.held) == 0 && len(w.drain.waiting) > 0 {
		w.answerDrain(ctx)
	}
}

// cutCalls cancels what still runs; the results come as of any call.
func (w *worker) cutCalls(ctx actor.Context) {
	for _, child := range ctx.Children() {
		ctx.Send(child, cut{})
	}
	w.drain.stop()
	w.drain.timer = w.after(w.Resend, giveUp{})
}

// after sends the worker a message later, whatever incarnation it has by then.
func (w *worker) after(d time.Duration, message any) *time.Timer {
	root, self := w.root, w.self
	return time.AfterFunc(d, func() { root.Send(self, message) })
}

func (w *worker) answerDrain(ctx actor.Context) {
	w.drain.stop()
	for _, pid := range w.drain.waiting {
		ctx.Send(pid, &drained{left: len(w.ledger.held)})
	}
	w.drain.waiting = nil
}
