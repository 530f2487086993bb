package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

func newSchedule(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "schedule",
		Short: "Try a schedule, or add up all of them",
	}, newScheduleExplain(a), newScheduleLoad(a))
}

// timingFlags are the flags that say when a job is due.
type timingFlags struct {
	zone             string
	seconds          bool
	gap, fold        string
	startsAt, endsAt instantFlag
	exclude          []string
	jitter           time.Duration
	maxRuns          int64
}

func (f *timingFlags) add(flags *pflag.FlagSet) {
	flags.Var(textFlag{&f.zone}, "time-zone", "IANA name, such as Europe/Berlin (default UTC)")
	flags.BoolVar(&f.seconds, "seconds", false, "cron expressions have a first field of seconds")
	flags.StringVar(&f.gap, "dst-gap", "", "a wall time that the clock skips: run_after (default) or skip")
	flags.StringVar(&f.fold, "dst-fold", "", "a wall time that the clock repeats: first (default) or both")
	flags.Var(&f.startsAt, "starts-at", "nothing is due before this instant; it anchors @every")
	flags.Var(&f.endsAt, "ends-at", "nothing is due at or after this instant")
	flags.StringSliceVar(&f.exclude, "exclude", nil, "dates in the zone on which nothing is due, such as 2026-12-25,2026-12-26")
	flags.DurationVar(&f.jitter, "jitter", 0, "each execution is due up to this much later, by a time made from job and slot")
	flags.Int64Var(&f.maxRuns, "max-runs", 0, "how many slots of its schedule the job is given (default all)")
}

// timing is the flags as the domain has them.
func (f *timingFlags) timing(exprs []string) (job.Timing, error) {
	t := job.Timing{
		Expr: exprs[0], Exprs: exprs[1:], Zone: f.zone, Seconds: f.seconds, Gap: job.GapRule(f.gap), Fold: job.FoldRule(f.fold),
		StartsAt: f.startsAt.Time, EndsAt: f.endsAt.Time, Jitter: f.jitter,
	}
	if f.maxRuns < 0 || f.maxRuns > job.MaxRuns {
		return t, usage("--max-runs %d: ask for 0 to %d", f.maxRuns, job.MaxRuns)
	}
	for _, text := range f.exclude {
		day, ok := job.ParseDay(text)
		if !ok {
			return t, usage("--exclude %q: write a date like 2026-12-25", text)
		}
		t.Exclude = append(t.Exclude, day)
	}
	return t, nil
}

// instantFlag is an RFC 3339 instant as a flag.
type instantFlag struct{ time.Time }

func (f *instantFlag) Set(v string) error {
	if v == "" {
		f.Time = time.Time{}
		return nil
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return fmt.Errorf("write it like 2026-01-31T06:00:00Z or 2026-01-31T07:00:00+01:00")
	}
	f.Time = t
	return nil
}

func (f *instantFlag) String() string {
	if f.IsZero() {
		return ""
	}
	return f.Format(time.RFC3339Nano)
}

// orNull is the instant in JSON; an empty flag clears what was set.
func (f *instantFlag) orNull() any {
	if f.IsZero() {
		return nil
	}
	return f.String()
}

// Type is shown in help.
func (f *instantFlag) Type() string { return "instant" }

// explanation is what a schedule means, as /v1/schedules/preview answers, with
// the schedule itself.
type explanation struct {
	ScheduleExpr  string   `json:"schedule_expr,omitzero"`
	ScheduleExprs []string `json:"schedule_exprs,omitempty"`
	TimeZone      string   `json:"time_zone"`
	api.Preview
}

