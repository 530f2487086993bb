package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

func newJobs(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "jobs",
		Aliases: []string{"job"},
		Short:   "Register, show, change and run jobs",
	},
		newJobsCreate(a), newJobsUpdate(a), newJobsApply(a),
		newJobsList(a), newJobsGet(a), newJobsDescribe(a), newJobsNext(a), newJobsGraph(a),
		newJobsPause(a), newJobsResume(a), newJobsTrigger(a), newJobsBackfill(a), newJobsExplain(a), newJobsDelete(a),
	)
}

// jobDoc is a job as it came.
type jobDoc = client.Doc[api.Job]

func jobView() output.View[jobDoc] {
	return output.View[jobDoc]{
		Name: func(j jobDoc) string { return j.Value.JobID },
		Columns: []output.Column[jobDoc]{
			{Header: "JOB ID", Cell: func(j jobDoc) string { return j.Value.JobID }},
			{Header: "STATUS", Cell: func(j jobDoc) string { return j.Value.Status }},
			{Header: "SCHEDULE", Cell: func(j jobDoc) string { return scheduleOf(j.Value.JobSpec) }},
			{Header: "TIME ZONE", Cell: func(j jobDoc) string { return zoneOf(j.Value.JobSpec) }},
			{Header: "NEXT RUN", Cell: func(j jobDoc) string { return instant(j.Value.NextRun) }},
			{Header: "LAST", Cell: lastCell},
		},
	}
}

func lastCell(j jobDoc) string {
	if last := j.Value.LastExecution; last != nil {
		return last.Status + " " + instant(&last.ScheduledFor)
	}
	return "-"
}

func zoneOf(s api.JobSpec) string {
	if s.TimeZone == nil || *s.TimeZone == "" {
		return "UTC"
	}
	return *s.TimeZone
}

// instant is a time in a table: RFC 3339 in UTC, "-" for none.
func instant(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// listFlags select jobs.
type listFlags struct {
	filter client.Filter
	before instantFlag
}

func (f *listFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.filter.Labels, "label", "l", nil, "jobs with this label, as key=value; may be given more than once")
	flags.Var(textFlag{&f.filter.State}, "state", "jobs in this state: active, paused, finished or error")
	flags.Var(textFlag{&f.filter.Target}, "target", "jobs whose target contains this")
	flags.Var(textFlag{&f.filter.IDPrefix}, "id-prefix", "jobs whose id begins with this")
	flags.Var(&f.before, "next-run-before", "jobs that are due before this instant")
}

func newJobsList(a *app) *cobra.Command {
	var (
		f     listFlags
		limit limitFlag
	)
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List jobs",
		Example: "  belfry jobs list --state active --label team=billing\n  belfry jobs list --id-prefix report- -o name | xargs belfry jobs pause",
		Args:    exactly(),
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			f.filter.NextRunBefore = f.before.Time
			w, n := output.NewWriter(a.stdout, a.format, jobView()), 0
			for j, err := range c.Jobs(ctx, f.filter, pageSize(int(limit))) {
				if err != nil {
					return err
				}
				if err := w.Add(j); err != nil {
					return err
				}
				if n++; n == int(limit) {
					break
				}
			}
			return w.Close()
		}),
	}
	f.add(cmd)
	cmd.Flags().Var(&limit, "limit", "at most this many; 0 for all")
	return cmd
}

// maxPage is the most that one page may hold.
const maxPage = 500

// pageSize asks for no more than is wanted.
func pageSize(limit int) int {
	if limit > 0 && limit < maxPage {
		return limit
	}
	return maxPage
}

func newJobsGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "get ID",
		Short:             "Show a job",
		Example:           "  belfry jobs get daily-report -o yaml | belfry jobs apply -f -",
		Args:              exactly("the id of a job"),
		ValidArgsFunction: a.completeJob,
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			j, err := c.Get(ctx, args[0])
			if err != nil {
				return err
			}
			return output.One(a.stdout, a.format, jobView(), j)
		}),
	}
}

