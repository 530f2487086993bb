package execution

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// toActor is a delivery to an actor.
func toActor() *belfryv1.Delivery {
	d := delivery("")
	d.Target = &belfryv1.Target{Kind: &belfryv1.Target_Actor{Actor: &belfryv1.ActorTarget{Kind: "cart", Identity: "17", Payload: []byte("{}")}}}
	return d
}

func TestWhatAnActorReceives(t *testing.T) {
	var got *belfryv1.Perform
	ask := performer(func(_ context.Context, p *belfryv1.Perform) (*belfryv1.Performed, error) {
		got = p
		return &belfryv1.Performed{Succeeded: true}, nil
	})
	d := toActor()
	d.Key, d.Attempt = "original-key", 2
	if r := ask.Deliver(t.Context(), d, 7, unbroken); r.GetOutcome() != succeededOutcome || r.GetSentAt() == 0 || r.GetFinishedAt() < r.GetSentAt() {
		t.Errorf("result %v", r)
	}
	want := &belfryv1.Perform{
		ExecutionId: d.ExecutionId, JobId: "job", Key: "original-key", ScheduledFor: d.ScheduledFor, Attempt: 2, Epoch: 7, TimeoutMs: 10_000,
		Kind: "cart", Identity: "17", Payload: []byte("{}"),
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestWhatAnActorsAnswerMeans(t *testing.T) {
	notSent := fmt.Errorf("no member hosts the kind cart: %w", job.ErrNotSent)
	for name, c := range map[string]struct {
		answer *belfryv1.Performed
		err    error
		want   *belfryv1.Result // but for its times
		sent   bool
	}{
		"succeeded":         {&belfryv1.Performed{Succeeded: true, Error: "ignored", Final: true}, nil, &belfryv1.Result{Outcome: succeededOutcome}, true},
		"failed":            {&belfryv1.Performed{Error: "out of stock"}, nil, &belfryv1.Result{Outcome: failedOutcome, Error: "out of stock"}, true},
		"failed for good":   {&belfryv1.Performed{Error: "no such cart", Final: true}, nil, &belfryv1.Result{Outcome: failedOutcome, Error: "no such cart", Final: true}, true},
		"failed silently":   {&belfryv1.Performed{}, nil, &belfryv1.Result{Outcome: failedOutcome, Error: "the actor answered that it failed"}, true},
		"later":             {&belfryv1.Performed{Error: "busy", RetryAfterMs: 1500}, nil, &belfryv1.Result{Outcome: failedOutcome, Error: "busy", RetryAfterMs: 1500}, true},
		"much later":        {&belfryv1.Performed{Error: "busy", RetryAfterMs: math.MaxInt64}, nil, &belfryv1.Result{Outcome: failedOutcome, Error: "busy", RetryAfterMs: longestRetryAfter.Milliseconds()}, true},
		"yesterday":         {&belfryv1.Performed{Error: "busy", RetryAfterMs: math.MinInt64}, nil, &belfryv1.Result{Outcome: failedOutcome, Error: "busy"}, true},
		"nobody to ask":     {nil, notSent, &belfryv1.Result{Outcome: failedOutcome, Error: "no member hosts the kind cart: nothing was sent", Unavailable: true}, false},
		"lost":              {nil, errors.New("the connection broke"), &belfryv1.Result{Outcome: unknownOutcome, Error: "the actor was asked, and the answer was lost: the connection broke", Unavailable: true}, true},
		"no answer, no why": {nil, nil, &belfryv1.Result{Outcome: unknownOutcome, Error: "the actor was asked, and the answer was lost: there is none", Unavailable: true}, true},
	} {
		ask := performer(func(context.Context, *belfryv1.Perform) (*belfryv1.Performed, error) { return c.answer, c.err })
		r := ask.Deliver(t.Context(), toActor(), 7, unbroken)
		if (r.GetSentAt() != 0) != c.sent || r.GetFinishedAt() == 0 {
			t.Errorf("%s: sent at %d, finished at %d", name, r.GetSentAt(), r.GetFinishedAt())
		}
		r.SentAt, r.FinishedAt = 0, 0
		if !proto.Equal(r, c.want) {
			t.Errorf("%s: %v", name, r)
		}
	}
	long := performer(func(context.Context, *belfryv1.Perform) (*belfryv1.Performed, error) {
		return &belfryv1.Performed{Error: "\xff" + strings.Repeat("ä", 9999)}, nil
	})
	if text := long.Deliver(t.Context(), toActor(), 7, unbroken).GetError(); len(text) > maxError || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %.20q", len(text), text)
	}
}

// silence is an actor that never answers; err is what asking it comes to.
func silence(err error) performer {
	return func(ctx context.Context, _ *belfryv1.Perform) (*belfryv1.Performed, error) {
		<-ctx.Done()
		return nil, errors.Join(ctx.Err(), err)
	}
}

func TestAnActorHasTheTimeOfTheAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		sent bool
	}{"asked": {nil, true}, "still looking for it": {job.ErrNotSent, false}} {
		bubble(t, func(t *testing.T) {
			start := time.Now()
			r := silence(c.err).Deliver(t.Context(), toActor(), 7, unbroken)
			if r.GetOutcome() != timeoutOutcome || r.GetError() != "no answer within 10s" || time.Since(start) != 10*time.Second || (r.GetSentAt() != 0) != c.sent {
				t.Errorf("%s: after %v: %v", name, time.Since(start), r)
			}
		})
	}
}

