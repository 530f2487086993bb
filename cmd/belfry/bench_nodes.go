package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/spawn"
)

// nodes is a cluster of our own children.
type nodes struct {
	hosts, dc, keyspace, network string
	count, partitions            int
	ttl                          time.Duration

	b       *benchFlags
	binary  string
	dir     string
	running []*spawn.Server // nil: it has ended
	clients []*client.Client
}

func newNodes() *nodes {
	return &nodes{keyspace: "belfry_bench_" + strconv.FormatInt(time.Now().UnixMilli(), 36)}
}

// flags say where the cluster runs.
func (n *nodes) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&n.hosts, "cql-hosts", "", "some nodes of the database, host or host:port, separated by commas")
	flags.StringVar(&n.dc, "cql-local-dc", "datacenter1", "data centre whose nodes are used")
	flags.StringVar(&n.keyspace, "cql-keyspace", n.keyspace, "keyspace of the jobs")
	flags.StringVar(&n.network, "network", "127.0.61", "first three numbers of the nodes' addresses")
	flags.IntVar(&n.count, "nodes", 3, "nodes")
	flags.DurationVar(&n.ttl, "ttl", 3*time.Second, "how long a node may be silent before others take its partitions")
}

func (n *nodes) check() error {
	switch {
	case n.hosts == "":
		return usage("--cql-hosts is missing: name the database that the cluster uses")
	case n.count < 2:
		return usage("--nodes must be 2 or more")
	}
	return nil
}

// beginWithin is how long all nodes may take to start: they would wait for a
// database for ever.
const beginWithin = 3 * time.Minute

// begin starts the first nodes.
func (n *nodes) begin(ctx context.Context, b *benchFlags, first int) (err error) {
	n.b = b
	if n.binary, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program to start servers: %w", err)
	}
	if n.dir, err = os.MkdirTemp("", "belfry-bench-"); err != nil {
		return err
	}
	n.running, n.clients = make([]*spawn.Server, n.count), make([]*client.Client, n.count)
	ctx, cancel := context.WithTimeout(ctx, beginWithin)
	defer cancel()
	group, starting := errgroup.WithContext(ctx)
	for i := range first {
		group.Go(func() error { return n.Start(starting, i) })
	}
	return group.Wait()
}

func (n *nodes) host(i int) string { return n.network + "." + strconv.Itoa(i+1) }

func (n *nodes) name(i int) string { return "bench-" + strconv.Itoa(i+1) }

// Start starts a node and waits until it is ready.
func (n *nodes) Start(ctx context.Context, i int) error {
	var all []string
	for j := range n.count {
		all = append(all, n.host(j))
	}
	cfg := spawn.Config{Binary: n.binary, DataDir: n.dir, Args: append([]string{
		"--allow-targets", "127.0.0.0/8", "--log-level", "warn", "--node-name", n.name(i), "--partitions", strconv.Itoa(n.partitions),
		"--store", "cql", "--cql-hosts", n.hosts, "--cql-local-dc", n.dc, "--cql-keyspace", n.keyspace,
		"--cluster-listen", net.JoinHostPort(n.host(i), "7946"), "--join", strings.Join(all, ","), "--ttl", n.ttl.String(),
	}, n.b.args...)}
	if n.b.log {
		cfg.Log = n.b.a.stderr
	}
	s, err := spawn.Start(ctx, cfg)
	if err != nil {
		return fmt.Errorf("node %d: %w", i+1, err)
	}
	c, err := client.New(client.Config{Server: s.URL(), Timeout: 10 * time.Second})
	if err != nil {
		s.Kill()
		return err
	}
	n.running[i], n.clients[i] = s, c
	return nil
}

// Kill ends a node at once.
func (n *nodes) Kill(i int) {
	n.running[i].Kill()
	n.ended(i)
}

// Stop ends a node as planned.
func (n *nodes) Stop(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	defer n.ended(i)
	return n.running[i].Stop(ctx)
}

func (n *nodes) ended(i int) {
	n.clients[i].Close()
	n.running[i], n.clients[i] = nil, nil
}

// end kills what still runs.
func (n *nodes) end() error {
	for i, s := range n.running {
		if s != nil {
			n.Kill(i)
		}
	}
	return os.RemoveAll(n.dir)
}

// Len is how many nodes there are.
func (n *nodes) Len() int { return n.count }

// PID is the process of a node.
func (n *nodes) PID(i int) int { return n.running[i].PID() }

// Owned are the partitions of a node, as it sees it.
func (n *nodes) Owned(ctx context.Context, i int) (map[int32]bool, error) {
	owners, err := n.clients[i].Partitions(ctx)
	if err != nil {
		return nil, err
	}
	out := map[int32]bool{}
	for _, o := range owners {
		if o.Value.Node == n.name(i) {
			out[o.Value.Partition] = true
		}
	}
	return out, nil
}

// settleWithin bounds the wait for a cluster that does not move any more.
const settleWithin = time.Minute

// Settle waits until every node that runs sees the same owners, each has some,
// and that has been so for a second. It says since when.
func (n *nodes) Settle(ctx context.Context) (since time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleWithin, errors.New("the partitions do not settle"))
	defer cancel()
	const look, steady = 50 * time.Millisecond, time.Second
	tick := time.NewTicker(look)
	defer tick.Stop()
	last := map[int32]int64(nil)
	for last == nil || time.Since(since) < steady {
		if epochs := n.settled(ctx); epochs == nil || !maps.Equal(epochs, last) {
			last, since = epochs, time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return since, context.Cause(ctx)
		}
	}
	return since, nil
}

// settled are the epochs of all partitions, when all nodes agree on them and
// each has a partition; else nil.
func (n *nodes) settled(ctx context.Context) map[int32]int64 {
	var all map[int32]int64
	running := slices.DeleteFunc(slices.Clone(n.clients), func(c *client.Client) bool { return c == nil })
	for _, c := range running {
		owners, err := c.Partitions(ctx)
		if err != nil {
			return nil
		}
		epochs, names := map[int32]int64{}, map[string]bool{}
		for _, o := range owners {
			epochs[o.Value.Partition] = o.Value.Epoch
			names[o.Value.Node] = true
		}
		if names[""] || len(names) != len(running) || all != nil && !maps.Equal(all, epochs) {
			return nil
		}
		all = epochs
	}
	return all
}