func newJobsNext(a *app) *cobra.Command {
	var n int
	cmd := &cobra.Command{
		Use:               "next ID",
		Short:             "Show when a job is due next",
		Args:              exactly("the id of a job"),
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 1 || n > 1000 {
				return usage("-n %d: ask for 1 to 1000 runs", n)
			}
			c, err := a.client("")
			if err != nil {
				return err
			}
			j, err := c.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if j.Value.Status == string(job.Paused) {
				a.note("%s is paused: it would run at these instants if it were resumed", args[0])
			}
			e, err := nextRuns(j.Value, n)
			if err != nil {
				return err
			}
			return a.printNext(e)
		},
	}
	cmd.Flags().IntVarP(&n, "count", "n", 5, "how many runs")
	return cmd
}

// scheduleOf is when a job is due, as it was written.
func scheduleOf(s api.JobSpec) string { return strings.Join(s.Schedules(), " | ") }

// nextRuns is the server's list of next runs, continued here when it is shorter
// than what is wanted. The first of them is the anchor of @every.
func nextRuns(j api.Job, n int) (explanation, error) {
	e := explanation{ScheduleExpr: j.ScheduleExpr, ScheduleExprs: j.ScheduleExprs, TimeZone: zoneOf(j.JobSpec)}
	e.Description = j.ScheduleDescription
	e.NextRuns, e.NextRunsLocal, e.Warnings = j.NextRuns, j.NextRunsLocal, j.Warnings
	if have := len(e.NextRuns); have > 0 && have < n && len(e.NextRunsLocal) == have {
		t := timingOf(j.JobID, j.JobSpec)
		t.Anchor = e.NextRuns[0]
		if j.LastSlot != nil {
			t.EndsAt = j.LastSlot.Add(time.Millisecond)
		}
		more, err := explain(t, 0, e.NextRuns[have-1], n-have)
		if err != nil {
			return explanation{}, err
		}
		e.NextRuns = append(e.NextRuns, more.NextRuns...)
		e.NextRunsLocal = append(e.NextRunsLocal, more.NextRunsLocal...)
	}
	if len(e.NextRuns) > n {
		e.NextRuns, e.NextRunsLocal = e.NextRuns[:n], e.NextRunsLocal[:min(n, len(e.NextRunsLocal))]
	}
	return e, nil
}

// timingOf is the schedule of a job as the domain has it.
func timingOf(jobID string, s api.JobSpec) job.Timing {
	all := s.Schedules()
	t := job.Timing{Expr: all[0], Exprs: all[1:], Seconds: s.Seconds, Zone: zoneOf(s), Job: jobID, Triggered: len(s.DependsOn) > 0}
	if s.Jitter != nil {
		t.Jitter = time.Duration(*s.Jitter)
	}
	for _, text := range s.Exclude {
		if day, ok := job.ParseDay(text); ok {
			t.Exclude = append(t.Exclude, day)
		}
	}
	if s.DST != nil {
		t.Gap, t.Fold = job.GapRule(s.DST.Gap), job.FoldRule(s.DST.Fold)
	}
	if s.StartsAt != nil {
		t.StartsAt = *s.StartsAt
	}
	if s.EndsAt != nil {
		t.EndsAt = *s.EndsAt
	}
	return t
}

func (a *app) printNext(e explanation) error {
	if a.format != output.Table {
		return a.printExplanation(e, time.Time{})
	}
	if len(e.NextRuns) == 0 {
		a.note("nothing is due any more")
		return nil
	}
	return printRuns(a, e.NextRuns, e.NextRunsLocal)
}

// completeJob offers ids of jobs that begin with what is typed.
func (a *app) completeJob(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	a.requestTimeout = time.Second
	c, err := a.client("")
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for j, err := range c.Jobs(cmd.Context(), client.Filter{IDPrefix: typed}, 50) {
		if err != nil || len(ids) == 50 {
			break
		}
		ids = append(ids, fmt.Sprintf("%s\t%s", j.Value.JobID, scheduleOf(j.Value.JobSpec)))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
