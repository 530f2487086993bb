package execution

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// Metrics is what a worker counts.
type Metrics struct {
	attempts map[job.Outcome]prometheus.Counter
	duration prometheus.Histogram
	slots    *prometheus.GaugeVec
	running  prometheus.Gauge
	unacked  prometheus.Gauge
	promised prometheus.Gauge
	busy     map[verdict]prometheus.Counter
	holds    map[reason]prometheus.Counter
	breakers map[gobreaker.State]prometheus.Counter
	resent   prometheus.Counter
	dropped  prometheus.Counter
}

// NewMetrics makes the metrics and registers them; with a nil registerer they
// count for nobody.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "belfry", Name: "attempts_total", Help: "Deliveries that ended, by outcome.",
	}, []string{"outcome"})
	m := &Metrics{
		attempts: map[job.Outcome]prometheus.Counter{},
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "belfry", Name: "attempt_duration_seconds", Help: "Time from begin to end of a delivery.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 18),
		}),
		slots: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "belfry", Name: "worker_slots", Help: "Slots in use: running, ended and unacknowledged, promised to an owner.",
		}, []string{"state"}),
		busy: map[verdict]prometheus.Counter{}, holds: map[reason]prometheus.Counter{}, breakers: map[gobreaker.State]prometheus.Counter{},
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "belfry", Name: "worker_dropped_messages_total", Help: "Messages, or deliveries in them, that no owner sends.",
		}),
		resent: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "belfry", Name: "worker_results_resent_total", Help: "Results reported again because no acknowledgement came.",
		}),
	}
	busy := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "belfry", Name: "worker_busy_total", Help: "Deliveries given back to their owner, not begun or not sent, by reason.",
	}, []string{"reason"})
	for _, v := range []verdict{welcome, late, fenced, draining, outdated} {
		m.busy[v] = busy.WithLabelValues(string(v))
	}
	for why, name := range map[reason]string{concurrency: "host_limit", rate: "rate_limit", circuitOpen: "circuit_open", recovering: "circuit_recovering"} {
		m.holds[why] = busy.WithLabelValues(name)
	}
	breakers := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "belfry", Name: "breaker_transitions_total", Help: "Circuits of hosts that changed, by the state that they are in since.",
	}, []string{"state"})
	for state, name := range circuitStates {
		m.breakers[state] = breakers.WithLabelValues(name)
	}
	for _, o := range []job.Outcome{job.AttemptSucceeded, job.AttemptFailed, job.AttemptTimeout, job.AttemptUnknown} {
		m.attempts[o] = attempts.WithLabelValues(string(o))
	}
	m.running, m.unacked, m.promised = m.slots.WithLabelValues("running"), m.slots.WithLabelValues("unacknowledged"), m.slots.WithLabelValues("promised")
	if reg != nil {
		reg.MustRegister(attempts, m.duration, m.slots, busy, breakers, m.resent, m.dropped)
	}
	return m
}

func (m *Metrics) ended(r *belfryv1.Result, took time.Duration) {
	m.attempts[messages.Outcome(r.GetOutcome())].Inc()
	m.duration.Observe(took.Seconds())
}

// gaveBack counts what was given back after a verdict; of what was welcome, that
// is what found no slot.
func (m *Metrics) gaveBack(v verdict, n int) { m.busy[v].Add(float64(n)) }

// heldUp counts what was given back because of its host.
func (m *Metrics) heldUp(why reason, n int) { m.holds[why].Add(float64(n)) }

func (m *Metrics) show(l *ledger) {
	m.running.Set(float64(l.running))
	m.unacked.Set(float64(len(l.held) - l.running))
	m.promised.Set(float64(l.pledges.promised))
}
