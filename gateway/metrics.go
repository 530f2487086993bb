package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// metrics are the gateway's own. No label is a job's or a client's.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	panics   prometheus.Counter
	streams  prometheus.Gauge
	dropped  prometheus.Counter
	imported *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_http_requests_total", Help: "Requests answered, by route, method and status code.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "belfry_http_request_duration_seconds", Help: "From the request's head to the end of the answer, by route and method; streams apart.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 11),
		}, []string{"route", "method"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_http_panics_total", Help: "Requests that ended in a panic. Any is a bug.",
		}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_event_streams", Help: "Open event streams.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_event_streams_dropped_total", Help: "Event streams ended because their client read too slowly.",
		}),
		imported: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_imported_jobs_total", Help: "Lines of imports, by result.",
		}, []string{"result"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.panics, m.streams, m.dropped, m.imported} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// methods that may be a label: what a client invents is "other".
var methods = map[string]bool{"GET": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "HEAD": true}

func (m *metrics) observe(rt *route, method string, code int, took time.Duration) {
	if !methods[method] {
		method = "other"
	}
	m.requests.WithLabelValues(rt.path, method, strconv.Itoa(code)).Inc()
	if !rt.stream {
		m.duration.WithLabelValues(rt.path, method).Observe(took.Seconds())
	}
}

// metricsPage serves the registry.
func (g *Gateway) metricsPage(c *call) error {
	promhttp.HandlerFor(g.cfg.Registry, promhttp.HandlerOpts{}).ServeHTTP(c.w, c.r)
	return nil
}

type health struct {
	Status  string `json:"status"`
	Version string `json:"version,omitzero"`
	Reason  string `json:"reason,omitzero"`
}

// healthz says that the process answers.
func (g *Gateway) healthz(c *call) error {
	return c.answer(http.StatusOK, health{Status: "ok", Version: g.cfg.Version})
}

// readyz says whether this node takes requests.
func (g *Gateway) readyz(c *call) error {
	if ok, why := g.cfg.Ready(); !ok {
		return refuse(api.CodeNotReady, "%s", orElse(why, "this node does not take requests yet"))
	}
	return c.answer(http.StatusOK, health{Status: "ready"})
}
