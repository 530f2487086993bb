package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

func newCluster(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes, drain one, and end an upgrade",
	}, newClusterMembers(a), newClusterPartitions(a), newClusterDrain(a), newClusterFormat(a))
}

type memberDoc = client.Doc[api.Member]

func memberView() output.View[memberDoc] {
	return output.View[memberDoc]{
		Name: func(m memberDoc) string { return m.Value.Node },
		Columns: []output.Column[memberDoc]{
			{Header: "NODE", Cell: func(m memberDoc) string { return m.Value.Node }},
			{Header: "STATE", Cell: func(m memberDoc) string { return m.Value.State }},
			{Header: "PARTITIONS", Cell: func(m memberDoc) string { return strconv.Itoa(m.Value.Partitions) }},
			{Header: "ROLES", Cell: func(m memberDoc) string { return strings.Join(m.Value.Roles, ",") }},
			{Header: "ADDRESS", Cell: func(m memberDoc) string { return orDash(m.Value.Address) }},
			{Header: "CLOCK", Cell: clockCell},
			{Header: "VERSION", Cell: func(m memberDoc) string { return orDash(m.Value.Version) }},
			{Header: "FORMAT", Cell: func(m memberDoc) string { return numberOrDash(m.Value.Format) }},
			{Header: "STARTED", Cell: func(m memberDoc) string { return instant(&m.Value.StartedAt) }},
		},
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func clockCell(m memberDoc) string {
	if m.Value.ClockOffsetMS == nil {
		return "-"
	}
	return fmt.Sprintf("%+d ms", *m.Value.ClockOffsetMS)
}

// numberOrDash is a number that is 0 when it is not known.
func numberOrDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func newClusterMembers(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "members",
		Aliases: []string{"nodes"},
		Short:   "List the nodes, as the one that is asked sees them",
		Args:    exactly(),
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			members, err := c.Members(ctx)
			if err != nil {
				return err
			}
			return printAll(a, memberView(), members)
		}),
	}
}

type partitionDoc = client.Doc[api.PartitionOwner]

func partitionView() output.View[partitionDoc] {
	return output.View[partitionDoc]{
		Name: func(p partitionDoc) string { return strconv.Itoa(int(p.Value.Partition)) },
		Columns: []output.Column[partitionDoc]{
			{Header: "PARTITION", Cell: func(p partitionDoc) string { return strconv.Itoa(int(p.Value.Partition)) }},
			{Header: "NODE", Cell: func(p partitionDoc) string { return orDash(p.Value.Node) }},
			{Header: "EPOCH", Cell: func(p partitionDoc) string { return numberOrDash(int(p.Value.Epoch)) }},
			{Header: "ADDRESS", Cell: func(p partitionDoc) string { return orDash(p.Value.Address) }},
		},
	}
}

func newClusterPartitions(a *app) *cobra.Command {
	var byNode bool
	cmd := &cobra.Command{
		Use:   "partitions",
		Short: "List who owns which partition",
		Args:  exactly(),
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			owners, err := c.Partitions(ctx)
			if err != nil {
				return err
			}
			if byNode {
				return printAll(a, shareView(), shares(owners))
			}
			return printAll(a, partitionView(), owners)
		}),
	}
	cmd.Flags().BoolVar(&byNode, "by-node", false, "a line for each node instead of each partition")
	return cmd
}

// share is what one node owns.
type share struct {
	Node       string  `json:"node"` // "": nobody is known to own these
	Address    string  `json:"address"`
	Count      int     `json:"count"`
	Partitions []int32 `json:"partitions"`
}

// shares groups partitions by node, in the order of names.
func shares(owners []partitionDoc) []share {
	var out []share
	at := map[string]int{}
	for _, d := range owners {
		o := d.Value
		i, ok := at[o.Node]
		if !ok {
			i = len(out)
			at[o.Node] = i
			out = append(out, share{Node: o.Node, Address: o.Address})
		}
		out[i].Count++
		out[i].Partitions = append(out[i].Partitions, o.Partition)
	}
	for _, s := range out {
		slices.Sort(s.Partitions)
	}
	slices.SortFunc(out, func(a, b share) int { return strings.Compare(a.Node, b.Node) })
	return out
}

func shareView() output.View[share] {
	return output.View[share]{
		Name: func(s share) string { return s.Node },
		Columns: []output.Column[share]{
			{Header: "NODE", Cell: func(s share) string { return orDash(s.Node) }},
			{Header: "COUNT", Cell: func(s share) string { return strconv.Itoa(s.Count) }},
			{Header: "ADDRESS", Cell: func(s share) string { return orDash(s.Address) }},
			{Header: "PARTITIONS", Cell: func(s share) string { return runs(s.Partitions) }},
		},
	}
}

// runs writes sorted numbers with consecutive ones joined: 0-3,7.
func runs(numbers []int32) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(int(numbers[i]))
		if j > i {
			part += "-" + strconv.Itoa(int(numbers[j]))
		}
		parts, i = append(parts, part), j+1
	}
	return strings.Join(parts, ",")
}

