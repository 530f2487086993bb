package cluster

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// follow passes an execution on to an actor of the service, and its answer back,
// so that it is known how long it runs: until its timeout at most, after which
// nobody waits for the answer either.
func (h *kindsHost) follow(ctx actor.Context, one *hosted, m *belfryv1.Perform) {
	if !enter(ctx, &h.busy, int64(h.Busy)) {
		return
	}
	question, err := h.calls.open(one.pid)
	if err != nil {
		h.busy.Add(-1)
		ctx.Respond(&belfryv1.Performed{Error: err.Error(), RetryAfterMs: busyPause.Milliseconds()})
		return
	}
	one.runs.Add(1)
	timeout := defaultAsk
	if ms := m.GetTimeoutMs(); ms > 0 {
		timeout = time.Duration(ms) * time.Millisecond
	}
	root, asked := ctx.ActorSystem().Root, ctx.Sender()
	question.send(m)
	go func() {
		defer question.close()
		late := time.NewTimer(timeout)
		defer late.Stop()
		select {
		case answer := <-question.answers:
			if asked != nil {
				root.Send(asked, answer)
			}
		case <-late.C:
		case <-h.ended:
		}
		one.use()
		one.runs.Add(-1)
		h.busy.Add(-1) // after the answer was sent: whoever waits for the end of all may leave then
	}()
}
