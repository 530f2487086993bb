package execution

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-scheduler/belfry/actors"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// world is a worker, the owners of some partitions, and a wire between them
// that may lose messages. What owners decide is kept here, as in a store: only
// the newest owner of a partition can change it.
type world struct {
	t      testing.TB
	f      *actors.Factory
	worker *actor.PID

	registry *prometheus.Registry // of the actors
	metrics  *Metrics             // of the worker

	owners []*actor.PID                // all that there ever were; the first ones by partition
	table  []atomic.Pointer[actor.PID] // what the worker's routing table says
	loss   float64                     // share of messages that the wire loses, both ways
	resend time.Duration

	mu      sync.Mutex
	random  *rand.Rand
	fence   []int64     // the epoch of each partition
	asked   []work      // all that each partition ever had to send
	ends    map[ref]int // how often each delivery was decided
	reports int         // results that owners received, repeats included
	offers  int
	total   int
	all     chan struct{} // closed when every delivery has ended
}

const firstEpoch = 3

func newWorld(t testing.TB, partitions, total int, cfg Config) *world {
	t.Helper()
	registry := prometheus.NewRegistry()
	w := &world{
		t: t, f: factory(registry), registry: registry, metrics: NewMetrics(nil), ends: map[ref]int{}, total: total, all: make(chan struct{}), random: rand.New(rand.NewPCG(1, 2)), resend: 5 * time.Second,
		table: make([]atomic.Pointer[actor.PID], max(partitions, 1)), fence: make([]int64, partitions), asked: make([]work, partitions),
	}
	cfg.Node, cfg.Log, cfg.Metrics = "test", silent, w.metrics
	cfg.Owner = func(p int32) *actor.PID {
		if p < 0 || int(p) >= len(w.table) {
			return nil
		}
		return w.table[p].Load()
	}
	props, err := NewWorker(w.f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(partitions) {
		w.fence[p] = firstEpoch
		w.table[p].Store(w.own(p, firstEpoch))
	}
	w.worker = w.f.System().Root.Spawn(props)
	return w
}

// own makes an owner of a partition under an epoch.
func (w *world) own(p int32, epoch int64) *actor.PID {
	return w.spawn(p, epoch, &owner{world: w, partition: p, epoch: epoch})
}

// spawn makes an actor with the name of an owner.
func (w *world) spawn(p int32, epoch int64, a actor.Actor) *actor.PID {
	w.t.Helper()
	pid, err := w.f.System().Root.SpawnNamed(w.f.Props(actors.Partition, func() actor.Actor { return a }), fmt.Sprintf("p%d-e%d", p, epoch))
	if err != nil {
		w.t.Fatal(err)
	}
	w.owners = append(w.owners, pid)
	return pid
}

// takeover makes a new owner of a partition. The one before does not know.
func (w *world) takeover(p int32) *actor.PID {
	w.mu.Lock()
	w.fence[p]++
	epoch := w.fence[p]
	w.mu.Unlock()
	return w.own(p, epoch)
}

// give hands work to the first owner of a partition.
func (w *world) give(p int32, ds work) {
	w.mu.Lock()
	w.asked[p] = ds
	w.mu.Unlock()
	w.f.System().Root.Send(w.owners[p], ds)
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

// decide stores a result; false when the partition has another owner.
func (w *world) decide(o *owner, r *belfryv1.Result) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fence[o.partition] != o.epoch {
		return false
	}
	w.reports++
	key := ref{r.GetExecutionId(), r.GetAttempt()}
	if o.done[key] {
		return true
	}
	o.done[key] = true
	if w.ends[key]++; w.ends[key] == 1 && len(w.ends) == w.total {
		close(w.all)
	}
	return true
}

// undecided is what a new owner loads.
func (w *world) undecided(o *owner) (open work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.asked[o.partition] {
		key := ref{d.GetExecutionId(), d.GetAttempt()}
		if o.done[key] = w.ends[key] > 0; !o.done[key] {
			open = append(open, d)
		}
	}
	return open
}

// owner does what a partition's owner does: it keeps what waits, sends it,
// takes back what found no slot, uses offers, and acknowledges results. After a
// takeover it asks first what the worker holds, and sends the rest.
type owner struct {
	world     *world
	partition int32
	epoch     int64
	ready     []*belfryv1.Delivery
	sent      map[ref]*sentDelivery
	done      map[ref]bool
	blocked   bool
	asking    bool // the worker has not said what it holds
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
		o.start(ctx)
		return
	case *belfryv1.Results, *belfryv1.Busy, *belfryv1.Offer, *belfryv1.Holds:
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
	case *belfryv1.Holds:
		o.adopt(ctx, m)
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
		o.again(ctx)
	}
}

func (o *owner) start(ctx actor.Context) {
	o.sent, o.done = map[ref]*sentDelivery{}, map[ref]bool{}
	if o.asking = o.epoch > firstEpoch; o.asking {
		o.ready = o.world.undecided(o)
		o.inquire(ctx)
	}
}

func (o *owner) inquire(ctx actor.Context) {
	if !o.world.lost() {
		ctx.Request(o.world.worker, &belfryv1.Inquire{Partition: o.partition, Epoch: o.epoch})
	}
}

func (o *owner) adopt(ctx actor.Context, m *belfryv1.Holds) {
	if !o.asking {
		return
	}
	o.asking = false
	held := map[ref]bool{}
	for _, r := range m.GetDeliveries() {
		held[ref{r.GetExecutionId(), r.GetAttempt()}] = true
	}
	o.ready = slices.DeleteFunc(o.ready, func(d *belfryv1.Delivery) bool {
		key := ref{d.GetExecutionId(), d.GetAttempt()}
		if held[key] {
			o.sent[key] = &sentDelivery{d, time.Now()}
		}
		return held[key] || o.done[key]
	})
	o.dispatch(ctx)
}

// again asks, or sends, once more what was not answered in time.
func (o *owner) again(ctx actor.Context) {
	if o.asking {
		o.inquire(ctx)
		return
	}
	for key, s := range o.sent {
		if time.Since(s.at) >= o.world.resend {
			delete(o.sent, key)
			o.ready = append(o.ready, s.d)
		}
	}
	o.blocked = false
	o.dispatch(ctx)
}

func (o *owner) dispatch(ctx actor.Context) {
	for !o.blocked && !o.asking && len(o.ready) > 0 {
		o.send(ctx, 0, 256)
	}
}

func (o *owner) send(ctx actor.Context, offer int64, most int) int {
	n := min(most, len(o.ready))
	if o.asking {
		n = 0
	}
	d := &belfryv1.Dispatch{Partition: o.partition, Epoch: o.epoch, Offer: offer, Deliveries: o.ready[:n:n]}
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
		if !o.world.decide(o, r) {
			return // fenced: it can say nothing about them
		}
		key := ref{r.GetExecutionId(), r.GetAttempt()}
		delete(o.sent, key)
		acks.Deliveries = append(acks.Deliveries, key.message())
	}
	if !o.world.lost() {
		ctx.Send(ctx.Sender(), acks)
	}
}
