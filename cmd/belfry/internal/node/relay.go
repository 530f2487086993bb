package node

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-scheduler/belfry/cluster"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// relay passes what happens on this node on to the nodes that serve the API, so
// that whoever watches one of them sees all. It is lossy: a watcher that must
// miss nothing reads the history.
type relay struct {
	events chan *belfryv1.Event
	lost   prometheus.Counter
}

const (
	relayQueue = 64 << 10 // events that may wait
	relayBatch = 256
	relayPause = 20 * time.Millisecond // in which events gather
)

func newRelay(reg prometheus.Registerer) *relay {
	r := &relay{
		events: make(chan *belfryv1.Event, relayQueue),
		lost:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: "belfry", Name: "events_lost_total", Help: "Events that were not passed on to other nodes, because too many waited."}),
	}
	reg.MustRegister(r.lost)
	return r
}

func (r *relay) put(e *belfryv1.Event) {
	select {
	case r.events <- e:
	default:
		r.lost.Inc()
	}
}

// run sends until done is closed.
func (r *relay) run(root *actor.RootContext, peers func() []cluster.Peer, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case first := <-r.events:
			r.send(root, peers(), r.gather(first, done))
		}
	}
}

// gather takes what follows an event closely.
func (r *relay) gather(first *belfryv1.Event, done <-chan struct{}) *belfryv1.Events {
	out := &belfryv1.Events{Events: []*belfryv1.Event{first}}
	pause := time.NewTimer(relayPause)
	defer pause.Stop()
	for len(out.Events) < relayBatch {
		select {
		case e := <-r.events:
			out.Events = append(out.Events, e)
		case <-pause.C:
			return out
		case <-done:
			return out
		}
	}
	return out
}

func (r *relay) send(root *actor.RootContext, peers []cluster.Peer, events *belfryv1.Events) {
	for _, p := range peers {
		if p.Roles.Has(cluster.Gateway) {
			root.Send(actor.NewPID(p.Address, cluster.NodeActor), events)
		}
	}
}
