package wire

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	sent      prometheus.Counter
	received  prometheus.Counter
	lost      *prometheus.CounterVec
	dropped   *prometheus.CounterVec
	connects  *prometheus.CounterVec
	refused   *prometheus.CounterVec
	connected prometheus.Gauge
}

// newMetrics makes the metrics and registers them; with a nil registerer they
// count for nobody.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "belfry", Subsystem: "remote", Name: name, Help: help}
	}
	m := &metrics{
		sent:      prometheus.NewCounter(opts("sent_total", "Messages handed to the network.")),
		received:  prometheus.NewCounter(opts("received_total", "Messages delivered to an actor here.")),
		lost:      prometheus.NewCounterVec(opts("lost_total", "Messages that were not sent to another process."), []string{"reason"}),
		dropped:   prometheus.NewCounterVec(opts("dropped_total", "Messages of other processes that were not delivered."), []string{"reason"}),
		connects:  prometheus.NewCounterVec(opts("connects_total", "Attempts to connect to another process."), []string{"outcome"}),
		refused:   prometheus.NewCounterVec(opts("refused_total", "Connections, streams and calls of other processes that were refused."), []string{"reason"}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "belfry", Subsystem: "remote", Name: "connected", Help: "Processes that this one is connected to."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.sent, m.received, m.lost, m.dropped, m.connects, m.refused, m.connected} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
