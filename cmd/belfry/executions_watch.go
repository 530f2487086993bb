package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

// watch is what to follow and how far.
type watch struct {
	a      *app
	job    string
	prefix string
	after  string
	count  int
	all    bool

	line output.Writer[client.Doc[api.Event]]
	seen int
}

func newExecutionsWatch(a *app) *cobra.Command {
	w := &watch{a: a}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show executions as they happen, until interrupted",
		Long: `Show executions as they happen, until interrupted. When the connection breaks it is made
again where it was, so that nothing is missed unless the server says so.`,
		Example: "  belfry executions watch --job daily-report\n  belfry executions watch -o jsonl --count 10",
		Args:    exactly(),
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			err := c.Follow(ctx, w.after, w.follower())
			if errors.Is(err, errEnough) {
				return w.line.Close()
			}
			return err
		}),
	}
	cmd.PreRun = func(*cobra.Command, []string) { w.line = eventWriter(a) }
	flags := cmd.Flags()
	flags.Var(textFlag{&w.job}, "job", "only this job")
	flags.Var(textFlag{&w.prefix}, "id-prefix", "only jobs whose id begins with this")
	flags.StringVar(&w.after, "after", "", "begin after the event of this id")
	flags.IntVar(&w.count, "count", 0, "stop after this many events; 0 for never")
	flags.BoolVar(&w.all, "all", false, "also show what happens to jobs (created, updated, paused, …) and to circuits of hosts")
	return cmd
}

func (w *watch) follower() client.Follower {
	f := client.Follower{JobID: w.job, Type: "execution.", Event: w.event, Lost: w.lost, Retry: w.retry}
	if w.all {
		f.Type = ""
	}
	return f
}

var errEnough = errors.New("as many events as asked for")

func (w *watch) event(e client.Doc[api.Event]) error {
	if !strings.HasPrefix(e.Value.JobID, w.prefix) {
		return nil
	}
	if err := w.line.Add(e); err != nil {
		return err
	}
	if w.seen++; w.seen == w.count {
		return errEnough
	}
	return nil
}

func (w *watch) lost() {
	w.a.note("some events are missing here: the server no longer had them when the connection was made again")
}

func (w *watch) retry(err error, in time.Duration) {
	why := ""
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		why = ": " + err.Error()
	}
	w.a.note("connection lost%s; trying again in %s", why, in)
}

// eventWriter prints each event at once: a table would wait for the last.
func eventWriter(a *app) output.Writer[client.Doc[api.Event]] {
	switch a.format {
	case output.Table:
		return &eventLines{w: a.stdout, colour: output.Colour(a.stdout)}
	case output.JSON:
		return output.NewWriter(a.stdout, output.JSONL, output.View[client.Doc[api.Event]]{})
	}
	return output.NewWriter(a.stdout, a.format, output.View[client.Doc[api.Event]]{
		Name: func(e client.Doc[api.Event]) string { return e.Value.ExecutionID },
	})
}

type eventLines struct {
	w      io.Writer
	colour bool
}

func (l *eventLines) Add(e client.Doc[api.Event]) error {
	v := e.Value
	_, err := fmt.Fprintln(l.w, eventLine(happening{
		at: v.At, job: cmp.Or(v.JobID, v.Host), kind: v.Type, attempt: v.Attempt, late: time.Duration(v.LatenessMS) * time.Millisecond, reason: v.Reason, catchUp: v.CatchUp,
	}, l.colour))
	return err
}

func (l *eventLines) Close() error { return nil }
