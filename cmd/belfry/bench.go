package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/bench"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/spawn"
)

func newBench(a *app) *cobra.Command {
	b := &benchFlags{a: a}
	cmd := group(&cobra.Command{
		Use:   "bench",
		Short: "Measure a server under load",
		Long: `Measure a server under load. Jobs are registered, and what they send is received by a sink in this
process and judged against what was registered: early, late, missing, doubled. The server is not
asked what it did.

Without --server a server of its own is started on an empty directory and stopped at the end.
With several, such as --server http://127.0.0.1:8380,http://127.0.0.2:8380, nodes of a cluster are
measured: the jobs are registered at the first that is ready, and any may be killed meanwhile. What it
had in flight then may come again, under its own key: that is counted and breaks no promise.
The exit code is 1 when a promise was broken; with --check also when a number misses its goal.`,
	}, newBenchRaw(b), newBenchRegister(b), newBenchImport(b), newBenchSpike(b), newBenchSteady(b), newBenchQueue(b), newBenchBulkhead(b), newBenchFailover(b), newBenchRest(b), newBenchMemory(b))
	flags := cmd.PersistentFlags()
	flags.StringVar(&b.dir, "bench-dir", "", "where the server that is started keeps its data (default a temporary directory)")
	flags.StringArrayVar(&b.args, "server-arg", nil, "one more argument for the server that is started, such as --slots=256")
	flags.BoolVar(&b.log, "server-log", false, "show the log of the server that is started")
	flags.BoolVar(&b.check, "check", false, "exit with 1 when a number misses its goal")
	flags.IntVar(&b.size, "job-bytes", 300, "size of a registered job")
	return cmd
}

// benchFlags are common to all benchmarks.
type benchFlags struct {
	a     *app
	dir   string
	args  []string
	log   bool
	check bool
	size  int
}

// run prepares sink and server, runs a benchmark and prints its report.
func (b *benchFlags) run(cmd *cobra.Command, measure func(ctx context.Context, e bench.Env, u *underTest) (bench.Report, error)) (err error) {
	ctx := cmd.Context()
	sink, err := bench.StartSink()
	if err != nil {
		return err
	}
	defer sink.Stop()
	under, err := b.server(ctx, cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, under.stop()) }()
	servers := strings.Split(under.url(), ",")
	c, err := b.firstReady(ctx, servers)
	if err != nil {
		return err
	}
	defer c.Close()
	report, err := measure(ctx, bench.Env{Server: c.Server(), Sender: c, Sink: sink, Note: b.a.note, Cluster: len(servers) > 1}, under)
	if err != nil {
		return err
	}
	return b.print(report)
}