func newClusterDrain(a *app) *cobra.Command {
	var (
		waitFor bool
		limit   time.Duration
	)
	cmd := &cobra.Command{
		Use:               "drain NODE",
		Short:             "Have a node hand over what it owns, and stop",
		Example:           "  belfry cluster drain n1 --wait",
		Args:              exactly("the name of a node"),
		ValidArgsFunction: a.completeNode,
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			var before []memberDoc
			if waitFor {
				var err error
				if before, err = c.Members(ctx); err != nil {
					return err
				}
			}
			d, err := c.Drain(ctx, args[0])
			if err != nil {
				return err
			}
			a.note("%s has been told to hand over what it owns, and to stop", output.Printable(args[0]))
			if err := output.One(a.stdout, a.format, drainingView(), d); err != nil || !waitFor {
				return err
			}
			return a.awaitDrained(ctx, c, before, args[0], limit)
		}),
	}
	cmd.Flags().BoolVar(&waitFor, "wait", false, "wait until it owns no partition any more, or has left")
	cmd.Flags().DurationVar(&limit, "wait-timeout", 2*time.Minute, "how long to wait; 0 for as long as it takes")
	return cmd
}

func drainingView() output.View[client.Doc[api.Draining]] {
	return output.View[client.Doc[api.Draining]]{
		Name: func(d client.Doc[api.Draining]) string { return d.Value.Node },
		Columns: []output.Column[client.Doc[api.Draining]]{
			{Header: "NODE", Cell: func(d client.Doc[api.Draining]) string { return d.Value.Node }},
			{Header: "STATE", Cell: func(d client.Doc[api.Draining]) string { return d.Value.State }},
		},
	}
}

// awaitDrained follows the processes that went by the node's name when it was
// told to drain: one that comes back under the name is another.
func (a *app) awaitDrained(ctx context.Context, c *client.Client, before []memberDoc, node string, limit time.Duration) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errWaited)
		defer cancel()
	}
	for _, m := range before {
		if m.Value.Node != node {
			continue
		}
		last := m.Value
		left, err := c.AwaitDrained(ctx, m.Value, func(now api.Member) {
			last = now
			a.note("%s owns %d partitions", output.Printable(node), now.Partitions)
		})
		if errors.Is(context.Cause(ctx), errWaited) {
			return &coded{exitUnavailable, fmt.Errorf("%s still owns %d partitions after %s; `belfry cluster members` shows where it stands", node, last.Partitions, limit)}
		}
		if err != nil {
			return err
		}
		if left {
			a.note("%s has left", output.Printable(node))
		}
	}
	return nil
}

// completeNode offers the nodes of the cluster.
func (a *app) completeNode(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	a.requestTimeout = time.Second
	c, err := a.client("")
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	members, err := c.Members(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, m := range members {
		names = append(names, fmt.Sprintf("%s\t%s, %d partitions", m.Value.Node, m.Value.State, m.Value.Partitions))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

const formatLong = `Show the format of stored messages. Nodes write the cluster's format, whatever
newer ones they know, so nodes of two versions work together and an upgrade can
be taken back. When every node knows a newer format, "raise" has them write it:
then there is no way back to a version that does not know it.`

func newClusterFormat(a *app) *cobra.Command {
	show := func(cmd *cobra.Command, _ []string) error {
		c, err := a.client("")
		if err != nil {
			return err
		}
		f, err := c.Format(cmd.Context())
		if err != nil {
			return err
		}
		return a.printFormat(f)
	}
	cmd := group(&cobra.Command{
		Use:   "format",
		Short: "Show or raise the format of stored messages",
		Long:  formatLong,
	}, &cobra.Command{
		Use:   "show",
		Short: "Show the format of stored messages",
		Args:  exactly(),
		RunE:  show,
	}, newClusterFormatRaise(a))
	cmd.RunE = show
	return cmd
}

func newClusterFormatRaise(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "raise N",
		Short: "Have every node write format N from now on; there is no way back",
		Args:  exactly("the format"),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := strconv.Atoi(args[0])
			if err != nil || to < 1 {
				return usage("%q is not a format: write a number from 1 on", args[0])
			}
			c, err := a.client("")
			if err != nil {
				return err
			}
			f, err := c.RaiseFormat(cmd.Context(), to)
			if err != nil {
				return err
			}
			a.note("the nodes write format %d", f.Value.Format)
			return a.printFormat(f)
		},
	}
}

func (a *app) printFormat(d client.Doc[api.ClusterFormat]) error {
	if a.format != output.Table {
		view := output.View[client.Doc[api.ClusterFormat]]{
			Name: func(d client.Doc[api.ClusterFormat]) string { return strconv.Itoa(d.Value.Format) },
		}
		return output.One(a.stdout, a.format, view, d)
	}
	f, v := facts{a.stdout}, d.Value
	f.line("Format", strconv.Itoa(v.Format))
	f.line("Known by all", numberOrDash(v.Known))
	f.line("Newest known", strconv.Itoa(v.Newest))
	var behind []string
	for _, n := range v.Behind {
		behind = append(behind, fmt.Sprintf("%s (%s)", n.Node, numberOrDash(n.Format)))
	}
	f.line("Behind", strings.Join(behind, ", "))
	return nil
}
