package actors

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what the guards of this package saw, by kind of actor.
type Metrics struct {
	panics   *prometheus.CounterVec
	restarts *prometheus.CounterVec
	stops    *prometheus.CounterVec
	refused  *prometheus.CounterVec
}

// NewMetrics makes the counters and registers them; with a nil registerer they
// count for nobody.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "belfry", Subsystem: "actor", Name: name, Help: help}, []string{"kind"})
	}
	m := &Metrics{
		panics:   vec("panics_total", "Panics in actors."),
		restarts: vec("restarts_total", "Restarts of actors after a panic."),
		stops:    vec("failed_total", "Actors stopped for good after a panic."),
		refused:  vec("mailbox_refused_total", "Messages turned away by a full mailbox."),
	}
	if reg != nil {
		reg.MustRegister(m.panics, m.restarts, m.stops, m.refused)
	}
	return m
}