func TestACutPerform(t *testing.T) {
	cut := func() context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errCut)
		return ctx
	}
	during := func(err error) *belfryv1.Result {
		ctx, cancel := context.WithCancelCause(t.Context())
		return performer(func(call context.Context, p *belfryv1.Perform) (*belfryv1.Performed, error) {
			cancel(errCut)
			return silence(err)(call, p)
		}).Deliver(ctx, toActor(), 7, unbroken)
	}
	if r := silence(nil).Deliver(cut(), toActor(), 7, unbroken); r != nil {
		t.Errorf("before: %v", r)
	}
	if r := during(job.ErrNotSent); r != nil {
		t.Errorf("before the actor was found: %v", r)
	}
	if r := during(nil); r.GetOutcome() != unknownOutcome || r.GetSentAt() == 0 || !strings.Contains(r.GetError(), "the node shuts down") {
		t.Errorf("after: %v", r)
	}
}

// The fence is asked before the Perform; what looks for the actor may find it
// fallen later, and says that nothing was sent.
func TestAFencedNodeAsksNoActor(t *testing.T) {
	asked := 0
	ask := performer(func(context.Context, *belfryv1.Perform) (*belfryv1.Performed, error) {
		asked++
		return nil, job.ErrNotSent
	})
	if r := ask.Deliver(t.Context(), toActor(), 7, func() bool { return false }); r != nil || asked != 0 {
		t.Errorf("result %v, asked %d times", r, asked)
	}
	alive := true
	if r := ask.Deliver(t.Context(), toActor(), 7, func() bool { was := alive; alive = false; return was }); r != nil || asked != 1 {
		t.Errorf("result %v, asked %d times", r, asked)
	}
}

func TestEachKindOfTargetHasItsWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := config(4, delivererFunc(success))
		cfg.Perform = func(context.Context, *belfryv1.Perform) (*belfryv1.Performed, error) {
			return &belfryv1.Performed{Error: "by the actor"}, nil
		}
		w, got := stage(t, cfg)
		w.dispatch(0, toActor())
		if r := next[*belfryv1.Results](t, got).GetResults()[0]; r.GetOutcome() != failedOutcome || r.GetError() != "by the actor" || r.GetEpoch() != 9 {
			t.Errorf("result %v", r)
		}
		w.close()
	})
}

func TestANodeAloneHasNoActors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(4, delivererFunc(success)))
		w.dispatch(0, toActor())
		if r := next[*belfryv1.Results](t, got).GetResults()[0]; r.GetOutcome() != failedOutcome || !r.GetFinal() || !strings.Contains(r.GetError(), "actor targets need one") {
			t.Errorf("result %v", r)
		}
		w.close()
	})
}