func newScheduleExplain(a *app) *cobra.Command {
	var (
		flag timingFlags
		from instantFlag
		id   string
		n    int
	)
	cmd := &cobra.Command{
		Use:   "explain EXPR…",
		Short: "Say in words what a schedule means, and when it is due next",
		Example: `  belfry schedule explain '0 6 * * 1-5' --time-zone Europe/Berlin
  belfry schedule explain '30 2 * * *' --time-zone America/New_York --from 2026-03-07T12:00:00Z -n 3
  belfry schedule explain '0 9 L * *' '0 9 * * mon#1' --exclude 2026-12-25
  belfry schedule explain 'H H * * *' --job-id daily-report
  belfry schedule explain '@every 90s' -o name`,
		Args: atLeastOne("schedule"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 1 || n > 1000 {
				return usage("-n %d: ask for 1 to 1000 runs", n)
			}
			if from.IsZero() {
				from.Time = time.Now()
			}
			timing, err := flag.timing(args)
			if err != nil {
				return err
			}
			spec := job.Spec{Schedule: timing, MaxRuns: flag.maxRuns}
			notes, bad := spec.Translate()
			if bad != nil {
				return bad
			}
			spec.Schedule.Anchor, spec.Schedule.Job = from.Truncate(time.Millisecond), id
			e, err := explain(spec.Schedule, spec.MaxRuns, from.Time, n)
			if err != nil {
				return err
			}
			e.Warnings = append(notes, e.Warnings...)
			return a.printExplanation(e, from.Time)
		},
	}
	flags := cmd.Flags()
	flag.add(flags)
	flags.StringVar(&id, "job-id", "", "the job that it is for: H is made from its id")
	flags.Var(&from, "from", "runs after this instant (default now)")
	flags.IntVarP(&n, "count", "n", 10, "how many runs")
	return cmd
}

// explain computes the next n runs after an instant, with the code that the
// server uses.
func explain(t job.Timing, maxRuns int64, from time.Time, n int) (explanation, error) {
	if !t.StartsAt.IsZero() {
		t.Anchor = t.StartsAt
	}
	s, err := job.Compile(t)
	if err != nil {
		return explanation{}, err
	}
	s = s.First(maxRuns, t.RunsFrom(from))
	e := explanation{ScheduleExpr: t.Expr, TimeZone: t.Zone}
	if len(t.Exprs) > 0 {
		e.ScheduleExpr, e.ScheduleExprs = "", append([]string{t.Expr}, t.Exprs...)
	}
	if e.TimeZone == "" {
		e.TimeZone = "UTC"
	}
	e.Description, e.Warnings = job.Describe(t), job.Warnings(t)
	e.NextRuns, e.NextRunsLocal = []time.Time{}, []string{}
	if e.Warnings == nil {
		e.Warnings = []string{}
	}
	for at, ok := s.Next(from); ok && len(e.NextRuns) < n; at, ok = s.Next(at) {
		e.NextRuns = append(e.NextRuns, at)
		e.NextRunsLocal = append(e.NextRunsLocal, s.In(at).Format(time.RFC3339Nano))
	}
	return e, nil
}

func (a *app) printExplanation(e explanation, from time.Time) error {
	switch a.format {
	case output.Name:
		for _, at := range e.NextRuns {
			fmt.Fprintln(a.stdout, at.Format(time.RFC3339Nano))
		}
		return nil
	case output.Table:
		fmt.Fprintln(a.stdout, output.Printable(e.Description))
		for _, w := range e.Warnings {
			fmt.Fprintln(a.stdout, "warning: "+output.Printable(w))
		}
		if len(e.NextRuns) == 0 {
			fmt.Fprintf(a.stdout, "nothing is due after %s\n", from.UTC().Format(time.RFC3339))
			return nil
		}
		fmt.Fprintln(a.stdout)
		return printRuns(a, e.NextRuns, e.NextRunsLocal)
	}
	return output.One(a.stdout, a.format, output.View[explanation]{}, e)
}

// dueTime is one line of a table of due times.
type dueTime struct {
	at    time.Time
	local string
}

// printRuns prints due times in their zone and in UTC.
func printRuns(a *app, at []time.Time, local []string) error {
	w := output.NewWriter(a.stdout, output.Table, output.View[dueTime]{Columns: []output.Column[dueTime]{
		{Header: "LOCAL", Cell: func(r dueTime) string { return weekday(r.local) }},
		{Header: "UTC", Cell: func(r dueTime) string { return r.at.UTC().Format(time.RFC3339Nano) }},
	}})
	for i := range at {
		r := dueTime{at: at[i], local: at[i].UTC().Format(time.RFC3339Nano)}
		if i < len(local) {
			r.local = local[i]
		}
		if err := w.Add(r); err != nil {
			return err
		}
	}
	return w.Close()
}

// weekday puts the day of the week before an RFC 3339 instant, and the offset
// apart.
func weekday(local string) string {
	t, err := time.Parse(time.RFC3339Nano, local)
	if err != nil {
		return local
	}
	text := t.Format("Mon 2006-01-02 15:04:05.999 -07:00")
	return strings.Replace(text, "+00:00", "Z", 1)
}
