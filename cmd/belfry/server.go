package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/actors/execution"
	"github.com/belfry-scheduler/belfry/cluster/wire"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/config"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/node"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/spawn"
	"github.com/belfry-scheduler/belfry/persistence/cql"
)

func newServer(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a node",
		Long: `Run a node on the embedded store. Every setting can be given as a flag, as a BELFRY_* variable or in
the file of --config; the first of these that names it wins ("belfry config view --show-origin").
SIGINT or SIGTERM drains: attempts in flight end, everything is stored, and the exit code is 0. A
second signal ends the process at once.`,
		Example: "  belfry server --data-dir /var/lib/belfry --allow-targets 10.0.0.0/8",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, _, err := config.Load(a.sources(cmd, file))
			if err != nil {
				return &coded{exitUsage, err}
			}
			return a.runServer(cmd.Context(), settings)
		},
	}
	a.addConfigFlag(cmd, &file)
	config.AddFlags(cmd.Flags())
	return cmd
}

// runServer runs a node until a signal drains it, or it fails.
func (a *app) runServer(ctx context.Context, s config.Server) error {
	spareMemory(ctx)
	log := a.logger(s)
	cfg := nodeConfig(s)
	cfg.Logger = log
	endProfiles, err := serveProfiles(s.PprofListen)
	if err != nil {
		return err
	}
	defer endProfiles()
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	a.logger(config.Server{LogFormat: s.LogFormat}).Info(spawn.Listening, "url", n.URL(), "data_dir", cfg.DataDir, "version", cfg.Version, "pid", os.Getpid())
	go announce(ctx, n, log)
	failure := untilDone(ctx, n)
	log.Info("draining", "timeout", cfg.DrainTimeout.String())
	if err := stopNode(n, cfg.DrainTimeout); err != nil {
		return &coded{exitError, errors.Join(failure, fmt.Errorf("stop: %w", err))}
	}
	log.Info("stopped")
	return failure
}

// nodeConfig is the configuration of the node for checked settings.
func nodeConfig(s config.Server) node.Config {
	cfg := node.DefaultConfig()
	cfg.DataDir, cfg.Listen, cfg.Partitions = s.DataDir, s.Listen, s.Partitions
	cfg.AllowTargets, cfg.AllowPlainHTTP, cfg.InsecureNoAuth = s.AllowTargets, s.AllowPlainHTTP, s.InsecureNoAuth
	cfg.Retention, cfg.DrainTimeout, cfg.Version = s.Retention, s.DrainTimeout, buildVersion()
	cfg.SecretsDir, cfg.BrokersFile = s.SecretsDir, s.BrokersFile
	if s.Slots > 0 {
		cfg.Slots = s.Slots
	}
	cfg.Limits = execution.LimitsConfig{Hosts: s.Limits.Hosts, Failures: s.Limits.Failures, OpenFor: s.Limits.OpenFor}
	if s.Store == "cql" {
		cfg.CQL = &cql.Config{
			Hosts: s.CQL.Hosts, Keyspace: s.CQL.Keyspace, LocalDC: s.CQL.LocalDC, Username: s.CQL.User, PasswordFile: s.CQL.PasswordFile,
			CAFile: s.CQL.CA, CertFile: s.CQL.Cert, KeyFile: s.CQL.Key, Replication: s.CQL.Replication,
		}
	}
	cfg.Cluster, cfg.Roles = clusterConfig(s), s.Cluster.Roles
	cfg.NodeName = s.NodeName
	if cfg.NodeName == "" {
		cfg.NodeName = hostname()
	}
	return cfg
}

// clusterConfig is how the node finds others; nil: it is alone.
func clusterConfig(s config.Server) *node.Cluster {
	c := s.Cluster.WithDefaults(s.Store)
	if c.Listen == "" {
		return nil
	}
	return &node.Cluster{
		Listen: c.Listen, ActorListen: c.ActorListen, Advertise: c.Advertise, Join: c.Join, Name: c.Name, TTL: c.TTL,
		GossipKeyFile: c.GossipKeyFile, TLS: wire.TLS{CA: c.CA, Cert: c.Cert, Key: c.Key}, Insecure: c.Insecure,
	}
}

func hostname() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return node.DefaultConfig().NodeName
}

func (a *app) logger(s config.Server) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.LogLevel}
	if s.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(a.stderr, options))
	}
	return slog.New(slog.NewJSONHandler(a.stderr, options))
}

const readyPoll = 20 * time.Millisecond

// ready waits until the node takes requests.
func ready(ctx context.Context, n *node.Node) bool {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		if ok, _ := n.Ready(); ok {
			return true
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
}

// announce says in the log when the node is ready.
func announce(ctx context.Context, n *node.Node, log *slog.Logger) {
	start := time.Now()
	if ready(ctx, n) {
		log.Info("ready", "after", time.Since(start).Round(time.Millisecond).String())
	}
}

// untilDone waits for a signal or a request to drain, which are no errors, or for
// the node to fail.
func untilDone(ctx context.Context, n *node.Node) error {
	select {
	case <-ctx.Done():
		return nil
	case <-n.Asked():
		return nil
	case err := <-n.Failed():
		return err
	}
}

// closing is what a stop may take beyond the drain.
const closing = 15 * time.Second

func stopNode(n *node.Node, drain time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain+closing)
	defer cancel()
	return n.Stop(ctx)
}
