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
	"github.com/belfry-scheduler/belfry/messages/job"
)

func newJobsPause(a *app) *cobra.Command {
	var req api.PauseRequest
	cmd := a.eachJob(&cobra.Command{
		Use:   "pause ID…",
		Short: "Stop jobs from being due; what is running goes on",
	}, "paused", func(ctx context.Context, c *client.Client, id string) (jobDoc, error) {
		return c.Pause(ctx, id, req)
	})
	cmd.Flags().StringVar(&req.Reason, "reason", "", "shown with the job")
	return cmd
}

func newJobsResume(a *app) *cobra.Command {
	var req api.ResumeRequest
	cmd := a.eachJob(&cobra.Command{
		Use:   "resume ID…",
		Short: "Let paused jobs be due again, from the next time on",
	}, "resumed", func(ctx context.Context, c *client.Client, id string) (jobDoc, error) {
		return c.Resume(ctx, id, req)
	})
	cmd.Flags().StringVar(&req.Reason, "reason", "", "for the record")
	cmd.Flags().BoolVar(&req.CatchUp, "catch-up", false, "treat the time of the pause as an outage: the job's catch-up policy decides what runs")
	return cmd
}

// eachJob makes a command that does one thing to every job it is given and
// prints the jobs.
func (a *app) eachJob(cmd *cobra.Command, done string, act func(context.Context, *client.Client, string) (jobDoc, error)) *cobra.Command {
	cmd.Args = atLeastOne("id of a job")
	cmd.ValidArgsFunction = a.completeJob
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, ids []string) error {
		var t tally
		var docs []jobDoc
		for _, id := range ids {
			j, err := act(ctx, c, id)
			if err == nil {
				docs = append(docs, j)
				a.note("%s %s", done, output.Printable(id))
			}
			t.add(a.stderr, id, err)
		}
		if err := a.printJobs(docs, len(ids) == 1); err != nil {
			return err
		}
		return t.err()
	})
	return cmd
}

func (a *app) printJobs(docs []jobDoc, single bool) error {
	switch {
	case len(docs) == 0:
		return nil
	case single:
		return output.One(a.stdout, a.format, jobView(), docs[0])
	}
	return printAll(a, jobView(), docs)
}

func newJobsDelete(a *app) *cobra.Command {
	var (
		ifMatch string
		missing bool
		cascade bool
	)
	cmd := &cobra.Command{
		Use:               "delete ID…",
		Aliases:           []string{"rm"},
		Short:             "Delete jobs; their executions stay readable",
		Args:              atLeastOne("id of a job"),
		ValidArgsFunction: a.completeJob,
		RunE: a.asking(func(ctx context.Context, c *client.Client, ids []string) error {
			var t tally
			for _, id := range ids {
				err := c.Delete(ctx, id, client.Change{IfMatch: etag(ifMatch), Cascade: cascade})
				var problem *api.Problem
				if missing && errors.As(err, &problem) && problem.Code == api.CodeJobNotFound {
					a.note("%s does not exist", output.Printable(id))
					err = nil
				} else if err == nil {
					a.note("deleted %s", output.Printable(id))
				}
				t.add(a.stderr, id, err)
			}
			return t.err()
		}),
	}
	cmd.Flags().StringVar(&ifMatch, "if-revision", "", "delete it only if it still has this revision")
	cmd.Flags().BoolVar(&cascade, "cascade", false, "delete the jobs that depend on it as well")
	cmd.Flags().BoolVar(&missing, "ignore-not-found", false, "a job that does not exist is no error")
	return cmd
}

func newJobsTrigger(a *app) *cobra.Command {
	var (
		waitFor bool
		limit   time.Duration
		key     string
	)
	cmd := &cobra.Command{
		Use:               "trigger ID",
		Aliases:           []string{"run"},
		Short:             "Run a job now, beside its schedule",
		Example:           "  belfry jobs trigger daily-report --wait",
		Args:              exactly("the id of a job"),
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(key)
			if err != nil {
				return err
			}
			t, err := c.Trigger(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			a.note("triggered %s: %s", output.Printable(args[0]), t.Value.ExecutionID)
			if !waitFor {
				return output.One(a.stdout, a.format, triggeredView(), t)
			}
			return a.await(cmd.Context(), c, t.Value.ExecutionID, limit)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&waitFor, "wait", false, "wait for the end, retries included; exit code 8 when it did not succeed")
	flags.DurationVar(&limit, "wait-timeout", 0, "how long to wait; 0 for as long as it takes")
	flags.StringVar(&key, "idempotency-key", "", "a trigger repeated under the same key runs once (default a random key)")
	return cmd
}

func triggeredView() output.View[client.Doc[api.Triggered]] {
	return output.View[client.Doc[api.Triggered]]{
		Name: func(t client.Doc[api.Triggered]) string { return t.Value.ExecutionID },
		Columns: []output.Column[client.Doc[api.Triggered]]{
			{Header: "EXECUTION ID", Cell: func(t client.Doc[api.Triggered]) string { return t.Value.ExecutionID }},
			{Header: "SCHEDULED FOR", Cell: func(t client.Doc[api.Triggered]) string { return instant(&t.Value.ScheduledFor) }},
		},
	}
}

// await follows an execution to its end and fails with code 8 unless it
// succeeded.
func (a *app) await(ctx context.Context, c *client.Client, id string, limit time.Duration) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errWaited)
		defer cancel()
	}
	e, err := c.Await(ctx, id)
	if errors.Is(context.Cause(ctx), errWaited) {
		return &coded{exitUnavailable, fmt.Errorf("%s has not ended after %s; `belfry executions get %s` shows where it stands", id, limit, id)}
	}
	if err != nil {
		return err
	}
	if err := a.printExecution(e); err != nil {
		return err
	}
	if e.Value.Status != string(job.Succeeded) {
		return &coded{exitRunFailed, fmt.Errorf("%s ended as %s%s", id, e.Value.Status, because(e.Value))}
	}
	return nil
}

var errWaited = errors.New("waited long enough")

func because(e api.ExecutionDetail) string {
	switch {
	case e.Error != "":
		return ": " + e.Error
	case e.Reason != "":
		return ": " + e.Reason
	}
	return ""
}
