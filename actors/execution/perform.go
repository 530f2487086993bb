package execution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// performer delivers to actors of services in the cluster; see Config.Perform.
type performer func(ctx context.Context, p *belfryv1.Perform) (*belfryv1.Performed, error)

var _ Deliverer = performer(nil)

var errNoAnswer = errors.New("there is none")

// Deliver implements Deliverer: one Perform.
func (ask performer) Deliver(ctx context.Context, d *belfryv1.Delivery, epoch int64, may func() bool) *belfryv1.Result {
	if ask == nil {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Final: true, Error: "this node is in no cluster: actor targets need one"}
	}
	limit := limitOf(d)
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if ctx.Err() != nil || !may() {
		return nil
	}
	to := d.GetTarget().GetActor()
	start := time.Now().UnixMilli()
	answer, err := ask(call, &belfryv1.Perform{
		ExecutionId: d.GetExecutionId(), JobId: d.GetJobId(), Key: d.GetKey(), ScheduledFor: d.GetScheduledFor(),
		Attempt: d.GetAttempt(), Epoch: epoch, TimeoutMs: limit.Milliseconds(),
		Kind: to.GetKind(), Identity: to.GetIdentity(), Payload: to.GetPayload(),
	})
	notSent := errors.Is(err, job.ErrNotSent)
	if notSent && (ctx.Err() != nil || !may()) {
		return nil
	}
	r := &belfryv1.Result{}
	switch {
	case err == nil && answer != nil:
		r = performed(answer)
	case ctx.Err() == nil && call.Err() != nil:
		r.Outcome, r.Error = belfryv1.Result_OUTCOME_TIMEOUT, fmt.Sprintf("no answer within %v", limit)
	case notSent:
		r.Outcome, r.Error = belfryv1.Result_OUTCOME_FAILED, err.Error()
	default:
		r.Outcome, r.Error = belfryv1.Result_OUTCOME_UNKNOWN, fmt.Sprintf("the actor was asked, and the answer was lost: %v", cmp.Or(context.Cause(ctx), err, errNoAnswer))
	}
	r.Unavailable = (err != nil || answer == nil) && ctx.Err() == nil
	r.Error = clip(r.Error, maxError)
	if !notSent {
		r.SentAt = start
	}
	r.FinishedAt = time.Now().UnixMilli()
	return r
}

// performed is the result that an actor answered.
func performed(answer *belfryv1.Performed) *belfryv1.Result {
	if answer.GetSucceeded() {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED}
	}
	return &belfryv1.Result{
		Outcome: belfryv1.Result_OUTCOME_FAILED, Final: answer.GetFinal(),
		Error:        cmp.Or(answer.GetError(), "the actor answered that it failed"),
		RetryAfterMs: min(max(answer.GetRetryAfterMs(), 0), longestRetryAfter.Milliseconds()),
	}
}
