package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

// backfillFlags are those of jobs backfill.
type backfillFlags struct {
	from, to    instantFlag
	overlap     string
	concurrency int
	newKey      bool
	dry, wait   bool
	limit       time.Duration
	key, cancel string
}

func newJobsBackfill(a *app) *cobra.Command {
	var f backfillFlags
	cmd := &cobra.Command{
		Use:   "backfill ID",
		Short: "Run the slots of a range of the past again",
		Long: "Run exactly the slots that the job's schedule has in a range, oldest first, beside the schedule.\n" +
			"Each is an execution of its own under the key of the slot's first one: a target that has seen that does nothing, unless --new-key asks for a second effect.",
		Example: `  belfry jobs backfill daily-report --from 2026-01-01T00:00:00Z --to 2026-01-08T00:00:00Z --dry-run
  belfry jobs backfill daily-report --from 2026-01-01T00:00:00Z --to 2026-01-08T00:00:00Z --wait
  belfry jobs backfill daily-report --cancel BACKFILL_ID`,
		Args:              exactly("the id of a job"),
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(f.key)
			switch {
			case err != nil:
				return err
			case f.cancel != "":
				return a.cancelBackfill(cmd.Context(), c, args[0], f)
			case f.from.IsZero():
				return usage("--from is missing: give the first instant of the range, such as 2026-01-01T00:00:00Z")
			}
			return a.backfill(cmd.Context(), c, args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.Var(&f.from, "from", "the first instant of the range")
	flags.Var(&f.to, "to", "the first instant after the range (default now)")
	flags.StringVar(&f.overlap, "overlap", "", "queue (default): one execution after another; allow: several at once")
	flags.IntVar(&f.concurrency, "concurrency", 0, "with --overlap allow: how many at once (default 4)")
	flags.BoolVar(&f.newKey, "new-key", false, "a second effect on purpose: not the keys of the slots' first executions")
	flags.BoolVar(&f.dry, "dry-run", false, "say how many slots there are, and run nothing")
	flags.BoolVar(&f.wait, "wait", false, "wait for the end; exit code 8 when not all succeeded")
	flags.DurationVar(&f.limit, "wait-timeout", 0, "how long to wait; 0 for as long as it takes")
	flags.StringVar(&f.cancel, "cancel", "", "run nothing more of the backfill of this id")
	flags.StringVar(&f.key, "idempotency-key", "", "a backfill repeated under the same key is one (default a random key)")
	return cmd
}

func (f *backfillFlags) request() api.BackfillRequest {
	req := api.BackfillRequest{From: &f.from.Time, Overlap: f.overlap, NewKey: f.newKey}
	if !f.to.IsZero() {
		req.To = &f.to.Time
	}
	if f.concurrency != 0 {
		req.Concurrency = &f.concurrency
	}
	return req
}

func (a *app) backfill(ctx context.Context, c *client.Client, jobID string, f backfillFlags) error {
	b, err := c.Backfill(ctx, jobID, f.request(), client.Change{ValidateOnly: f.dry})
	switch {
	case err != nil:
		return err
	case f.dry:
		a.note("%d slots of %s would run", b.Value.Total, output.Printable(jobID))
		return a.printBackfill(b)
	}
	a.note("backfill %s of %s: %d slots", b.Value.BackfillID, output.Printable(jobID), b.Value.Total)
	if !f.wait {
		return a.printBackfill(b)
	}
	return a.awaitBackfill(ctx, c, b.Value, f.limit)
}

// awaitBackfill follows a backfill to its end and fails with code 8 unless all
// of it succeeded.
func (a *app) awaitBackfill(ctx context.Context, c *client.Client, b api.Backfill, limit time.Duration) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errWaited)
		defer cancel()
	}
	shown := int64(0)
	end, err := c.AwaitBackfill(ctx, b.JobID, b.BackfillID, func(b api.Backfill) {
		if b.Done > shown {
			shown = b.Done
			a.note("%d of %d", b.Done, b.Total)
		}
	})
	if errors.Is(context.Cause(ctx), errWaited) {
		return &coded{exitUnavailable, fmt.Errorf("the backfill has not ended after %s; `belfry jobs get %s` shows how far it is", limit, b.JobID)}
	}
	if err != nil {
		return err
	}
	if err := a.printBackfill(end); err != nil {
		return err
	}
	if v := end.Value; v.Succeeded != v.Total {
		return &coded{exitRunFailed, fmt.Errorf("of %d slots %d failed and %d were cancelled", v.Total, v.Failed, v.Cancelled)}
	}
	return nil
}

func (a *app) cancelBackfill(ctx context.Context, c *client.Client, jobID string, f backfillFlags) error {
	if !f.from.IsZero() || f.dry {
		return usage("--cancel is about a backfill that goes on: leave the other flags out")
	}
	if err := c.CancelBackfill(ctx, jobID, f.cancel); err != nil {
		return err
	}
	b, err := c.BackfillOf(ctx, jobID, f.cancel)
	if err != nil {
		return err
	}
	a.note("cancelled %s", output.Printable(f.cancel))
	return a.printBackfill(b)
}

type backfillDoc = client.Doc[api.Backfill]

func (a *app) printBackfill(b backfillDoc) error {
	cell := func(f func(api.Backfill) string) func(backfillDoc) string {
		return func(b backfillDoc) string { return f(b.Value) }
	}
	return output.One(a.stdout, a.format, output.View[backfillDoc]{
		Name: cell(func(b api.Backfill) string { return b.BackfillID }),
		Columns: []output.Column[backfillDoc]{
			{Header: "BACKFILL ID", Cell: cell(func(b api.Backfill) string { return orDash(b.BackfillID) })},
			{Header: "STATUS", Cell: cell(func(b api.Backfill) string { return orDash(b.Status) })},
			{Header: "FROM", Cell: cell(func(b api.Backfill) string { return instant(&b.From) })},
			{Header: "TO", Cell: cell(func(b api.Backfill) string { return instant(&b.To) })},
			{Header: "DONE", Cell: cell(func(b api.Backfill) string { return fmt.Sprintf("%d/%d", b.Done, b.Total) })},
			{Header: "FAILED", Cell: cell(func(b api.Backfill) string { return fmt.Sprint(b.Failed) })},
			{Header: "NEXT", Cell: cell(func(b api.Backfill) string { return instant(b.Next) })},
		},
	}, b)
}