// firstReady connects to the first server that takes requests.
func (b *benchFlags) firstReady(ctx context.Context, servers []string) (*client.Client, error) {
	b.a.requestTimeout = 0
	var errs []error
	for _, s := range servers {
		b.a.server = strings.TrimSpace(s)
		c, err := b.a.client("")
		if err != nil {
			return nil, err
		}
		if err = c.Ready(ctx); err == nil {
			return c, nil
		}
		c.Close()
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// server is the one that --server names, or one of our own.
func (b *benchFlags) server(ctx context.Context, cmd *cobra.Command) (*underTest, error) {
	if cmd.Flags().Changed("server") || b.a.env("BELFRY_SERVER", "") != "" {
		return &underTest{external: b.a.server}, nil
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start a server: %w", err)
	}
	u := &underTest{cfg: spawn.Config{Binary: binary, DataDir: b.dir, Args: append([]string{"--allow-targets", "127.0.0.0/8", "--log-level", "warn"}, b.args...)}}
	if b.log {
		u.cfg.Log = b.a.stderr
	}
	if b.dir == "" {
		if u.cfg.DataDir, err = os.MkdirTemp("", "belfry-bench-"); err != nil {
			return nil, err
		}
		u.temporary = u.cfg.DataDir
	}
	if u.own, err = spawn.Start(ctx, u.cfg); err != nil {
		return nil, errors.Join(err, u.stop())
	}
	return u, nil
}

// underTest is the server under test: another's, or our own child.
type underTest struct {
	external  string
	pid       int
	cfg       spawn.Config
	own       *spawn.Server
	temporary string
}

func (u *underTest) url() string {
	if u.own != nil {
		return u.own.URL()
	}
	return u.external
}

// PID is the server's process; 0 when it is not known.
func (u *underTest) PID() int {
	if u.own != nil {
		return u.own.PID()
	}
	return u.pid
}

// Restart starts our own server anew on its data.
func (u *underTest) Restart(ctx context.Context) (time.Duration, error) {
	if u.own == nil {
		return 0, errors.New("it was not started by this benchmark")
	}
	if err := u.own.Stop(ctx); err != nil {
		return 0, err
	}
	own, err := spawn.Start(ctx, u.cfg)
	if err != nil {
		u.own = nil
		return 0, err
	}
	u.own = own
	return own.Took(), nil
}

// stopLimit is how long a server may take to drain.
const stopLimit = 2 * time.Minute

func (u *underTest) stop() error {
	var err error
	if u.own != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		err = u.own.Stop(ctx)
	}
	if u.temporary != "" {
		err = errors.Join(err, os.RemoveAll(u.temporary))
	}
	return err
}

// print prints a report, and fails when it says that a promise was broken.
func (b *benchFlags) print(r bench.Report) error {
	if err := b.a.printReport(r); err != nil {
		return err
	}
	if len(r.Problems) > 0 {
		return fmt.Errorf("a promise was broken: %s", strings.Join(r.Problems, "; "))
	}
	if unmet := r.Unmet(); b.check && len(unmet) > 0 {
		return fmt.Errorf("goals were missed:\n%s", strings.Join(unmet, "\n"))
	}
	return nil
}

func (a *app) printReport(r bench.Report) error {
	if a.format != output.Table {
		return output.One(a.stdout, a.format, output.View[bench.Report]{Name: func(r bench.Report) string { return r.Bench }}, r)
	}
	var params []string
	for _, p := range r.Params {
		params = append(params, fmt.Sprintf("%s %v", p.Name, p.Value))
	}
	fmt.Fprintf(a.stdout, "%s: %s, on %d CPUs", r.Bench, strings.Join(params, ", "), r.Machine.CPUs)
	if r.Machine.Load != "" {
		fmt.Fprintf(a.stdout, " with a load of %s at the start", r.Machine.Load)
	}
	fmt.Fprint(a.stdout, "\n\n")
	return printAll(a, output.View[bench.Metric]{Columns: []output.Column[bench.Metric]{
		{Header: "METRIC", Cell: func(m bench.Metric) string { return m.Name }},
		{Header: "VALUE", Cell: bench.Metric.Text},
		{Header: "GOAL", Cell: func(m bench.Metric) string { return m.Goal.String() }},
		{Header: "", Cell: met},
	}}, r.Metrics)
}

func met(m bench.Metric) string {
	switch {
	case m.Goal == nil:
		return ""
	case m.Met():
		return "met"
	}
	return "MISSED"
}

// connectionsFlag is how many connections a benchmark uses.
func connectionsFlag(cmd *cobra.Command, v *int, def int) {
	cmd.Flags().IntVar(v, "connections", def, "connections to the server")
}

func newBenchRaw(b *benchFlags) *cobra.Command {
	raw := bench.Raw{}
	cmd := &cobra.Command{
		Use:   "raw",
		Short: "Send the deliveries of a spike without a scheduler, for comparison",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			sink, err := bench.StartSink()
			if err != nil {
				return err
			}
			defer sink.Stop()
			raw.BodyBytes = bodyBytes(sink, b.size)
			report, err := raw.Run(cmd.Context(), sink)
			if err != nil {
				return err
			}
			return b.print(report)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&raw.Count, "count", 100_000, "deliveries in a run")
	flags.IntVar(&raw.Connections, "connections", 64, "keep-alive connections")
	flags.IntVar(&raw.Runs, "runs", 3, "runs, of which the best counts")
	return cmd
}

// bodyBytes is the length of the body that a one-time job of a size delivers.
func bodyBytes(sink *bench.Sink, size int) int {
	return bench.OneTime(sink.URL(), size).BodyLength(0)
}

func newBenchRegister(b *benchFlags) *cobra.Command {
	r := bench.Register{Goal: 8_000}
	cmd := &cobra.Command{
		Use:   "register",
		Short: "Register jobs by single requests",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.Size = b.size
			return b.run(cmd, func(ctx context.Context, e bench.Env, _ *underTest) (bench.Report, error) { return r.Run(ctx, e) })
		},
	}
	cmd.Flags().IntVar(&r.Count, "count", 100_000, "jobs")
	connectionsFlag(cmd, &r.Connections, 64)
	return cmd
}

func newBenchImport(b *benchFlags) *cobra.Command {
	r := bench.Import{Goal: 60_000}
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Register jobs by import",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.Size = b.size
			return b.run(cmd, func(ctx context.Context, e bench.Env, _ *underTest) (bench.Report, error) { return r.Run(ctx, e) })
		},
	}
	cmd.Flags().IntVar(&r.Count, "count", 500_000, "jobs")
	connectionsFlag(cmd, &r.Connections, 2)
	return cmd
}

