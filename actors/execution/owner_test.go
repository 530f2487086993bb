package execution

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/actors"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// world is a worker, the owners of some partitions, and a wire between them
// that may lose messages.
type world struct {
	t       testing.TB
	f       *actors.Factory
	worker  *actor.PID
	owners  []*actor.PID
	missing atomic.Bool // nobody owns anything while it is set
	loss    float64     // share of messages that the wire loses, both ways
	resend  time.Duration

	mu      sync.Mutex
	random  *rand.Rand
	ends    map[ref]int // how often each delivery was reported for the first time
	reports int         // results that owners received, repeats included
	offers  int
	total   int
	all     chan struct{} // closed when every delivery has ended
}

func newWorld(t testing.TB, partitions, total int, cfg Config) *world {
	t.Helper()
	w := &world{t: t, f: factory(), ends: map[ref]int{}, total: total, all: make(chan struct{}), random: rand.New(rand.NewPCG(1, 2)), resend: 5 * time.Second}
	cfg.Node, cfg.Log, cfg.Metrics = "test", silent, NewMetrics(nil)
	cfg.Owner = func(p int32) *actor.PID {
		if w.missing.Load() {
			return nil
		}
		return w.owners[p]
	}
	props, err := NewWorker(w.f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for p := range partitions {
		w.owners = append(w.owners, w.f.System().Root.Spawn(w.f.Props(actors.Partition, func() actor.Actor { return &owner{world: w, partition: int32(p)} })))
	}
	w.worker = w.f.System().Root.Spawn(props)
	return w
}

// close stops everything and fails the test if it cannot be stopped.
func (w *world) close() {
	w.stop(w.worker)
	w.stop(w.owners...)
}

func (w *world) stop(pids ...*actor.PID) {
	for _, pid := range pids {
		if err := w.f.System().Root.StopFuture(pid).Wait(); err != nil {
			w.t.Errorf("stop %v: %v", pid, err)
		}
	}
}

// lost decides about one message.
func (w *world) lost() bool {
	if w.loss == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.Float64() < w.loss
}

func (w *world) ended(r *belfryv1.Result, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports++
	if !first {
		return
	}
	w.ends[ref{r.GetExecutionId(), r.GetAttempt()}]++
	if len(w.ends) == w.total {
		close(w.all)
	}
}

// owner does what a partition's owner does: it keeps what waits, sends it,
// takes back what found no slot, uses offers, and acknowledges results.
type owner struct {
	world     *world
	partition int32
	ready     []*belfryv1.Delivery
	sent      map[ref]*sentDelivery
	done      map[ref]bool
	blocked   bool
}

type sentDelivery struct {
	d  *belfryv1.Delivery
	at time.Time
}

type (
	work  []*belfryv1.Delivery // what an owner has to send
	again struct{}             // look for what was not answered
)

func (o *owner) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		o.sent, o.done = map[ref]*sentDelivery{}, map[ref]bool{}
		return
	case *belfryv1.Results, *belfryv1.Busy, *belfryv1.Offer:
		if o.world.lost() {
			return
		}
	}
	switch m := ctx.Message().(type) {
	case work:
		o.ready = append(o.ready, m...)
		o.dispatch(ctx)
	case *belfryv1.Results:
		o.results(ctx, m)
	case *belfryv1.Busy:
		for _, r := range m.GetDeliveries() {
			key := ref{r.GetExecutionId(), r.GetAttempt()}
			if s := o.sent[key]; s != nil {
				delete(o.sent, key)
				o.ready = append(o.ready, s.d)
			}
		}
		o.blocked = true
	case *belfryv1.Offer:
		o.world.mu.Lock()
		o.world.offers++
		o.world.mu.Unlock()
		n := o.send(ctx, m.GetId(), int(m.GetSlots()))
		o.blocked = n == int(m.GetSlots())
	case again:
		for key, s := range o.sent {
			if time.Since(s.at) >= o.world.resend {
				delete(o.sent, key)
				o.ready = append(o.ready, s.d)
			}
		}
		o.blocked = false
		o.dispatch(ctx)
	}
}

func (o *owner) dispatch(ctx actor.Context) {
	for !o.blocked && len(o.ready) > 0 {
		o.send(ctx, 0, 256)
	}
}

func (o *owner) send(ctx actor.Context, offer int64, most int) int {
	n := min(most, len(o.ready))
	d := &belfryv1.Dispatch{Partition: o.partition, Epoch: 3, Offer: offer, Deliveries: o.ready[:n:n]}
	o.ready = o.ready[n:]
	for _, x := range d.Deliveries {
		o.sent[ref{x.GetExecutionId(), x.GetAttempt()}] = &sentDelivery{x, time.Now()}
	}
	if !o.world.lost() {
		ctx.Request(o.world.worker, d)
	}
	return n
}

func (o *owner) results(ctx actor.Context, m *belfryv1.Results) {
	acks := &belfryv1.Acks{}
	for _, r := range m.GetResults() {
		key := ref{r.GetExecutionId(), r.GetAttempt()}
		o.world.ended(r, !o.done[key])
		o.done[key] = true
		delete(o.sent, key)
		acks.Deliveries = append(acks.Deliveries, &belfryv1.DeliveryRef{ExecutionId: key.execution, Attempt: key.attempt})
	}
	if !o.world.lost() {
		ctx.Send(ctx.Sender(), acks)
	}
}
