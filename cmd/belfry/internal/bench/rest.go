package bench

import (
	"context"
	"time"
)

// Rest measures a cluster that holds jobs and has nothing to do: how soon no
// partition moves any more after the last node has joined, and what each node
// costs then.
type Rest struct {
	Count       int // jobs
	Connections int
	Size        int           // bytes of a job
	Partitions  int           // of the cluster
	Settle      time.Duration // before idle time is measured
	Idle        time.Duration // over which processor time is measured
}

// Processes is a cluster whose processes can be seen.
type Processes interface {
	Cluster
	PID(node int) int
}

// Goals of Rest, for three nodes, 256 partitions and 10,000 jobs.
const goalSettled = 5 // seconds after the last node is ready

// Run starts the last node, of a cluster of which all others run.
func (r Rest) Run(ctx context.Context, e Env, c Processes) (Report, error) {
	report := Report{Bench: "rest", Machine: ThisMachine(), Params: Values{
		{"nodes", c.Len()}, {"partitions", r.Partitions}, {"count", r.Count}, {"job_bytes", r.Size}, {"idle", r.Idle.String()},
	}}
	if _, err := c.Settle(ctx); err != nil {
		return report, err
	}
	start := time.Now()
	if err := c.Start(ctx, c.Len()-1); err != nil {
		return report, err
	}
	ready := time.Now()
	settled, err := c.Settle(ctx)
	if err != nil {
		return report, err
	}
	got, err := c.Owned(ctx, c.Len()-1)
	if err != nil {
		return report, err
	}
	report.metric("last_start_to_ready_s", ready.Sub(start).Seconds())
	report.metric("last_partitions", float64(len(got)))
	report.atMost("last_ready_to_settled_s", max(settled.Sub(ready), 0).Seconds(), goalSettled)

	j := Jobs{Plan: Plan{Prefix: runID("rest"), Jobs: r.Count, Slots: 1}, URL: e.Sink.URL(), Schedule: sleeping(time.Now()), Size: r.Size}
	if _, err := e.imports(ctx, j, r.Connections); err != nil {
		return report, err
	}
	e.Note("%d jobs registered; idle for %s", r.Count, r.Settle+r.Idle)
	if err := pause(ctx, r.Settle); err != nil {
		return report, err
	}
	shares, err := r.idle(ctx, c)
	if err != nil {
		return report, err
	}
	most, sum := 0.0, 0.0
	for _, share := range shares {
		most, sum = max(most, share), sum+share
	}
	report.metric("idle_cpu_percent_mean", sum/float64(len(shares)))
	report.atMost("idle_cpu_percent_max", most, goalIdle)
	return report, nil
}

// idle is what each node uses of a core, in percent.
func (r Rest) idle(ctx context.Context, c Processes) ([]float64, error) {
	out := make([]float64, c.Len())
	start := time.Now()
	for i := range out {
		used, err := cpuTime(c.PID(i))
		if err != nil {
			return nil, err
		}
		out[i] = -used.Seconds()
	}
	if err := pause(ctx, r.Idle); err != nil {
		return nil, err
	}
	for i := range out {
		used, err := cpuTime(c.PID(i))
		if err != nil {
			return nil, err
		}
		out[i] = 100 * (out[i] + used.Seconds()) / time.Since(start).Seconds()
	}
	return out, nil
}
