package partition

import (
	"maps"
	"slices"
	"time"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// simHosts are those that jobs of the simulations call; the last has a limit
// that all workers share.
var simHosts = []string{"a.example", "b.example", "shared.example"}

func hostLimits() job.HostLimits {
	return job.HostLimits{Hosts: map[string]job.HostLimit{"shared.example": {Concurrency: 2}}}
}

// holdUps are the hosts that a worker of a fleet has refused something for.
type holdUps struct {
	waits  map[string]bool
	offers map[string]int64 // open ones
}

// refuse groups what a worker does not take because of its host.
func (w *fleetWorker) refuse(x *belfryv1.Delivery, busy map[string][]*belfryv1.DeliveryRef) bool {
	host := messages.Host(x.GetTarget())
	if _, shut := w.shut[host]; !shut {
		return false
	}
	busy[host] = append(busy[host], &belfryv1.DeliveryRef{ExecutionId: x.GetExecutionId(), Attempt: x.GetAttempt()})
	if w.hosts.waits == nil {
		w.hosts.waits = map[string]bool{}
	}
	w.hosts.waits[host] = true
	return true
}

// giveBack tells an owner what it refused, a message a host.
func (w *fleetWorker) giveBack(to *fleetNode, number int64, busy map[string][]*belfryv1.DeliveryRef) {
	for _, host := range slices.Sorted(maps.Keys(busy)) {
		w.tell(to, Busied{
			From: w.id, Number: number, Deliveries: busy[host], Host: host, Reason: w.shut[host],
			Since: w.f.now.UnixMilli(), RetryIn: int64(w.f.r.IntN(2)) * 5000,
		})
	}
}

// offerHosts offers for hosts that are not shut any more, again and again.
func (w *fleetWorker) offerHosts() {
	for _, host := range slices.Sorted(maps.Keys(w.hosts.waits)) {
		if _, shut := w.shut[host]; shut || w.draining || w.free() <= 0 {
			continue
		}
		w.offers++
		if w.hosts.offers == nil {
			w.hosts.offers = map[string]int64{}
		}
		w.hosts.offers[host] = w.offers
		w.tell(w.owner, Offered{From: w.id, ID: w.offers, Slots: 1 + w.f.r.IntN(w.free()), Host: host})
	}
}

// redeemed notes that an owner has answered an offer for a host. Whoever used it
// up may have more.
func (w *fleetWorker) redeemed(d *belfryv1.Dispatch) {
	for host, id := range w.hosts.offers {
		if id == d.GetOffer() {
			delete(w.hosts.offers, host)
			if len(d.GetDeliveries()) == 0 {
				delete(w.hosts.waits, host)
			}
		}
	}
}

// shutRandom has a worker take nothing for a host for a while.
func (s *fleetSim) shutRandom() {
	w, host := s.node().worker, simHosts[s.r.IntN(len(simHosts))]
	if w.shut == nil {
		w.shut = map[string]belfryv1.Busy_Reason{}
	}
	w.shut[host] = belfryv1.Busy_Reason(1 + s.r.IntN(4))
	s.say("%s takes nothing for %s: %s", w.id, host, w.shut[host])
	s.after(time.Duration(s.r.IntN(30_000))*time.Millisecond, func() {
		s.say("%s takes what is for %s", w.id, host)
		delete(w.shut, host)
	})
}

// throttled gives a job a host, and limits of all kinds.
func throttled(r interface{ IntN(int) int }) func(*job.Spec) {
	return func(j *job.Spec) {
		j.Target.HTTP.URL = "https://" + simHosts[r.IntN(len(simHosts))] + "/hook"
		if r.IntN(3) == 0 {
			j.RateLimit = job.RateLimit{PerSecond: float64(1 + r.IntN(4)), Burst: 1 + r.IntN(3)}
		}
		if r.IntN(3) == 0 {
			j.OnOpenCircuit = job.OpenCircuitFail
		}
		if r.IntN(4) == 0 {
			j.Retry.MaxElapsed = time.Duration(1+r.IntN(60)) * time.Second
		}
	}
}
