package bench

import (
	"context"
	"time"
)

// far is schedules that are due long after any benchmark, spread over a month.
func far(now time.Time) func(i int) string {
	const month = 30 * 24 * time.Hour
	from := now.UTC().Add(month).Truncate(24 * time.Hour)
	return func(i int) string {
		return from.Add(time.Duration(i) * 7919 * time.Millisecond % month).Format(stamp)
	}
}

// Register measures registrations by single requests.
type Register struct {
	Count       int
	Connections int
	Size        int // bytes of a job
	Goal        float64
}

// Run registers the jobs and reports the rate.
func (r Register) Run(ctx context.Context, e Env) (Report, error) {
	report := Report{Bench: "register", Machine: ThisMachine(), Params: Values{
		{"count", r.Count}, {"connections", r.Connections}, {"job_bytes", r.Size},
	}}
	j := Jobs{Plan: Plan{Prefix: runID("register"), Jobs: r.Count, Slots: 1}, URL: e.Sink.URL(), Schedule: far(time.Now()), Size: r.Size}
	latency, took, err := e.posts(ctx, j, r.Connections)
	if err != nil {
		return report, err
	}
	report.metric("registered", float64(latency.Len()))
	report.metric("seconds", took.Seconds())
	report.atLeast("registrations_per_s", float64(r.Count)/took.Seconds(), r.Goal)
	report.metric("request_p50_ms", milliseconds(latency.At(0.5)))
	report.metric("request_p99_ms", milliseconds(latency.At(0.99)))
	report.metric("request_max_ms", milliseconds(latency.Max()))
	return report, nil
}

// Import measures registrations by import.
type Import struct {
	Count       int
	Connections int
	Size        int
	Goal        float64
}

// Run imports the jobs and reports the rate.
func (r Import) Run(ctx context.Context, e Env) (Report, error) {
	report := Report{Bench: "import", Machine: ThisMachine(), Params: Values{
		{"count", r.Count}, {"connections", r.Connections}, {"job_bytes", r.Size},
	}}
	j := Jobs{Plan: Plan{Prefix: runID("import"), Jobs: r.Count, Slots: 1}, URL: e.Sink.URL(), Schedule: far(time.Now()), Size: r.Size}
	took, err := e.imports(ctx, j, r.Connections)
	if err != nil {
		return report, err
	}
	report.metric("registered", float64(r.Count))
	report.metric("seconds", took.Seconds())
	report.atLeast("registrations_per_s", float64(r.Count)/took.Seconds(), r.Goal)
	return report, nil
}
