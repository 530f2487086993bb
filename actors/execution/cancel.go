package execution

import (
	"github.com/asynkron/protoactor-go/actor"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// cancelCall tells an execution actor to end its call. The result comes as of any
// call: what was sent and not answered is unknown.
type cancelCall struct{}

// Reserved marks a message that a full mailbox takes.
func (cancelCall) Reserved() {}

// cancel ends the calls that an owner does not want any more, and gives back those
// that are not held. These cannot begin later: whatever Dispatch brings them is
// older than this one.
func (w *worker) cancel(ctx actor.Context, to *actor.PID, d *belfryv1.Dispatch) {
	running, unknown := w.ledger.cancel(d)
	for _, h := range running {
		ctx.Send(h.child, cancelCall{})
	}
	if len(unknown) > 0 {
		ctx.Request(to, &belfryv1.Busy{Partition: d.GetPartition(), Epoch: d.GetEpoch(), Number: d.GetNumber(), Deliveries: unknown})
	}
}

// cancel sorts the deliveries that a Dispatch cancels into those that run and
// those that are not held. The results of the others go out again.
func (l *ledger) cancel(d *belfryv1.Dispatch) (running []*held, unknown []*belfryv1.DeliveryRef) {
	for _, r := range d.GetCancel() {
		h := l.held[ref{r.GetExecutionId(), r.GetAttempt()}]
		switch {
		case h == nil:
			unknown = append(unknown, r)
		case h.result != nil:
			l.report(h)
		case h.child != nil:
			h.naming = nameOf(d)
			running = append(running, h)
		}
	}
	return running, unknown
}
