package execution

import (
	"context"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// What a Dispatch cancels: what runs ends, what has ended is reported again, and
// what is not held is given back and never begins.
func TestLedgerCancels(t *testing.T) {
	l := newLedger(4, LimitsConfig{})
	now := time.Now()
	first := &belfryv1.Dispatch{Partition: 1, Epoch: 3, Number: 1, Deliveries: []*belfryv1.Delivery{numbered(1, 1), numbered(1, 2)}}
	begun, _ := l.take(now, first, welcome)
	for _, h := range begun {
		l.begin(h, actor.NewPID("here", h.execution))
	}
	l.end(begun[1], &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED})
	for !l.outbox.empty() {
		l.post(now, 10)
	}
	var refs []*belfryv1.DeliveryRef
	for n := 1; n <= 3; n++ {
		refs = append(refs, &belfryv1.DeliveryRef{ExecutionId: numbered(1, n).GetExecutionId(), Attempt: 1})
	}
	running, unknown := l.cancel(&belfryv1.Dispatch{Partition: 1, Epoch: 3, Number: 2, Cancel: refs})
	if len(running) != 1 || running[0] != begun[0] || running[0].naming.number != 2 {
		t.Errorf("running: %+v", running)
	}
	if len(unknown) != 1 || unknown[0].GetExecutionId() != refs[2].GetExecutionId() {
		t.Errorf("not held: %v", unknown)
	}
	if _, again := l.post(now, 10); len(again) != 1 || again[0].GetExecutionId() != refs[1].GetExecutionId() {
		t.Errorf("reported again: %v", again)
	}
}

// A cancelled call ends at once, and what it came to is unknown.
func TestCancelEndsACall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		began := make(chan struct{}, 1)
		var cause error
		w := newWorld(t, 1, 1, config(2, delivererFunc(func(ctx context.Context, _ *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			began <- struct{}{}
			<-ctx.Done()
			cause = context.Cause(ctx)
			return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_UNKNOWN}
		})))
		d := numbered(0, 1)
		w.give(0, work{d})
		<-began
		w.f.System().Root.RequestWithCustomSender(w.worker, &belfryv1.Dispatch{
			Partition: 0, Epoch: firstEpoch, Cancel: []*belfryv1.DeliveryRef{{ExecutionId: d.GetExecutionId(), Attempt: 1}},
		}, w.owners[0])
		<-w.all
		if cause != errCancel {
			t.Errorf("the call ended for another reason: %v", cause)
		}
		w.close()
	})
}
