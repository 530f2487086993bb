package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// A process has one Wire at most (the library races with itself otherwise), so
// each node of a test is this test binary again. It is told what to do on its
// standard input, a line of JSON each, answers on its standard output, and ends
// when its input does: with its test, however that ends.

const nodeVariable = "BELFRY_WIRE_TEST_NODE"

func TestMain(m *testing.M) {
	if cfg := os.Getenv(nodeVariable); cfg != "" {
		runNode(cfg)
		return
	}
	goleak.VerifyTestMain(m)
}

// nodeConfig is Config, as a node is given it.
type nodeConfig struct {
	Listen, Advertise, Cluster string
	TLS                        TLS
	Insecure                   bool
	OffSending, OffReceiving   bool
	Queue                      int
}

// order is what a node is told to do.
type order struct {
	Op      string
	Address string // and ID: the target
	ID      string
	N       int // messages
	Callers int // at a time
	Size    int // bytes of payload
	Timeout time.Duration
}

// report is its answer.
type report struct {
	Error              string
	Address            string
	OK, Dead, TimedOut int           // requests
	Slowest            time.Duration // of them
	Got, Disordered    int64         // messages that its actor received
	Published          int64         // Events on its event stream
	DeadLetters        int64         // without a sender
	Goroutines         int
	Metrics            map[string]float64 // name{label}
}

// echo answers each Perform, and counts. Told messages are numbered by their
// Attempt.
type echo struct{ got, disordered, last atomic.Int64 }

func (e *echo) Receive(ctx actor.Context) {
	m, ok := ctx.Message().(*belfryv1.Perform)
	if !ok {
		return
	}
	e.got.Add(1)
	if ctx.Sender() != nil {
		ctx.Respond(&belfryv1.Performed{Succeeded: true})
		return
	}
	if int64(m.Attempt) <= e.last.Swap(int64(m.Attempt)) {
		e.disordered.Add(1)
	}
}

// bomb is a process that panics in whoever sends to it, as the library's do for
// a moment while an actor is being spawned.
type bomb struct{ actor.Process }

func (bomb) SendUserMessage(*actor.PID, any) { panic("bomb") }

// node is one process.
type node struct {
	system    *actor.ActorSystem
	wire      *Wire
	registry  *prometheus.Registry
	echo      echo
	published atomic.Int64
	dead      atomic.Int64
}

func runNode(text string) {
	out := json.NewEncoder(os.Stdout)
	n, err := startNode(text)
	if err != nil {
		_ = out.Encode(report{Error: err.Error()})
		return
	}
	_ = out.Encode(report{Address: n.wire.Address()})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			panic(err)
		}
		_ = out.Encode(n.obey(o))
	}
}

func startNode(text string) (*node, error) {
	var c nodeConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	n := &node{registry: prometheus.NewRegistry()}
	n.system = quietSystem()
	cfg := Config{Listen: c.Listen, Advertise: c.Advertise, Cluster: c.Cluster, TLS: c.TLS, Insecure: c.Insecure, Log: log, Registerer: n.registry}
	cfg.off.sending, cfg.off.receiving = c.OffSending, c.OffReceiving
	cfg.queue = c.Queue
	n.system.EventStream.Subscribe(func(e any) {
		switch e := e.(type) {
		case *belfryv1.Events:
			n.published.Add(1)
		case *actor.DeadLetterEvent:
			if e.Sender == nil {
				n.dead.Add(1)
			}
		}
	})
	var err error
	if n.wire, err = Start(n.system, cfg); err != nil {
		return nil, err
	}
	n.system.ProcessRegistry.Add(bomb{}, "bomb")
	_, err = n.system.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return &n.echo }), "echo")
	return n, err
}

func (n *node) obey(o order) report {
	switch o.Op {
	case "request":
		return n.request(o)
	case "tell":
		for i := range o.N {
			n.system.Root.Send(actor.NewPID(o.Address, o.ID), message(i+1, o.Size))
		}
	case "go": // a message that is no protobuf
		f := n.system.Root.RequestFuture(actor.NewPID(o.Address, o.ID), struct{}{}, o.Timeout)
		_, err := f.Result()
		return count(nil, err)
	case "kill": // by the library's own means
		pid := actor.NewPID(o.Address, o.ID)
		n.system.Root.Poison(pid)
		n.system.Root.Stop(pid)
	case "watch":
		return n.watch(o)
	case "terminated": // word of the end of a connection, as an old one leaves it
		n.system.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: o.Address})
	case "stop":
		n.wire.Stop(o.Timeout)
	}
	return n.stats()
}

// watch watches an actor until it hears of its end.
func (n *node) watch(o order) report {
	ended := make(chan struct{})
	props := actor.PropsFromFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ctx.Watch(actor.NewPID(o.Address, o.ID))
		case *actor.Terminated:
			close(ended)
		}
	})
	n.system.Root.Spawn(props)
	select {
	case <-ended:
		return report{Dead: 1}
	case <-time.After(o.Timeout):
		return report{TimedOut: 1}
	}
}

func message(number, size int) *belfryv1.Perform {
	return &belfryv1.Perform{ExecutionId: "backup~1~20260101T000000.000Z", JobId: "backup", Attempt: int32(number), Payload: make([]byte, size)}
}

// request sends N requests, from Callers goroutines, and waits for all answers.
func (n *node) request(o order) report {
	var (
		mu  sync.Mutex
		sum report
		wg  sync.WaitGroup
	)
	callers := max(o.Callers, 1)
	for range callers {
		wg.Go(func() {
			for range o.N / callers {
				began := time.Now()
				_, err := n.system.Root.RequestFuture(actor.NewPID(o.Address, o.ID), message(1, o.Size), o.Timeout).Result()
				mu.Lock()
				r := count(&sum, err)
				r.Slowest = max(sum.Slowest, time.Since(began))
				sum = r
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return sum
}

func count(sum *report, err error) report {
	var r report
	if sum != nil {
		r = *sum
	}
	switch {
	case err == nil:
		r.OK++
	case errors.Is(err, actor.ErrDeadLetter):
		r.Dead++
	case errors.Is(err, actor.ErrTimeout):
		r.TimedOut++
	default:
		r.Error = err.Error()
	}
	return r
}

func (n *node) stats() report {
	r := report{
		Got: n.echo.got.Load(), Disordered: n.echo.disordered.Load(), Published: n.published.Load(), DeadLetters: n.dead.Load(),
		Goroutines: runtime.NumGoroutine(), Metrics: map[string]float64{},
	}
	families, err := n.registry.Gather()
	if err != nil {
		r.Error = err.Error()
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "belfry_remote_")
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf("{%s}", l.GetValue())
			}
			r.Metrics[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return r
}
