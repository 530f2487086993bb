package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

func newJobsDescribe(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "describe ID",
		Short:             "Show all about a job: definition, next runs, recent executions",
		Args:              exactly("the id of a job"),
		ValidArgsFunction: a.completeJob,
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			j, err := c.Get(ctx, args[0])
			if err != nil {
				return err
			}
			if a.format != output.Table {
				return output.One(a.stdout, a.format, jobView(), j)
			}
			describeJob(facts{a.stdout}, j.Value)
			return a.describeRuns(ctx, c, j.Value)
		}),
	}
}

// facts prints lines of a name and a value; empty values are left out.
type facts struct{ w io.Writer }

func (f facts) line(name, value string) {
	if value != "" && value != "-" {
		fmt.Fprintf(f.w, "%-18s %s\n", name, output.Printable(value))
	}
}

func describeJob(f facts, j api.Job) {
	f.line("Job", j.JobID)
	f.line("Description", j.Description)
	f.line("Labels", pairs(j.Labels, "="))
	f.line("Status", strings.TrimSuffix(j.Status+": "+j.StatusReason, ": "))
	f.line("Not running", j.NotRunning)
	if len(j.DependsOn) == 0 {
		f.line("Schedule", scheduleOf(j.JobSpec)+" in "+zoneOf(j.JobSpec))
	}
	f.line("In words", j.ScheduleDescription)
	f.line("Depends on", strings.Join(j.DependsOn, ", "))
	f.line("Dependents", strings.Join(j.Dependents, ", "))
	f.line("Starts at", instant(j.StartsAt))
	f.line("Ends at", instant(j.EndsAt))
	f.line("Left out", strings.Join(j.Exclude, " "))
	if j.Jitter != nil {
		f.line("Jitter", j.Jitter.String())
	}
	if j.MaxRuns != nil && j.RunsGiven != nil {
		f.line("Runs", fmt.Sprintf("%d of %d", *j.RunsGiven, *j.MaxRuns))
	}
	describeTarget(f, j.Target)
	describePolicies(f, j.JobSpec)
	f.line("Revision", fmt.Sprintf("%d of generation %d", j.Revision, j.Generation))
	f.line("Created", instant(j.CreatedAt))
	f.line("Updated", instant(j.UpdatedAt))
	if n := j.Counts; n != nil {
		f.line("Executions", fmt.Sprintf("%d succeeded, %d failed, %d missed, %d skipped, %d cancelled, %d in flight",
			n.Succeeded, n.Failed, n.Missed, n.Skipped, n.Cancelled, j.InFlight))
	}
	for _, b := range j.Backfills {
		f.line("Backfill", fmt.Sprintf("%s: %s, %d of %d slots", b.BackfillID, b.Status, b.Done, b.Total))
	}
	for _, w := range j.Warnings {
		f.line("Warning", w)
	}
}

func describeTarget(f facts, t *api.Target) {
	switch {
	case t == nil:
	case t.HTTP != nil:
		f.line("Target", t.HTTP.Method+" "+t.HTTP.URL)
		f.line("Headers", pairs(t.HTTP.Headers, ": "))
		f.line("Signed with", t.HTTP.SigningSecretRef)
		if t.HTTP.Body != nil {
			f.line("Body", shorten(*t.HTTP.Body))
		}
		f.line("JSON", shorten(string(t.HTTP.JSON)))
	case t.Actor != nil:
		f.line("Target", "actor "+t.Actor.Kind+"/"+t.Actor.Identity)
		f.line("Payload", shorten(string(t.Actor.Payload)))
	case t.Queue != nil:
		f.line("Target", "queue "+t.Queue.Name)
		f.line("Payload", shorten(string(t.Queue.Payload)))
	case t.NATS != nil:
		f.line("Target", "NATS subject "+t.NATS.Subject+" of broker "+t.NATS.Broker)
		f.line("Headers", pairs(t.NATS.Headers, ": "))
		f.line("Payload", shorten(string(t.NATS.Payload)))
	case t.Kafka != nil:
		f.line("Target", "Kafka topic "+t.Kafka.Topic+" of broker "+t.Kafka.Broker)
		f.line("Key", t.Kafka.Key)
		f.line("Headers", pairs(t.Kafka.Headers, ": "))
		f.line("Payload", shorten(string(t.Kafka.Payload)))
	}
	if t != nil && t.KeyLifetime != nil {
		f.line("Key lifetime", t.KeyLifetime.String())
	}
}

func describePolicies(f facts, s api.JobSpec) {
	if s.Timeout != nil {
		f.line("Timeout", s.Timeout.String())
	}
	if r := s.Retry; r != nil && r.MaxAttempts != nil && r.InitialBackoff != nil && r.MaxBackoff != nil {
		f.line("Retry", fmt.Sprintf("%d attempts, pauses from %s to %s", *r.MaxAttempts, r.InitialBackoff, r.MaxBackoff))
	}
	if c := s.CatchUp; c != nil {
		f.line("Catch-up", c.Policy)
	}
	switch {
	case s.Overlap == string(job.OverlapQueued) && s.OverlapQueue != nil:
		f.line("Overlap", fmt.Sprintf("queue, at most %d wait", *s.OverlapQueue))
	case s.Overlap != string(job.OverlapAllow):
		f.line("Overlap", s.Overlap)
	}
	if r := s.RateLimit; r != nil && r.Burst != nil {
		f.line("Rate limit", fmt.Sprintf("%g a second, %d at once", r.PerSecond, *r.Burst))
	}
	if s.OnOpenCircuit != string(job.OpenCircuitWait) {
		f.line("Open circuit", s.OnOpenCircuit)
	}
}

// describeRuns shows what is next and what was last.
func (a *app) describeRuns(ctx context.Context, c *client.Client, j api.Job) error {
	if len(j.NextRuns) > 0 {
		fmt.Fprintln(a.stdout, "\nNext runs")
		if err := printRuns(a, j.NextRuns, j.NextRunsLocal); err != nil {
			return err
		}
	}
	const recent = 5
	w, n := output.NewWriter(a.stdout, output.Table, executionView()), 0
	for e, err := range c.Executions(ctx, j.JobID, recent) {
		if err != nil {
			return err
		}
		if err := w.Add(e); err != nil {
			return err
		}
		if n++; n == recent {
			break
		}
	}
	if n == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout, "\nRecent executions")
	return w.Close()
}

// pairs is a map on one line, in the order of its keys.
func pairs(m map[string]string, sep string) string {
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+sep+m[k])
	}
	return strings.Join(parts, ", ")
}

func shorten(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}

// ms is a duration in a table.
func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
