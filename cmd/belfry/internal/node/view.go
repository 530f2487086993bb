package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/gateway"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// view shows the cluster to the API, as this node sees it.
type view struct{ *Node }

var _ gateway.Cluster = view{}

// Members implements gateway.Cluster.
func (v view) Members(ctx context.Context) ([]api.Member, error) {
	owned := map[string]int{}
	for _, r := range v.routes.Table() {
		if r.Owner != nil {
			owned[r.Owner.GetAddress()]++
		}
	}
	out := []api.Member{v.ourselves(owned)}
	offsets := v.offsets()
	for _, p := range v.peers() {
		m := member(p.Member)
		m.State, m.Partitions = state(p), owned[p.Address]
		if at, ok := offsets[p.Owner()]; ok {
			ms := at.Milliseconds()
			m.ClockOffsetMS = &ms
		}
		out = append(out, m)
	}
	return v.withUnheard(ctx, out)
}

func (v view) ourselves(owned map[string]int) api.Member {
	m := member(v.self)
	m.Self, m.State, m.Partitions = true, state(cluster.Peer{Draining: v.stopping.Load(), ClockOff: v.clockOff.Load(), Heard: time.Now()}), owned[v.system.Address()]
	if v.process != nil {
		ms := v.process.Members.JudgeClock(false).Offset.Milliseconds()
		m.ClockOffsetMS = &ms
	}
	return m
}

// offsets of the others' clocks against the median of all.
func (v view) offsets() map[persistence.Owner]time.Duration {
	out := map[persistence.Owner]time.Duration{}
	if v.process == nil {
		return out
	}
	own := v.process.Members.JudgeClock(false).Offset
	for _, c := range v.process.Members.Clocks() {
		out[c.Member.Owner()] = own + c.Offset
	}
	return out
}

func member(m cluster.Member) api.Member {
	out := api.Member{
		Node: m.Node, Incarnation: m.Incarnation.String(), Address: m.Address,
		Version: m.Version, Format: m.Format, StartedAt: job.Instant(m.Started),
	}
	for _, r := range m.Roles {
		out.Roles = append(out.Roles, string(r))
	}
	return out
}

func state(p cluster.Peer) string {
	switch {
	case p.Heard.IsZero():
		return api.MemberUnheard
	case p.Draining:
		return api.MemberDraining
	case p.ClockOff:
		return api.MemberClockOff
	}
	return api.MemberAlive
}

// withUnheard adds the nodes that beat in the store although gossip does not
// know them. A row alone says nothing, since nodes that died have one for a day:
// it must move between two looks.
func (v view) withUnheard(ctx context.Context, members []api.Member) ([]api.Member, error) {
	beats, shared := v.store.(persistence.Beats)
	if !shared || v.process == nil {
		return members, nil
	}
	known := map[string]bool{}
	for _, m := range members {
		known[m.Incarnation] = true
	}
	strangers := map[persistence.Owner]int64{}
	rows, err := beats.Beats(ctx)
	for _, b := range rows {
		if !known[b.Incarnation.String()] {
			strangers[b.Owner] = b.N
		}
	}
	if err != nil || len(strangers) == 0 {
		return members, err
	}
	select {
	case <-time.After(v.cfg.Cluster.settings().Every() * 5 / 4):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	rows, err = beats.Beats(ctx)
	for _, b := range rows {
		if was, ok := strangers[b.Owner]; ok && b.N != was {
			members = append(members, api.Member{Node: b.Node, Incarnation: b.Incarnation.String(), Address: b.Address, Roles: b.Roles, State: api.MemberUnheard})
		}
	}
	return members, err
}

// Partitions implements gateway.Cluster.
func (v view) Partitions(context.Context) ([]api.PartitionOwner, error) {
	var out []api.PartitionOwner
	for _, r := range v.routes.Table() {
		o := api.PartitionOwner{Partition: r.Partition}
		if r.Owner != nil {
			o.Node, o.Address, o.Epoch = r.Node, r.Owner.GetAddress(), r.Epoch
			if o.Node == "" {
				o.Node = v.self.Node
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// Drain implements gateway.Cluster.
func (v view) Drain(ctx context.Context, node string) error {
	if node == v.self.Node {
		v.askToStop()
		return nil
	}
	for _, p := range v.peers() {
		if p.Node != node {
			continue
		}
		wait := 5 * time.Second
		if until, ok := ctx.Deadline(); ok {
			wait = max(min(wait, time.Until(until)), 0)
		}
		_, err := v.system.Root.RequestFuture(actor.NewPID(p.Address, cluster.NodeActor), &belfryv1.DrainNode{}, wait).Result()
		if err != nil {
			return fmt.Errorf("%w: node %s: %w", job.ErrUnavailable, node, err)
		}
		return nil
	}
	return gateway.ErrNoMember
}

// Format implements gateway.Cluster.
func (v view) Format(ctx context.Context) (api.ClusterFormat, error) {
	constants, err := v.store.Cluster(ctx, v.constants())
	if err != nil {
		return api.ClusterFormat{}, err
	}
	members, err := v.Members(ctx)
	if err != nil {
		return api.ClusterFormat{}, err
	}
	return gateway.FormatOf(constants.Format, nodesOnly(members)), nil
}

// nodesOnly leaves out other services: they read nothing that is stored.
func nodesOnly(members []api.Member) []api.Member {
	var out []api.Member
	for _, m := range members {
		if len(m.Roles) != 1 || m.Roles[0] != string(cluster.ClientRole) {
			out = append(out, m)
		}
	}
	return out
}

// RaiseFormat implements gateway.Cluster.
func (v view) RaiseFormat(ctx context.Context, to int) (api.ClusterFormat, error) {
	constants, err := v.store.Cluster(ctx, v.constants())
	if err != nil {
		return api.ClusterFormat{}, err
	}
	err = v.store.RaiseFormat(ctx, constants.Format, to)
	for errors.Is(err, persistence.ErrInDoubt) && ctx.Err() == nil {
		err = v.store.RaiseFormat(ctx, constants.Format, to)
	}
	if err != nil {
		return api.ClusterFormat{}, err
	}
	v.format.Store(int64(to))
	if v.process != nil {
		v.process.Presence.Announce()
	}
	return v.Format(ctx)
}

// constants are what this node wants of the store.
func (n *Node) constants() persistence.Cluster {
	return persistence.Cluster{Partitions: n.cfg.Partitions, Hash: job.HashName, Format: messages.Format}
}