func newBenchSpike(b *benchFlags) *cobra.Command {
	s := bench.Spike{RawShare: 0.5, APILimit: time.Second}
	compare := true
	cmd := &cobra.Command{
		Use:   "spike",
		Short: "Let many one-time jobs be due at one instant",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Size = b.size
			return b.run(cmd, func(ctx context.Context, e bench.Env, _ *underTest) (bench.Report, error) {
				if compare {
					s.Raw = &bench.Raw{Count: s.Count, Connections: 64, Runs: 3, BodyBytes: bodyBytes(e.Sink, b.size)}
				}
				return s.Run(ctx, e)
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&s.Count, "count", 100_000, "jobs")
	flags.IntVar(&s.Runs, "runs", 3, "runs, of which the median counts")
	flags.DurationVar(&s.Lead, "lead", 20*time.Second, "time from the first registration to the instant")
	flags.BoolVar(&compare, "raw", true, "compare with raw deliveries, best of 3 runs")
	waitFlags(cmd, &s.Patience, &s.Quiet)
	connectionsFlag(cmd, &s.Connections, 2)
	return cmd
}

func newBenchQueue(b *benchFlags) *cobra.Command {
	q := bench.Queue{Goal: 2_000}
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Claim and complete executions of a queue, as outside workers do",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.Size = b.size
			return b.run(cmd, func(ctx context.Context, e bench.Env, _ *underTest) (bench.Report, error) { return q.Run(ctx, e) })
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&q.Count, "count", 20_000, "executions")
	flags.IntVar(&q.Workers, "workers", 64, "workers, each with one execution at a time")
	flags.DurationVar(&q.Lead, "lead", 15*time.Second, "time from the first registration until all are due")
	return cmd
}

func newBenchSteady(b *benchFlags) *cobra.Command {
	s := bench.Steady{Connections: 1}
	cmd := &cobra.Command{
		Use:   "steady",
		Short: "Deliver at a constant rate over a time",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Size = b.size
			return b.run(cmd, func(ctx context.Context, e bench.Env, _ *underTest) (bench.Report, error) { return s.Run(ctx, e) })
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&s.Rate, "rate", 500, "deliveries a second")
	flags.DurationVar(&s.Duration, "duration", 5*time.Minute, "how long")
	flags.DurationVar(&s.Lead, "lead", 5*time.Second, "time from the first registration to the first delivery")
	waitFlags(cmd, &s.Patience, &s.Quiet)
	return cmd
}

func newBenchBulkhead(b *benchFlags) *cobra.Command {
	k := bench.Bulkhead{Connections: 1, Added: 50 * time.Millisecond}
	cmd := &cobra.Command{
		Use:   "bulkhead",
		Short: "Let one host hang with many executions due, and see what that does to another",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			k.Size = b.size
			return b.run(cmd, func(ctx context.Context, e bench.Env, _ *underTest) (bench.Report, error) { return k.Run(ctx, e) })
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&k.Rate, "rate", 200, "deliveries a second to the host that answers")
	flags.IntVar(&k.Hanging, "hanging", 10_000, "jobs that are due at one instant for the host that hangs")
	flags.DurationVar(&k.Before, "before", 30*time.Second, "how long only the first host is called, for comparison")
	flags.DurationVar(&k.Hang, "hang", 30*time.Second, "how long the second host hangs")
	flags.DurationVar(&k.Lead, "lead", 10*time.Second, "time from the first registration to the first delivery")
	waitFlags(cmd, &k.Patience, &k.Quiet)
	return cmd
}

func waitFlags(cmd *cobra.Command, patience, quiet *time.Duration) {
	cmd.Flags().DurationVar(patience, "patience", 20*time.Second, "time without any delivery after which the rest counts as missing")
	cmd.Flags().DurationVar(quiet, "quiet", 3*time.Second, "time after the last delivery in which doubled ones would come")
}

func newBenchMemory(b *benchFlags) *cobra.Command {
	m := bench.Memory{}
	pid := 0
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Hold many jobs and do nothing: memory, idle processor time, restart",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.Size = b.size
			return b.run(cmd, func(ctx context.Context, e bench.Env, u *underTest) (bench.Report, error) {
				if u.own == nil {
					u.pid, m.Restart = pid, false
				}
				if u.PID() == 0 {
					return bench.Report{}, usage("%s of another server needs --pid, its process on this machine", cmd.CommandPath())
				}
				return m.Run(ctx, e, u)
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&m.Count, "count", 1_000_000, "jobs")
	flags.DurationVar(&m.Settle, "settle", 20*time.Second, "time before idle time is measured")
	flags.DurationVar(&m.Idle, "idle", 30*time.Second, "time over which the idle server is watched")
	flags.BoolVar(&m.Restart, "restart", true, "measure a restart too")
	flags.IntVar(&pid, "pid", 0, "process of the server that --server names")
	connectionsFlag(cmd, &m.Connections, 2)
	return cmd
}
