package bench

import (
	"context"
	"fmt"
	"time"
)

// Steady measures a constant rate over a time: as many jobs as deliveries a
// second, each due every second, spread evenly over the second. Of a cluster any
// node may be killed meanwhile.
type Steady struct {
	Rate        int
	Duration    time.Duration
	Size        int
	Lead        time.Duration
	Patience    time.Duration
	Quiet       time.Duration
	Connections int
}

// Run measures and reports how late deliveries were.
func (s Steady) Run(ctx context.Context, e Env) (Report, error) {
	slots := int(s.Duration / time.Second)
	report := Report{Bench: "steady", Machine: ThisMachine(), Params: Values{
		{"rate", s.Rate}, {"duration", s.Duration.String()}, {"job_bytes", s.Size},
	}}
	if slots < 1 {
		return report, fmt.Errorf("a duration of %s has no whole second", s.Duration)
	}
	start := time.Now().Add(s.Lead).Truncate(time.Second)
	j := everySecond(runID("steady"), e.Sink.URL(), s.Rate, s.Size, start, start.Add(s.Duration))
	ledger := NewLedger(j.Plan)
	e.Sink.Use(ledger)
	if _, err := e.imports(ctx, j, s.Connections); err != nil {
		return report, err
	}
	if time.Until(start) < 0 {
		return report, fmt.Errorf("registering %d jobs took longer than the lead of %s: give a longer --lead", s.Rate, s.Lead)
	}
	e.Note("%d jobs registered; %d deliveries from %s to %s", s.Rate, j.Plan.Total(), start.Format(time.TimeOnly), start.Add(s.Duration).Format(time.TimeOnly))
	if err := settle(ctx, ledger, s.Patience+s.Lead, s.Quiet); err != nil {
		return report, err
	}
	v := ledger.Judge(time.Second)
	v.Repeats = e.Cluster
	report.verdict(v)
	report.metric("deliveries_per_s", v.PerSecond())
	if e.Cluster {
		report.lateness(v.Lateness, 0, 0, 0) // it depends on what is done to the nodes
	} else {
		report.lateness(v.Lateness, 10, 100, 1000)
	}
	return report, nil
}
