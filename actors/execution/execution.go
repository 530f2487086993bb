package execution

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Causes of a cancelled call.
var (
	errStopped = errors.New("the execution actor was stopped")
	errCut     = errors.New("the node shuts down")
	errCancel  = errors.New("the execution is cancelled")
)

type (
	// begin tells an execution actor its delivery.
	begin struct {
		held     *held // for the worker: not read here
		delivery *belfryv1.Delivery
		epoch    int64
		may      func() bool // whether it may still be sent
	}
	// ended tells the worker what came of it; the worker then stops the actor.
	ended struct {
		held   *held
		result *belfryv1.Result // nil: nothing was sent, and the attempt is not used up
	}
)

// Reserved marks a message that a full mailbox takes.
func (*begin) Reserved() {}

// Reserved marks a message that a full mailbox takes.
func (*ended) Reserved() {}

// IgnoreDeadLetterLogging says that a result for a worker that is gone is no
// news: the delivery is repeated.
func (*ended) IgnoreDeadLetterLogging() {}

// execution runs one delivery. The call is made in a goroutine, so that the
// actor can be stopped, and is cancelled with it. The actor itself needs none:
// it is inline in its worker.
type execution struct {
	*shared
	cancel context.CancelCauseFunc
}

// Receive is the table of what an execution actor understands.
func (e *execution) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *begin:
		e.begin(ctx, m)
	case cut:
		e.stop(errCut)
	case cancelCall:
		e.stop(errCancel)
	case *actor.Stopping:
		e.stop(errStopped)
	}
}

func (e *execution) stop(cause error) {
	if e.cancel != nil {
		e.cancel(cause)
	}
}

func (e *execution) begin(ctx actor.Context, m *begin) {
	held, delivery, epoch, may := m.held, m.delivery, m.epoch, m.may
	root, worker := ctx.ActorSystem().Root, ctx.Parent()
	var call context.Context
	call, e.cancel = context.WithCancelCause(context.Background())
	go func() {
		r := e.deliver(call, delivery, epoch, may)
		if !errors.Is(context.Cause(call), errStopped) {
			root.Send(worker, &ended{held, r})
		}
	}()
}

// deliver makes the call; a panic in it is a failed attempt. The result is nil
// when nothing was sent.
func (e *execution) deliver(ctx context.Context, d *belfryv1.Delivery, epoch int64, may func() bool) (r *belfryv1.Result) {
	defer func() {
		if reason := recover(); reason != nil {
			e.Log.Error("panic in a call", "execution", d.GetExecutionId(), "attempt", d.GetAttempt(), "epoch", epoch,
				"reason", findSecrets(d).mask(fmt.Sprint(reason), maxError), "stack", string(debug.Stack()))
			r = internal(d, reason)
		}
	}()
	r = e.delivererOf(d.GetTarget()).Deliver(ctx, d, epoch, may)
	if r != nil && r.FinishedAt == 0 {
		r.FinishedAt = time.Now().UnixMilli()
	}
	return r
}

func (e *execution) delivererOf(t *belfryv1.Target) Deliverer {
	switch {
	case t.GetActor() != nil:
		return performer(e.Perform)
	case t.GetNats() != nil || t.GetKafka() != nil:
		return e.Brokers
	}
	return e.Deliverer
}

// internal is the result of a delivery that ended by a fault of ours.
func internal(d *belfryv1.Delivery, reason any) *belfryv1.Result {
	return &belfryv1.Result{
		Outcome:    belfryv1.Result_OUTCOME_FAILED,
		Error:      findSecrets(d).mask(fmt.Sprintf("internal: panic: %v", reason), maxError),
		FinishedAt: time.Now().UnixMilli(),
	}
}

// interrupted is the result of a call that was cut by the end of a worker's
// incarnation: it may have been sent.
func interrupted() *belfryv1.Result {
	return &belfryv1.Result{
		Outcome:    belfryv1.Result_OUTCOME_UNKNOWN,
		Error:      "internal: the worker stopped during the call",
		FinishedAt: time.Now().UnixMilli(),
	}
}
