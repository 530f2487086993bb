package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/foreign"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/importer"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// compareFlags ask for a comparison in place of an import.
type compareFlags struct {
	days int
	from instantFlag
}

func (f *compareFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.days, "compare", 0, "send nothing: print every instant of so many days at which the source and Belfry do not fire alike")
	flags.Var(&f.from, "compare-from", "where these days begin (default now)")
}

// there is a schedule by the rules of its source, in a zone.
func there(zone string, rules func(*time.Location) (foreign.Fires, error)) *importer.There {
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return &importer.There{Problem: fmt.Sprintf("%q is no time zone", zone)}
	}
	fires, err := rules(loc)
	t := &importer.There{Fires: fires, Zone: loc}
	if err != nil {
		t.Problem = err.Error()
	}
	return t
}

// difference is one line of a comparison.
type difference struct {
	Line     int64      `json:"line"`
	JobID    string     `json:"job_id"`
	Schedule string     `json:"schedule_expr"`
	TimeZone string     `json:"time_zone"`
	At       *time.Time `json:"at,omitzero"`
	Local    string     `json:"local,omitzero"`
	There    int        `json:"there"`
	Here     int        `json:"here"`
	Why      string     `json:"why"`
}

func differenceView() output.View[difference] {
	return output.View[difference]{
		Name: func(d difference) string { return d.JobID },
		Columns: []output.Column[difference]{
			{Header: "JOB ID", Cell: func(d difference) string { return d.JobID }},
			{Header: "SCHEDULE", Cell: func(d difference) string { return d.Schedule }},
			{Header: "LOCAL", Cell: func(d difference) string { return weekday(d.Local) }},
			{Header: "UTC", Cell: func(d difference) string { return instant(d.At) }},
			{Header: "THERE", Cell: func(d difference) string { return strconv.Itoa(d.There) }},
			{Header: "HERE", Cell: func(d difference) string { return strconv.Itoa(d.Here) }},
			{Header: "WHY", Cell: func(d difference) string { return d.Why }},
		},
	}
}

// comparison is how a comparison goes.
type comparison struct {
	*importRun
	from, to                time.Time
	out                     output.Writer[difference]
	same, differ, unknown   int
	refused, done, instants int64
}

// compare prints where the source and Belfry do not fire alike, and sends nothing.
func (r *importRun) compare(src importer.Source, f compareFlags) error {
	if f.days > 3660 {
		return usage("--compare %d: at most 3660 days", f.days)
	}
	if f.from.IsZero() {
		f.from.Time = time.Now().Truncate(time.Second)
	}
	c := &comparison{importRun: r, from: f.from.Time, to: f.from.AddDate(0, 0, f.days), out: output.NewWriter(r.a.stdout, r.a.format, differenceView())}
	err := src(c.line)
	if closeErr := c.out.Close(); err == nil {
		err = closeErr
	}
	if closeErr := r.failures.close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	r.a.note("%d days from %s: %d jobs fire the same, %d differ at %d instants, %d have no times of their own to compare; nothing was sent",
		f.days, c.from.UTC().Format(time.RFC3339), c.same, c.differ, c.instants, c.unknown)
	return partly(c.refused, c.done, r.failures.path)
}

// line compares one job. One that cannot be imported is a failure, as it would
// be then.
func (c *comparison) line(l importer.Line) error {
	j, schedule, problem := compiled(l)
	if problem != "" {
		c.refused++
		return c.failures.add(importer.Failure{Line: l.Number, JobID: j.JobID, Text: lineText(l), Error: &api.Problem{Title: "Refused", Code: api.CodeInvalid, Detail: problem}})
	}
	c.done++
	d := difference{Line: l.Number, JobID: j.JobID, Schedule: scheduleOf(j.JobSpec), TimeZone: zoneOf(j.JobSpec)}
	switch {
	case l.There == nil || l.There.Fires == nil && l.There.Problem == "":
		c.unknown++ // an interval: its phase is that of the process that counts it
		return nil
	case l.There.Problem != "":
		c.differ++
		d.Why = "the source does not run it: " + l.There.Problem
		return c.out.Add(d)
	}
	before := c.instants
	for x := range foreign.Compare(l.There.Fires, schedule, c.from, c.to) {
		c.instants++
		at := x.At.UTC()
		d.At, d.Local, d.There, d.Here = &at, schedule.In(at).Format(time.RFC3339Nano), x.There, x.Here
		if d.Why = "days of the month and of the week"; foreign.Changes(l.There.Zone, at) {
			d.Why = "the clock changes"
		}
		if err := c.out.Add(d); err != nil {
			return err
		}
	}
	if c.instants > before {
		c.differ++
	} else {
		c.same++
	}
	return nil
}

// compiled is a line's job and its schedule here.
func compiled(l importer.Line) (api.JobRequest, *job.Schedule, string) {
	j, problem := checkLine(l)
	if problem != "" {
		return j, nil, problem
	}
	spec := job.Spec{Schedule: timingOf(j.JobID, j.JobSpec)}
	if _, bad := spec.Translate(); bad != nil {
		return j, nil, bad.Error()
	}
	s, err := job.Compile(spec.Schedule)
	if err != nil {
		return j, nil, err.Error()
	}
	return j, s, ""
}

// mapping is what becomes of a job that runs a command or a container: Belfry
// gives it to whoever runs it.
type mapping struct{ url, queue string }

func (m *mapping) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&m.url, "target-url", "", "URL of a runner, to which jobs that run a command or a container are posted")
	flags.StringVar(&m.queue, "queue", "", "queue into which they are put, in place of --target-url")
}

func (m *mapping) check() error {
	if m.url != "" && m.queue != "" {
		return usage("--target-url and --queue exclude each other")
	}
	return nil
}

// target is the target with what is to be run as its payload; nil without a
// mapping.
func (m *mapping) target(payload any) (any, error) {
	text, err := json.Marshal(payload)
	switch {
	case err != nil:
		return nil, err
	case m.url != "":
		return api.Target{HTTP: &api.HTTPTarget{URL: m.url, JSON: text}}, nil
	case m.queue != "":
		return api.Target{Queue: &api.QueueTarget{Name: m.queue, Payload: text}}, nil
	}
	return nil, nil
}

// sourceLine makes a line of a job's fields.
func sourceLine(number int64, name string, fields map[string]any, problem string) importer.Line {
	l := importer.Line{Number: number, Text: name, Problem: problem}
	if problem != "" {
		return l
	}
	body, err := json.Marshal(fields)
	if l.Body = body; err != nil {
		l.Problem = err.Error()
	}
	return l
}
