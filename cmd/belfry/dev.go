package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/demo"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/echo"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/node"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// devFlags are the settings of `belfry dev`; everything else has its default.
type devFlags struct {
	demo            bool
	dataDir, listen string
	level           slog.Level
}

func newDev(a *app) *cobra.Command {
	f := devFlags{level: slog.LevelWarn}
	var level string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Try Belfry: a node with demo jobs and a target for them, in one process",
		Long: `Try Belfry: a node on the embedded store, with demo jobs that call an echo target in the same process.
Loopback addresses are allowed as targets. What is stored stays, and the next start goes on with it.`,
		Example: "  belfry dev\n  belfry dev --demo=false --data-dir ./data --listen 127.0.0.1:9000",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.level.UnmarshalText([]byte(level)); err != nil {
				return usage("--log-level %s: use debug, info, warn or error", level)
			}
			return a.dev(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.demo, "demo", true, "register the demo jobs")
	flags.StringVar(&f.dataDir, "data-dir", a.env("BELFRY_DATA_DIR", devDataDir()), "where jobs are kept")
	flags.StringVar(&f.listen, "listen", a.env("BELFRY_LISTEN", node.DefaultConfig().Listen), "host:port of the HTTP API")
	flags.StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	return cmd
}

// devDataDir is a place that lasts between runs, whichever directory they are
// started in.
func devDataDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "belfry-dev"
	}
	return filepath.Join(cache, "belfry-dev")
}

// dev runs target, node and demo jobs until a signal.
func (a *app) dev(ctx context.Context, f devFlags) (err error) {
	target, err := echo.Start(echoAddr(f.listen))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopEcho(target)) }()
	lines := newEventPrinter(a.stdout)
	defer lines.stop()
	cfg := devConfig(f)
	cfg.OnEvent = lines.event
	cfg.Logger = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: f.level}))
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	failure := a.devServe(ctx, f, n, target)
	a.note("draining: attempts in flight end first; interrupt again to stop at once")
	if err := stopNode(n, cfg.DrainTimeout); err != nil {
		return errors.Join(failure, fmt.Errorf("stop: %w", err))
	}
	a.note("stopped; the next `belfry dev` goes on from here")
	return failure
}

// devServe greets, registers the demo jobs and waits for the end.
func (a *app) devServe(ctx context.Context, f devFlags, n *node.Node, target *echo.Target) error {
	if !ready(ctx, n) {
		return nil
	}
	greet(a.stdout, f, n.URL(), target.URL())
	if f.demo {
		c, err := client.New(client.Config{Server: n.URL(), Timeout: 30 * time.Second})
		if err != nil {
			return err
		}
		defer c.Close()
		if err := demo.Register(ctx, c, target.URL(), time.Now()); err != nil && ctx.Err() == nil {
			return fmt.Errorf("register the demo jobs: %w", err)
		}
	}
	return untilDone(ctx, n)
}

// devConfig is a node that may call loopback.
func devConfig(f devFlags) node.Config {
	cfg := node.DefaultConfig()
	cfg.DataDir, cfg.Listen, cfg.NodeName, cfg.Version = f.dataDir, f.listen, hostname(), buildVersion()
	cfg.AllowTargets = loopback()
	return cfg
}

func loopback() []netip.Prefix { return job.DevPolicy().Allow }

// echoAddr is the port after the API's, so that it is the same at each start.
func echoAddr(listen string) string {
	const free = "127.0.0.1:0"
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return free
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n >= 65535 {
		return free
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(n+1))
}

func stopEcho(t *echo.Target) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return t.Stop(ctx)
}

// greet prints what there is and what to try first.
func greet(w io.Writer, f devFlags, api, target string) {
	server := ""
	if api != client.DefaultServer {
		server = " --server " + api
	}
	fmt.Fprintf(w, `Belfry runs.

  API        %[1]s/v1/jobs
  OpenAPI    %[1]s/openapi.json
  Metrics    %[1]s/metrics
  Health     %[1]s/healthz   ready: %[1]s/readyz
  Events     %[1]s/v1/events
  Echo       %[2]s%[3]s   a target that answers 200 (%[4]s answers 500)
  Data       %[5]s
  Targets    loopback addresses are allowed here: 127.0.0.0/8, ::1

Try:

  curl -s %[1]s/v1/jobs -d '{"job_id":"hello","schedule_expr":"@every 10s","target":"%[2]s%[3]s"}' -H 'Content-Type: application/json'
  belfry jobs list%[6]s
  belfry executions list hello%[6]s

`, api, target, echo.OK, echo.Fail, f.dataDir, server)
	if f.demo {
		fmt.Fprint(w, "Demo jobs: a heartbeat every 5 s, one that fails into a dead letter, one that runs once in 10 s, one daily in Berlin.\n\n")
	}
}
