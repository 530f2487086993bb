package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

func newExecutions(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "executions",
		Aliases: []string{"execution", "exec"},
		Short:   "Show what ran, watch it run, and cancel it",
	}, newExecutionsList(a), newExecutionsGet(a), newExecutionsWatch(a), newExecutionsCancel(a), newExecutionsRetry(a))
}

type executionDoc = client.Doc[api.Execution]

func executionView() output.View[executionDoc] {
	return output.View[executionDoc]{
		Name: func(e executionDoc) string { return e.Value.ExecutionID },
		Columns: []output.Column[executionDoc]{
			{Header: "SCHEDULED FOR", Cell: scheduledCell},
			{Header: "STATUS", Cell: func(e executionDoc) string { return e.Value.Status }},
			{Header: "ATTEMPTS", Cell: func(e executionDoc) string { return strconv.Itoa(e.Value.AttemptCount) }},
			{Header: "LATENESS", Cell: func(e executionDoc) string { return lateness(e.Value) }},
			{Header: "EXECUTION ID", Cell: func(e executionDoc) string { return e.Value.ExecutionID }},
			{Header: "REASON", Cell: func(e executionDoc) string { return reasonOf(e.Value) }},
		},
	}
}

func scheduledCell(e executionDoc) string {
	if r := e.Value.Range; r != nil {
		return fmt.Sprintf("%s … %s (%d)", instant(&r.First), instant(&r.Last), r.Count)
	}
	return instant(&e.Value.ScheduledFor)
}

func lateness(e api.Execution) string {
	if e.LatenessMS == nil {
		return "-"
	}
	return ms(time.Duration(*e.LatenessMS) * time.Millisecond)
}

func reasonOf(e api.Execution) string {
	return strings.TrimSuffix(strings.TrimPrefix(e.Reason+": "+e.Error, ": "), ": ")
}

func newExecutionsList(a *app) *cobra.Command {
	limit := limitFlag(20)
	cmd := &cobra.Command{
		Use:               "list JOB",
		Aliases:           []string{"ls"},
		Short:             "List the executions of a job, newest first",
		Args:              exactly("the id of a job"),
		ValidArgsFunction: a.completeJob,
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			w, n := output.NewWriter(a.stdout, a.format, executionView()), 0
			for e, err := range c.Executions(ctx, args[0], pageSize(int(limit))) {
				if err != nil {
					return err
				}
				if err := w.Add(e); err != nil {
					return err
				}
				if n++; n == int(limit) {
					break
				}
			}
			return w.Close()
		}),
	}
	cmd.Flags().Var(&limit, "limit", "at most this many; 0 for all")
	return cmd
}

func newExecutionsGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Show an execution with all its attempts",
		Args:  exactly("the id of an execution"),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			e, err := c.Execution(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printExecution(e)
		}),
	}
}

func newExecutionsCancel(a *app) *cobra.Command {
	var req api.CancelRequest
	cmd := &cobra.Command{
		Use:   "cancel ID…",
		Short: "Cancel executions that wait, and end those that run",
		Long: `Cancel executions. What waits is cancelled at once. What runs is told to end; whether the
target did the work is unknown then, unless it had answered.`,
		Args: atLeastOne("id of an execution"),
		RunE: a.asking(func(ctx context.Context, c *client.Client, ids []string) error {
			var t tally
			for _, id := range ids {
				e, err := c.Cancel(ctx, id, req)
				switch {
				case err != nil:
				case e.Value.Status == string(job.Cancelled):
					a.note("cancelled %s", output.Printable(id))
				default:
					a.note("told the worker of %s to end it", output.Printable(id))
				}
				t.add(a.stderr, id, err)
			}
			return t.err()
		}),
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "for the record")
	return cmd
}

// printExecution prints an execution; as a table with its attempts.
func (a *app) printExecution(e client.Doc[api.ExecutionDetail]) error {
	if a.format != output.Table {
		view := output.View[client.Doc[api.ExecutionDetail]]{
			Name: func(e client.Doc[api.ExecutionDetail]) string { return e.Value.ExecutionID },
		}
		return output.One(a.stdout, a.format, view, e)
	}
	f, v := facts{a.stdout}, e.Value
	f.line("Execution", v.ExecutionID)
	f.line("Job", v.JobID)
	f.line("Status", strings.TrimSuffix(v.Status+": "+v.Reason, ": "))
	f.line("Scheduled for", instant(&v.ScheduledFor))
	if v.Range != nil {
		f.line("Stands for", fmt.Sprintf("%d runs from %s to %s", v.Range.Count, instant(&v.Range.First), instant(&v.Range.Last)))
	}
	f.line("Trigger", v.Trigger)
	f.line("Due", instant(v.Due))
	f.line("First sent", instant(v.SentAt))
	f.line("Lateness", lateness(v.Execution))
	f.line("Next attempt", instant(v.NextAttemptAt))
	f.line("Finished", instant(v.FinishedAt))
	f.line("Error", v.Error)
	if len(v.Attempts) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	return printAll(a, attemptView(), v.Attempts)
}

func attemptView() output.View[api.Attempt] {
	return output.View[api.Attempt]{
		Columns: []output.Column[api.Attempt]{
			{Header: "ATTEMPT", Cell: func(t api.Attempt) string { return strconv.Itoa(t.Attempt) }},
			{Header: "OUTCOME", Cell: func(t api.Attempt) string { return t.Outcome }},
			{Header: "SENT", Cell: func(t api.Attempt) string { return instant(t.SentAt) }},
			{Header: "ANSWERED", Cell: func(t api.Attempt) string { return instant(t.AnsweredAt) }},
			{Header: "CODE", Cell: codeCell},
			{Header: "ERROR", Cell: func(t api.Attempt) string { return shorten(t.Error) }},
		},
	}
}

func codeCell(t api.Attempt) string {
	if t.StatusCode == 0 {
		return "-"
	}
	return strconv.Itoa(t.StatusCode)
}
