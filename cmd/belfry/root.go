package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
)

// app is what all commands share: the streams of the process and the flags of
// the root command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        func() []string

	format         output.Format
	server         string
	requestTimeout time.Duration

	hurry atomic.Pointer[func()] // what the second signal does; nil: the process ends at once
}

const rootLong = `Belfry fires jobs when they are due: register one with a cron expression, an
interval or an instant, and its target is called then, with retries.

Start with:   belfry dev

Data goes to stdout, everything else to stderr. Exit codes: 0 ok, 1 error,
2 usage, 3 not found, 4 not allowed, 5 conflict, 6 partly failed, 7 unavailable,
8 the execution waited for failed, 130 interrupted.`

func newRoot(a *app) *cobra.Command {
	a.format = output.Table
	root := group(&cobra.Command{
		Use:           "belfry",
		Short:         "A job scheduler that fires every time, on time",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &coded{exitUsage, err} })
	flags := root.PersistentFlags()
	flags.VarP(&a.format, "output", "o", "format of data")
	flags.StringVar(&a.server, "server", a.env("BELFRY_SERVER", client.DefaultServer), "URL of the server (BELFRY_SERVER)")
	flags.DurationVar(&a.requestTimeout, "request-timeout", 30*time.Second, "limit of one request with its repeats; 0 for none")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(
		newDev(a), newServer(a), newConfig(a),
		newJobs(a), newExecutions(a), newDeadLetters(a), newSchedule(a),
		newImport(a), newExport(a), newCluster(a), newWorker(a),
		newBench(a), newVersion(a),
	)
	return root
}

// env is a variable of the process's environment, or a default.
func (a *app) env(name, def string) string {
	for _, entry := range a.environ() {
		if value, ok := strings.CutPrefix(entry, name+"="); ok && value != "" {
			return value
		}
	}
	return def
}

// note tells the person at the terminal something that is no data.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, format+"\n", args...)
}

// client connects to the server of --server; key may name the idempotency key.
func (a *app) client(key string) (*client.Client, error) {
	if a.requestTimeout < 0 {
		return nil, usage("--request-timeout %s is negative: 0 is none", a.requestTimeout)
	}
	c, err := client.New(client.Config{
		Server: a.server, Timeout: a.requestTimeout, UserAgent: "belfry-cli/" + buildVersion(), IdempotencyKey: key,
	})
	if err != nil {
		return nil, usage("--server: %w", err)
	}
	return c, nil
}

// asking is what a command does that asks the server of --server.
func (a *app) asking(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client("")
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, args)
	}
}

// openFile opens a file, or stdin for "-".
func openFile(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}

// group is a command that only holds others.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("; did you mean %q?", near[0])
		}
		return usage("%q is not a command of %q%s", args[0], cmd.CommandPath(), hint)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(children...)
	return cmd
}

// exactly wants one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage("%s needs %s", cmd.CommandPath(), strings.Join(names[len(args):], " and "))
		case len(args) > len(names):
			return usage("%s takes %d argument(s), and %q is one more", cmd.CommandPath(), len(names), args[len(names)])
		case slices.Contains(args, ""):
			return usage("%s: %s is empty", cmd.CommandPath(), names[slices.Index(args, "")])
		}
		return nil
	}
}

// atLeastOne wants one or more of something.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("%s needs at least one %s", cmd.CommandPath(), name)
		}
		if slices.Contains(args, "") {
			return usage("%s: a %s is empty", cmd.CommandPath(), name)
		}
		return nil
	}
}
