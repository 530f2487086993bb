package execution

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/actors"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

func factory(reg prometheus.Registerer) *actors.Factory {
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return silent }),
		actor.WithDeadLetterThrottleInterval(time.Nanosecond),
	)
	return actors.NewFactory(system, silent, actors.NewMetrics(reg))
}

// bubble runs a test on a clock of its own, and then lets the timers that
// protoactor set for its log run out.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t)
		time.Sleep(time.Second) // of the bubble's clock
	})
}

// delivererFunc is a Deliverer made of a function.
type delivererFunc func(ctx context.Context, d *belfryv1.Delivery, epoch int64, may func() bool) *belfryv1.Result

func (f delivererFunc) Deliver(ctx context.Context, d *belfryv1.Delivery, epoch int64, may func() bool) *belfryv1.Result {
	return f(ctx, d, epoch, may)
}

func success(context.Context, *belfryv1.Delivery, int64, func() bool) *belfryv1.Result {
	return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}
}

// target is a client that may call loopback.
func target(t testing.TB, change ...func(*TargetConfig)) *Target {
	t.Helper()
	cfg := TargetConfig{Guard: NewGuard(job.DevPolicy(), nil), Slots: 64, Source: "/test"}
	for _, f := range change {
		f(&cfg)
	}
	client := NewTarget(cfg)
	t.Cleanup(client.Close)
	return client
}

// delivery is attempt 1 of an execution against a URL.
func delivery(url string, change ...func(*belfryv1.Delivery, *belfryv1.HTTPTarget)) *belfryv1.Delivery {
	h := &belfryv1.HTTPTarget{Method: "POST", Url: url, Body: []byte(`{"a":1}`)}
	d := &belfryv1.Delivery{
		ExecutionId: "job~1~20260101T000000.000Z", JobId: "job", Key: "job~1~20260101T000000.000Z",
		ScheduledFor: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), Attempt: 1, TimeoutMs: 10_000,
		Target: &belfryv1.Target{Kind: &belfryv1.Target_Http{Http: h}},
	}
	for _, f := range change {
		f(d, h)
	}
	return d
}

func numbered(partition int32, n int) *belfryv1.Delivery {
	return &belfryv1.Delivery{ExecutionId: fmt.Sprintf("p%d-%d", partition, n), JobId: "job", Attempt: 1, TimeoutMs: 1000}
}

func allow(prefixes ...string) job.AddressPolicy {
	var p job.AddressPolicy
	for _, s := range prefixes {
		p.Allow = append(p.Allow, netip.MustParsePrefix(s))
	}
	return p
}
