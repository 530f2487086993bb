package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

func newJobsExplain(a *app) *cobra.Command {
	var at instantFlag
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Say why a job did or did not run at an instant, or does not run now",
		Example: `  belfry jobs explain daily-report
  belfry jobs explain daily-report --at 2026-03-29T02:30:00+01:00`,
		Args:              exactly("the id of a job"),
		ValidArgsFunction: a.completeJob,
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			e, err := c.Explain(ctx, args[0], at.Time)
			if err != nil {
				return err
			}
			return a.printWhy(e)
		}),
	}
	cmd.Flags().Var(&at, "at", "the instant (default: why it does not run now)")
	return cmd
}

func (a *app) printWhy(e client.Doc[api.Explanation]) error {
	if a.format != output.Table {
		return output.One(a.stdout, a.format, output.View[client.Doc[api.Explanation]]{
			Name: func(e client.Doc[api.Explanation]) string { return e.Value.Verdict },
		}, e)
	}
	f, v := facts{a.stdout}, e.Value
	f.line("Job", v.JobID)
	f.line("At", instant(&v.At))
	f.line("Verdict", v.Verdict)
	f.line("Because", v.Reason)
	for _, x := range v.Executions {
		f.line("Execution", fmt.Sprintf("%s: %s", x.ExecutionID, x.Status))
	}
	f.line("Slot before", instant(v.PreviousSlot))
	f.line("Slot after", instant(v.NextSlot))
	return nil
}
