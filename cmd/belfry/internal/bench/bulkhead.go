package bench

import (
	"context"
	"fmt"
	"time"
)

// Bulkhead measures what a host that hangs does to another: a constant rate to
// one host, first alone, and then while as many one-time jobs as asked for are
// due for a second host, which answers nothing for a time.
type Bulkhead struct {
	Rate        int // deliveries a second to the first host
	Hanging     int // jobs that are due for the second one, at one instant
	Before      time.Duration
	Hang        time.Duration
	Size        int
	Lead        time.Duration
	Patience    time.Duration
	Quiet       time.Duration
	Connections int
	Added       time.Duration // goal: what may be added to the p99 lateness
}

// Run measures both hosts.
func (b Bulkhead) Run(ctx context.Context, e Env) (Report, error) {
	report := Report{Bench: "bulkhead", Machine: ThisMachine(), Params: Values{
		{"rate", b.Rate}, {"hanging", b.Hanging}, {"before", b.Before.String()}, {"hang", b.Hang.String()}, {"job_bytes", b.Size},
	}}
	hanging, err := StartSink()
	if err != nil {
		return report, err
	}
	defer hanging.Stop()
	start := time.Now().Add(b.Lead).Truncate(time.Second)
	due := start.Add(b.Before.Truncate(time.Second))
	till := due.Add(b.Hang.Truncate(time.Second))

	fine := everySecond(runID("fine"), e.Sink.URL(), b.Rate, b.Size, start, till)
	hung := Jobs{
		Plan: Plan{Prefix: runID("hung"), Jobs: b.Hanging, Slots: 1, First: func(int) time.Time { return due }},
		URL:  hanging.URL(), Size: b.Size, Timeout: 2*b.Hang + time.Minute,
		Schedule: func(int) string { return due.UTC().Format(stamp) },
	}
	fineLedger, hungLedger := NewLedger(fine.Plan), NewLedger(hung.Plan)
	e.Sink.Use(fineLedger)
	hanging.Use(hungLedger)
	release := hanging.Hold()
	defer release()
	for _, j := range []Jobs{fine, hung} {
		if _, err := e.imports(ctx, j, b.Connections); err != nil {
			return report, err
		}
	}
	if time.Until(start) < 0 {
		return report, fmt.Errorf("registering %d jobs took longer than the lead of %s: give a longer --lead", b.Rate+b.Hanging, b.Lead)
	}
	e.Note("%d deliveries a second from %s; from %s to %s another host hangs, and has %d due", b.Rate, start.Format(time.TimeOnly), due.Format(time.TimeOnly), till.Format(time.TimeOnly), b.Hanging)
	if err := pause(ctx, time.Until(till)); err != nil {
		return report, err
	}
	held := hungLedger.Arrived()
	release()
	e.Note("it had %d calls when it went on", held)
	for _, l := range []*Ledger{fineLedger, hungLedger} {
		if err := settle(ctx, l, b.Patience, b.Quiet); err != nil {
			return report, err
		}
	}
	b.conclude(&report, fineLedger, hungLedger, due, held)
	return report, nil
}

func (b Bulkhead) conclude(report *Report, fine, hung *Ledger, due time.Time, held int) {
	report.verdict(fine.Judge(time.Second))
	stuck := hung.Judge(b.Hang + time.Minute)
	report.metric("hanging_held", float64(held))
	report.atMost("hanging_missing", float64(stuck.Missing), 0)
	report.metric("hanging_drained_per_s", float64(b.Hanging-held)/max(stuck.Last.Sub(due.Add(b.Hang)).Seconds(), 0.001))
	report.Problems = append(report.Problems, stuck.Broken()...)
	before, during := fine.Between(time.Time{}, due), fine.Between(due, due.Add(b.Hang))
	for _, m := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		report.metric("before_lateness_"+m.name+"_ms", milliseconds(before.At(m.at)))
		report.metric("during_lateness_"+m.name+"_ms", milliseconds(during.At(m.at)))
	}
	report.atMost("added_p99_ms", milliseconds(during.At(0.99)-before.At(0.99)), milliseconds(b.Added))
}

// everySecond is jobs that are each due every second, spread evenly over it.
func everySecond(prefix, url string, rate, size int, start, end time.Time) Jobs {
	slots := int(end.Sub(start) / time.Second)
	first := func(i int) time.Time {
		return start.Add((time.Second * time.Duration(i) / time.Duration(rate)).Truncate(time.Millisecond))
	}
	return Jobs{
		Plan: Plan{Prefix: prefix, Jobs: rate, Slots: slots, Every: time.Second, First: first},
		URL:  url, Size: size,
		Schedule: func(int) string { return "@every 1s" },
		Starts:   first,
		Ends:     func(i int) time.Time { return first(i).Add(time.Duration(slots) * time.Second) },
	}
}
