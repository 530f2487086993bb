package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/bench"
)

func newBenchRest(b *benchFlags) *cobra.Command {
	r := bench.Rest{}
	c := newNodes()
	cmd := &cobra.Command{
		Use:   "rest",
		Short: "Let a node join a cluster, and the cluster do nothing",
		Long: `Let a node join a cluster, and the cluster do nothing. The cluster is started by this command, on the
database that --cql-hosts names, in a keyspace of its own that is left there, and on addresses
127.0.x.1, 127.0.x.2 and so on. The last node is started when the others have settled.

Measured are the time from when that node is ready until no partition moves any more, and the
processor time of each node while jobs are registered and none is due.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := c.check(); err != nil {
				return err
			}
			ctx := cmd.Context()
			r.Size, r.Partitions = b.size, c.partitions
			sink, err := bench.StartSink()
			if err != nil {
				return err
			}
			defer sink.Stop()
			defer func() { err = errors.Join(err, c.end()) }()
			if err := c.begin(ctx, b, c.count-1); err != nil {
				return err
			}
			report, err := r.Run(ctx, bench.Env{Server: c.clients[0].Server(), Sender: c.clients[0], Sink: sink, Note: b.a.note, Cluster: true}, c)
			if err != nil {
				return err
			}
			return b.print(report)
		},
	}
	c.flags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&c.partitions, "partitions", 256, "partitions")
	flags.IntVar(&r.Count, "count", 10_000, "jobs")
	flags.DurationVar(&r.Settle, "settle", 20*time.Second, "time before idle time is measured")
	flags.DurationVar(&r.Idle, "idle", 30*time.Second, "time over which the idle nodes are watched")
	connectionsFlag(cmd, &r.Connections, 2)
	return cmd
}
