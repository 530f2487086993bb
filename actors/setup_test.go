package actors

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup makes a node's actor system and factory, silent.
func setup(t testing.TB) *Factory {
	t.Helper()
	silent := slog.New(slog.NewTextHandler(io.Discard, nil))
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return silent }),
		actor.WithDeadLetterThrottleInterval(time.Nanosecond),
	)
	return NewFactory(system, silent, NewMetrics(prometheus.NewRegistry()))
}

// kind is one with a small mailbox, whose panics stop it.
var kind = Kind{Name: "test", Mailbox: 4}

func spawn(t testing.TB, f *Factory, props *actor.Props) *actor.PID {
	t.Helper()
	pid, err := f.System().Root.SpawnNamed(props, t.Name())
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func stop(t testing.TB, f *Factory, pid *actor.PID) {
	t.Helper()
	if err := f.System().Root.StopFuture(pid).Wait(); err != nil {
		t.Errorf("stop %v: %v", pid, err)
	}
}

// received hands what an actor receives to the test, lifecycle messages
// included.
type received chan any

func (r received) Receive(ctx actor.Context) { r <- ctx.Message() }

func expect[T any](t *testing.T, r received) T {
	t.Helper()
	msg := <-r
	v, ok := msg.(T)
	if !ok {
		t.Fatalf("received %T, want %T", msg, v)
	}
	return v
}

func count(c *prometheus.CounterVec) float64 { return testutil.ToFloat64(c) }

// receive is an actor made of a function.
type receive func(actor.Context)

func (f receive) Receive(ctx actor.Context) { f(ctx) }

func produce(f func(actor.Context)) func() actor.Actor {
	return func() actor.Actor { return receive(f) }
}
