package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/bench"
)

func newBenchFailover(b *benchFlags) *cobra.Command {
	f := bench.Failover{}
	c := newNodes()
	cmd := &cobra.Command{
		Use:   "failover",
		Short: "Kill and restart nodes of a cluster that delivers at a constant rate",
		Long: `Kill and restart nodes of a cluster that delivers at a constant rate. The cluster is started by this
command, on the database that --cql-hosts names, in a keyspace of its own that is left there, and on
addresses 127.0.x.1, 127.0.x.2 and so on.

A failover is the time from the kill of a node until the first delivery of one of its partitions under
another owner; a handover's pause is how late the first delivery under another owner is when a node
is stopped as planned.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := c.check(); err != nil {
				return err
			}
			if f.Rate < 1 {
				return usage("--rate must be 1 or more")
			}
			ctx := cmd.Context()
			f.Size = b.size
			sink, err := bench.StartSink()
			if err != nil {
				return err
			}
			defer sink.Stop()
			f.Partitions, f.TTL = c.partitions, c.ttl
			defer func() { err = errors.Join(err, c.end()) }()
			if err := c.begin(ctx, b, c.count); err != nil {
				return err
			}
			report, err := f.Run(ctx, bench.Env{Server: c.clients[0].Server(), Sender: c.clients[0], Sink: sink, Note: b.a.note, Cluster: true}, c)
			if err != nil {
				return err
			}
			return b.print(report)
		},
	}
	c.flags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&c.partitions, "partitions", 16, "partitions")
	flags.IntVar(&f.Rate, "rate", 100, "deliveries a second")
	flags.IntVar(&f.Kills, "kills", 60, "nodes that are killed, one after another")
	flags.IntVar(&f.Restarts, "restarts", 6, "nodes that are restarted as planned")
	waitFlags(cmd, &f.Patience, &f.Quiet)
	return cmd
}
