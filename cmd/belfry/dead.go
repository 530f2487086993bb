package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

func newDeadLetters(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "dead-letters",
		Aliases: []string{"dead-letter", "dead"},
		Short:   "Show, replay and purge executions whose attempts are exhausted",
	}, newDeadList(a), newDeadRetry(a), newDeadPurge(a))
}

func deadView() output.View[client.Doc[api.DeadLetter]] {
	type doc = client.Doc[api.DeadLetter]
	return output.View[doc]{
		Name: func(d doc) string { return d.Value.ExecutionID },
		Columns: []output.Column[doc]{
			{Header: "FAILED AT", Cell: func(d doc) string { return instant(&d.Value.FailedAt) }},
			{Header: "ATTEMPTS", Cell: func(d doc) string { return strconv.Itoa(d.Value.Attempts) }},
			{Header: "ANSWERS", Cell: func(d doc) string { return d.Value.Advice }},
			{Header: "EXECUTION ID", Cell: func(d doc) string { return d.Value.ExecutionID }},
			{Header: "REASON", Cell: func(d doc) string { return reasonOf(api.Execution{Reason: d.Value.Reason, Error: d.Value.LastError}) }},
		},
	}
}

// deadFlags select dead letters.
type deadFlags struct {
	filter       client.DeadFilter
	since, until instantFlag
}

func (f *deadFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(textFlag{&f.filter.JobID}, "job", "of this job")
	flags.StringArrayVarP(&f.filter.Labels, "label", "l", nil, "with this label, as key=value; may be given more than once")
	flags.Var(textFlag{&f.filter.Reason}, "reason", "whose reason or last error contains this")
	flags.Var(textFlag{&f.filter.Attempts}, "attempts", "answered: all were; unknown: at least one was not")
	flags.Var(&f.since, "since", "failed at or after this instant")
	flags.Var(&f.until, "until", "failed before this instant")
}

func (f *deadFlags) get() client.DeadFilter {
	f.filter.Since, f.filter.Until = f.since.String(), f.until.String()
	return f.filter
}

func newDeadList(a *app) *cobra.Command {
	var f deadFlags
	limit := limitFlag(50)
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List dead letters, those of a job together",
		Args:    exactly(),
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			w, n := output.NewWriter(a.stdout, a.format, deadView()), 0
			for d, err := range c.DeadLetters(ctx, f.get(), pageSize(int(limit))) {
				if err != nil {
					return err
				}
				if err := w.Add(d); err != nil {
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

// replayFlags say which key a replay has.
func replayFlags(cmd *cobra.Command, req *api.ReplayRequest) {
	cmd.Flags().BoolVar(&req.NewKey, "new-key", false, "a second effect on purpose: under a key of its own")
	cmd.Flags().BoolVar(&req.SameKey, "same-key", false, "the original's key, although the target may have forgotten it")
}

func newExecutionsRetry(a *app) *cobra.Command {
	var req api.ReplayRequest
	cmd := &cobra.Command{
		Use:   "retry ID…",
		Short: "Replay dead letters: new executions with the original's key, time and payload",
		Args:  atLeastOne("id of an execution"),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return a.replayEach(cmd.Context(), ids, req)
		},
	}
	replayFlags(cmd, &req)
	return cmd
}

func newDeadRetry(a *app) *cobra.Command {
	var (
		f   deadFlags
		req api.ReplayRequest
		all bool
		dry bool
	)
	cmd := &cobra.Command{
		Use:     "retry [ID…]",
		Short:   "Replay the dead letters that are named, or that a filter selects",
		Example: "  belfry dead-letters retry --job daily-report --attempts answered --new-key\n  belfry dead-letters retry --all --dry-run",
		RunE: func(cmd *cobra.Command, ids []string) error {
			filter := f.get()
			if len(ids) == 0 && !all && filter.Empty() {
				return usage("%s needs ids, a filter, or --all", cmd.CommandPath())
			}
			if !dry && len(ids) > 0 {
				return a.replayEach(cmd.Context(), ids, req)
			}
			c, err := a.client("")
			if err != nil {
				return err
			}
			if dry && len(ids) > 0 {
				return usage("--dry-run lists what a filter selects: leave the ids out")
			}
			var found []string
			for d, err := range c.DeadLetters(cmd.Context(), filter, pageSize(0)) {
				if err != nil {
					return err
				}
				found = append(found, d.Value.ExecutionID)
			}
			if dry {
				for _, id := range found {
					fmt.Fprintln(a.stdout, output.Printable(id))
				}
				return nil
			}
			return a.replayEach(cmd.Context(), found, req)
		},
	}
	f.add(cmd)
	replayFlags(cmd, &req)
	cmd.Flags().BoolVar(&all, "all", false, "every dead letter")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only list what would be replayed")
	return cmd
}

func (a *app) replayEach(ctx context.Context, ids []string, req api.ReplayRequest) error {
	c, err := a.client("")
	if err != nil {
		return err
	}
	var t tally
	for _, id := range ids {
		r, err := c.Retry(ctx, id, req)
		if err == nil {
			a.note("replaying %s as %s", output.Printable(id), r.Value.ExecutionID)
		}
		t.add(a.stderr, id, err)
	}
	return t.err()
}

func newDeadPurge(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "purge ID…",
		Short: "Forget dead letters; their history stays",
		Args:  atLeastOne("id of an execution"),
		RunE: a.asking(func(ctx context.Context, c *client.Client, ids []string) error {
			var t tally
			for _, id := range ids {
				err := c.Purge(ctx, id)
				if err == nil {
					a.note("purged %s", output.Printable(id))
				}
				t.add(a.stderr, id, err)
			}
			return t.err()
		}),
	}
}
