package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/fleet"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// mostShown is how many jobs of a minute are named.
const mostShown = 5

// loadFlags say what is added up.
type loadFlags struct {
	from, to instantFlag
	jitter   time.Duration
	worst    int
	svg      string
}

// fleetLoad is the answer.
type fleetLoad struct {
	From        time.Time       `json:"from"`
	To          time.Time       `json:"to"`
	Jobs        int64           `json:"jobs"`
	NotCounted  int64           `json:"not_counted"`
	Executions  int64           `json:"executions"`
	Peak        int64           `json:"peak_per_minute"`
	Jitter      api.Duration    `json:"jitter"`
	PeakJitter  float64         `json:"peak_with_jitter"`
	PeakH       float64         `json:"peak_with_h"`
	FixedMinute int64           `json:"jobs_with_a_fixed_minute"`
	Worst       []*fleet.Minute `json:"worst"`
	Minutes     []int64         `json:"minutes"`
}

func newScheduleLoad(a *app) *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Add up when all jobs run: executions a minute, and the worst minutes",
		Long: `Add up when all active jobs run: executions a minute over the next day, the worst minutes with the
jobs in them, and what the worst minute would be if jobs had jitter, or an H in place of a fixed
minute. Everything is computed here from the definitions, which are read page by page. Paused and
finished jobs, and those that others trigger, are not counted; nor are retries.`,
		Example: `  belfry schedule load
  belfry schedule load --from 2026-12-31T00:00:00Z --to 2027-01-02T00:00:00Z --svg load.svg
  belfry schedule load -o json`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(time.Now()); err != nil {
				return err
			}
			return a.scheduleLoad(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.Var(&f.from, "from", "the first minute (default now)")
	flags.Var(&f.to, "to", "the end (default a day later; at most 31 days)")
	flags.DurationVar(&f.jitter, "jitter", 5*time.Minute, "the jitter that is tried")
	flags.IntVar(&f.worst, "worst", 10, "how many of the worst minutes are shown, at most 100")
	flags.StringVar(&f.svg, "svg", "", "file for a chart")
	return cmd
}

func (f *loadFlags) complete(now time.Time) error {
	if f.from.IsZero() {
		f.from.Time = now.UTC()
	}
	f.from.Time = f.from.Truncate(time.Minute)
	if f.to.IsZero() {
		f.to.Time = f.from.Add(24 * time.Hour)
	}
	switch d := f.to.Sub(f.from.Time); {
	case d < time.Minute || d > fleet.MaxMinutes*time.Minute:
		return usage("--to: choose an instant from one minute to 31 days after --from")
	case f.worst < 0 || f.worst > 100:
		return usage("--worst %d: ask for 0 to 100", f.worst)
	case f.jitter < 0 || f.jitter > job.MaxJitter:
		return usage("--jitter %v: try one from 0s to %v", f.jitter, job.MaxJitter)
	}
	return nil
}

func (a *app) scheduleLoad(ctx context.Context, f loadFlags) error {
	c, err := a.client("")
	if err != nil {
		return err
	}
	l, out := fleet.New(f.from.Time, f.to.Time, f.jitter), fleetLoad{Jitter: api.Duration(f.jitter)}
	if out.NotCounted, err = eachFleetJob(ctx, c, l.Add); err != nil {
		return err
	}
	l.Flush()
	out.From, out.To, out.Jobs, out.Executions, out.FixedMinute = l.From.UTC(), l.To.UTC(), l.Jobs, l.Executions, l.Fixed
	out.Minutes, out.Worst = l.Minutes, l.Worst(f.worst)
	out.Peak, out.PeakJitter, out.PeakH = l.Peaks()
	if len(out.Worst) > 0 {
		_, err = eachFleetJob(ctx, c, func(j fleet.Job) {
			for _, m := range out.Worst {
				m.Add(&j, mostShown)
			}
		})
	}
	if err == nil && f.svg != "" {
		err = writeChart(f.svg, l)
	}
	if err != nil {
		return err
	}
	return a.printLoad(out)
}

// eachFleetJob goes over the active jobs with a schedule, and counts the others.
func eachFleetJob(ctx context.Context, c *client.Client, visit func(fleet.Job)) (others int64, err error) {
	kept := map[job.Key]*job.Schedule{}
	for doc, err := range c.Jobs(ctx, client.Filter{}, 500) {
		if err != nil {
			return others, err
		}
		j := doc.Value
		if j.Status != string(job.Active) || j.NextRun == nil {
			others++
			continue
		}
		t := timingOf(j.JobID, j.JobSpec).Through(*j.NextRun)
		if j.LastSlot != nil {
			t.EndsAt = j.LastSlot.Add(time.Millisecond)
		}
		key := t.Key()
		s := kept[key]
		if s == nil {
			if s, err = job.Compile(t); err != nil {
				others++
				continue
			}
			if len(kept) == 1024 {
				clear(kept)
			}
			kept[key] = s
		}
		visit(fleet.Job{ID: j.JobID, Timing: t, Schedule: s})
	}
	return others, nil
}

func writeChart(name string, l *fleet.Load) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	err = l.SVG(file)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (a *app) printLoad(l fleetLoad) error {
	if a.format != output.Table {
		return output.One(a.stdout, a.format, output.View[fleetLoad]{Name: func(l fleetLoad) string { return strconv.FormatInt(l.Peak, 10) }}, l)
	}
	minutes := float64(len(l.Minutes))
	fmt.Fprintf(a.stdout, "%d jobs, %d executions from %s to %s (%d other jobs are not counted)\n",
		l.Jobs, l.Executions, l.From.Format(time.RFC3339), l.To.Format(time.RFC3339), l.NotCounted)
	fmt.Fprintf(a.stdout, "a minute: %.1f on average, %d in the worst\n", float64(l.Executions)/minutes, l.Peak)
	fmt.Fprintf(a.stdout, "with a jitter of %s: about %.1f in the worst\n", l.Jitter, l.PeakJitter)
	fmt.Fprintf(a.stdout, "with H for the minute of the %d jobs that name one: about %.1f in the worst\n\n", l.FixedMinute, l.PeakH)
	w := output.NewWriter(a.stdout, output.Table, output.View[*fleet.Minute]{Columns: []output.Column[*fleet.Minute]{
		{Header: "MINUTE (UTC)", Cell: func(m *fleet.Minute) string { return m.At.UTC().Format("2006-01-02T15:04Z") }},
		{Header: "EXECUTIONS", Cell: func(m *fleet.Minute) string { return strconv.FormatInt(m.Executions, 10) }},
		{Header: "JOBS", Cell: func(m *fleet.Minute) string { return strconv.FormatInt(m.Jobs, 10) }},
		{Header: "MOST", Cell: mostOf},
	}})
	for _, m := range l.Worst {
		if err := w.Add(m); err != nil {
			return err
		}
	}
	return w.Close()
}

// mostOf names the jobs with the most executions of a minute.
func mostOf(m *fleet.Minute) string {
	var parts []string
	for _, s := range m.Most {
		text := s.JobID
		if s.Executions > 1 {
			text += fmt.Sprintf(" ×%d", s.Executions)
		}
		parts = append(parts, text)
	}
	if rest := m.Jobs - int64(len(m.Most)); rest > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(parts, ", ")
}
