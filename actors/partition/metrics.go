package partition

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Metrics counts what owners do, for all partitions of a node.
type Metrics struct {
	delay         prometheus.Histogram
	executions    *prometheus.CounterVec
	skipped       *prometheus.CounterVec
	fenceAcquired prometheus.Counter
	fenceRefused  prometheus.Counter
	inDoubt       *prometheus.CounterVec
	commitRows    prometheus.Histogram
	commitTime    prometheus.Histogram
	loadTime      prometheus.Histogram
	jobPanics     prometheus.Counter
	claims        prometheus.Counter
	leaseExpired  prometheus.Counter
	deadExpired   prometheus.Counter
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "belfry", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "belfry", Name: name, Help: help}, []string{label})
	}
	hist := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "belfry", Name: name, Help: help, Buckets: buckets})
	}
	m := &Metrics{
		delay:         hist("schedule_delay_seconds", "Time from when an execution was due to when it was first sent; catch-up runs are not counted.", prometheus.ExponentialBuckets(0.001, 2, 16)),
		executions:    vec("executions_total", "Executions that ended, by outcome.", "outcome"),
		skipped:       vec("occurrences_skipped_total", "Decisions not to run one or more slots, by reason.", "reason"),
		fenceAcquired: counter("fence_acquired_total", "Partitions acquired."),
		fenceRefused:  counter("fence_refused_total", "Owners stopped because another holds the partition."),
		inDoubt:       vec("in_doubt_total", "Batches in doubt that were settled, by verdict.", "verdict"),
		jobPanics:     counter("job_panics_total", "Panics over the data of one job, which was marked as faulty."),
		claims:        counter("claims_total", "Executions claimed by outside workers."),
		leaseExpired:  counter("lease_expired_total", "Leases of outside workers that expired: each ended an attempt, and nobody knows how."),
		deadExpired:   counter("dead_letters_expired_total", "Dead letters removed because nobody replayed or purged them within the retention."),
		commitRows:    hist("commit_rows", "Rows in a batch.", prometheus.ExponentialBuckets(1, 2, 10)),
		loadTime:      hist("partition_load_seconds", "Time from when a partition was acquired, and it was its turn, until all of it was in memory.", []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}),
		commitTime:    hist("commit_duration_seconds", "Time a batch took.", prometheus.ExponentialBuckets(0.0005, 2, 14)),
	}
	reg.MustRegister(m.delay, m.executions, m.skipped, m.fenceAcquired, m.fenceRefused, m.inDoubt, m.commitRows, m.commitTime, m.loadTime, m.jobPanics, m.claims, m.leaseExpired, m.deadExpired)
	return m
}

// observe counts an event of the history.
func (m *Metrics) observe(e *belfryv1.Event) {
	if e.GetType() == deadExpired {
		m.deadExpired.Inc()
		return
	}
	outcome, ok := strings.CutPrefix(e.GetType(), "execution.")
	if !ok {
		return
	}
	switch outcome {
	case "retrying", "released":
		return
	case "claimed":
		m.claims.Inc()
		return
	case "lease_expired":
		m.leaseExpired.Inc()
		return
	case "skipped", "missed":
		m.skipped.WithLabelValues(reasonLabel(e.GetReason())).Inc()
	case "succeeded", "failed":
		if !e.GetCatchUp() && e.GetWorker() == "" { // how soon outside workers claim is not ours to measure
			m.delay.Observe(float64(e.GetLatenessMs()) / 1000)
		}
	}
	m.executions.WithLabelValues(outcome).Inc()
}

// reasonLabel keeps the label to the few reasons that this package gives.
func reasonLabel(reason string) string {
	switch reason {
	case "paused", "backlog", "outage":
		return reason
	case overlapSkipped, overlapFull, overlapReplaced:
		return "overlap"
	}
	return "other"
}

func (m *Metrics) committed(rows int, took time.Duration) {
	m.commitRows.Observe(float64(rows))
	m.commitTime.Observe(took.Seconds())
}

func (m *Metrics) settled(applied bool) {
	verdict := "dead"
	if applied {
		verdict = "applied"
	}
	m.inDoubt.WithLabelValues(verdict).Inc()
}

var (
	jobsDesc    = prometheus.NewDesc("belfry_jobs", "Jobs by state.", []string{"state"}, nil)
	ownedDesc   = prometheus.NewDesc("belfry_partitions_owned", "Partitions that this node owns.", nil, nil)
	overdueDesc = prometheus.NewDesc("belfry_overdue_jobs", "Executions that are due and wait for a worker.", nil, nil)
	oldestDesc  = prometheus.NewDesc("belfry_oldest_overdue_seconds", "Age of the oldest of them.", nil, nil)
	queueDesc   = prometheus.NewDesc("belfry_queue_depth", "Executions that are due and that no outside worker has claimed, by queue.", []string{"queue"}, nil)
	flightDesc  = prometheus.NewDesc("belfry_executions_in_flight", "Executions that are armed, waiting or running.", nil, nil)
)

// Describe implements prometheus.Collector.
func (h *Host) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsDesc
	ch <- ownedDesc
	ch <- overdueDesc
	ch <- oldestDesc
	ch <- flightDesc
	ch <- queueDesc
}

// Collect implements prometheus.Collector: the sums over the partitions, at
// most a second old where anything happens.
func (h *Host) Collect(ch chan<- prometheus.Metric) {
	total := h.Totals()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, state := range []job.Status{job.Active, job.Paused, job.Finished, job.Deleted, job.Faulty} {
		gauge(jobsDesc, float64(total.Jobs[state]), string(state))
	}
	gauge(ownedDesc, float64(len(h.Routes.Owned())))
	gauge(overdueDesc, float64(total.Ready))
	gauge(oldestDesc, total.OldestOverdue.Seconds())
	gauge(flightDesc, float64(total.InFlight))
	for queue, n := range h.depths.seen(total.Unclaimed) {
		gauge(queueDesc, float64(n), queue)
	}
}

// Totals sums the numbers of all partitions of the host.
func (h *Host) Totals() Stats {
	total := Stats{Jobs: map[job.Status]int{}, Unclaimed: map[string]int{}}
	for i := range h.stats {
		st := h.stats[i].Load()
		if st == nil {
			continue
		}
		for state, n := range st.Jobs {
			total.Jobs[state] += n
		}
		for queue, n := range st.Unclaimed {
			total.Unclaimed[queue] += n
		}
		total.InFlight += st.InFlight
		total.Ready += st.Ready
		total.Queued += st.Queued
		total.OldestOverdue = max(total.OldestOverdue, st.OldestOverdue)
	}
	return total
}

// maxQueuesShown bounds the labels of queue_depth: names of queues are the users'.
const maxQueuesShown = 1000

// queuesShown are the queues whose depth was shown: one that has become empty is
// shown as empty, and does not vanish.
type queuesShown struct {
	mu sync.Mutex
	of map[string]bool
}

// seen adds to what waits the queues that were shown before, and leaves out those
// that are too many.
func (q *queuesShown) seen(depths map[string]int) map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of == nil {
		q.of = map[string]bool{}
	}
	for _, queue := range slices.Sorted(maps.Keys(depths)) {
		if len(q.of) < maxQueuesShown {
			q.of[queue] = true
		}
	}
	out := make(map[string]int, len(q.of))
	for queue := range q.of {
		out[queue] = depths[queue]
	}
	return out
}
