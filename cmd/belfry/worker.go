package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/outside"
	"github.com/belfry-scheduler/belfry/messages/job"
)

func newWorker(a *app) *cobra.Command {
	w := outside.Config{Stdout: a.stdout, Stderr: a.stderr, Note: a.note}
	cmd := &cobra.Command{
		Use:   "worker --queue NAME -- COMMAND [ARG…]",
		Short: "Run a command for each execution of a queue",
		Long: `Run a command for each execution of a queue: of the jobs whose target is {"queue": "NAME"}.

The payload comes on stdin. The environment has BELFRY_EXECUTION_ID, BELFRY_JOB_ID, BELFRY_QUEUE,
BELFRY_SCHEDULED_FOR, BELFRY_ATTEMPT and BELFRY_IDEMPOTENCY_KEY, the same for each attempt. Exit
code 0 is success; anything else is retried as the job says. The end of what the command prints is
kept in the history.

While it runs its lease is extended. It is killed with all that it has started at the job's timeout,
and when the lease is lost, since another worker may begin then. The first SIGTERM or SIGINT lets
what runs finish and claims no more; the second kills it.`,
		Example: "  belfry worker --queue emails --concurrency 4 -- ./send-email\n  belfry worker --queue backups -- sh -c 'tar czf \"/backup/$BELFRY_EXECUTION_ID.tgz\" /data'",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("worker needs a command to run: belfry worker --queue NAME -- COMMAND [ARG…]")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			w.Command = args
			return a.work(cmd.Context(), w)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&w.Queue, "queue", "default", "the queue to claim from")
	flags.StringVar(&w.Name, "name", workerName(), "name of this worker, shown with what it claims")
	flags.IntVar(&w.Concurrency, "concurrency", 1, "how many commands run at once, at most")
	flags.DurationVar(&w.Lease, "lease", 30*time.Second, "how long the server waits for a sign of life before another worker gets what this one has, 1s to 1h")
	return cmd
}

// workerName tells workers apart: host and process.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return host + "-" + strconv.Itoa(os.Getpid())
}

const maxConcurrency = 256

func (a *app) work(ctx context.Context, w outside.Config) error {
	switch {
	case !job.QueueName(w.Queue):
		return usage("--queue: %q cannot be the name of a queue: use 1 to %d of A-Z a-z 0-9 . _ -", w.Queue, job.MaxActorName)
	case w.Concurrency < 1 || w.Concurrency > maxConcurrency:
		return usage("--concurrency: %d is not from 1 to %d", w.Concurrency, maxConcurrency)
	case w.Lease < time.Second || w.Lease > time.Hour:
		return usage("--lease: %v is not from 1s to 1h", w.Lease)
	}
	if _, err := exec.LookPath(w.Command[0]); err != nil {
		return usage("the command cannot be run: %w", err)
	}
	a.requestTimeout = 0 // each request has its own
	c, err := a.client("")
	if err != nil {
		return err
	}
	defer c.Close()
	w.API, w.Environ = c, a.environ()
	kill, end := context.WithCancel(context.Background())
	defer end()
	hurry := func() {
		a.note("what runs is killed")
		end()
	}
	a.hurry.Store(&hurry)
	defer a.hurry.Store(nil)
	context.AfterFunc(ctx, func() { a.note("no more is claimed: what runs is left to finish; a second signal kills it") })
	a.note("%s claims from %s at %s", w.Name, w.Queue, c.Server())
	if err := outside.Run(ctx, kill, w); err != nil {
		return fmt.Errorf("claim from %s: %w", w.Queue, err)
	}
	return nil
}
