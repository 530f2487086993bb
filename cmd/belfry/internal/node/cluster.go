package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-sockaddr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-scheduler/belfry/actors/partition"
	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/cluster/wire"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/clock"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Cluster is how a node finds the others, and they it.
type Cluster struct {
	// Listen is the host:port of gossip, TCP and UDP, and ActorListen that of
	// messages between actors. Port 0 takes a free one.
	Listen, ActorListen string
	// Advertise is the host by which others reach both. "": the one of each.
	Advertise string
	// Join names some nodes of the cluster.
	Join []string
	// Name is shared by all nodes of the cluster.
	Name string
	// TTL is how long a node may be silent before others take what it owns.
	TTL time.Duration
	// GossipKeyFile has the keys that encrypt gossip; "": none.
	GossipKeyFile string
	TLS           wire.TLS
	// Insecure allows plaintext off loopback.
	Insecure bool
}

// Validate names the first field that cannot be used.
func (c *Cluster) Validate() error {
	switch {
	case c.Listen == "" || c.ActorListen == "":
		return errors.New("cluster-listen and actor-listen are needed in a cluster")
	case c.Name == "":
		return errors.New("cluster-name is empty")
	}
	return c.settings().Validate()
}

func (c *Cluster) settings() cluster.Settings { return cluster.Settings{TTL: c.TTL} }

// keys reads the keys of gossip.
func (c *Cluster) keys() ([][]byte, error) {
	if c.GossipKeyFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.GossipKeyFile)
	if err != nil {
		return nil, fmt.Errorf("gossip-key-file: %w", err)
	}
	keys, err := cluster.ParseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("gossip-key-file %s: %w", c.GossipKeyFile, err)
	}
	return keys, nil
}

// advertised is the host that other nodes are told: one that listens on all
// addresses has to choose, and takes its private one.
func (c *Cluster) advertised() (string, error) {
	host, _, err := net.SplitHostPort(c.ActorListen)
	if err != nil {
		return "", fmt.Errorf("actor-listen %q: %w", c.ActorListen, err)
	}
	if ip := net.ParseIP(host); c.Advertise != "" || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return c.Advertise, nil
	}
	private, err := sockaddr.GetPrivateIP()
	if err != nil || private == "" {
		return "", errors.New("this machine has no private address: say with --advertise by which address the other nodes reach it")
	}
	return private, nil
}

// join makes the node a member. It takes part only when it has begun.
func (n *Node) join(ctx context.Context) error {
	c := n.cfg.Cluster
	keys, err := c.keys()
	if err != nil {
		return err
	}
	host, err := c.advertised()
	if err != nil {
		return err
	}
	n.process, err = cluster.Join(ctx, cluster.ProcessConfig{
		Self:    n.self,
		Wire:    wire.Config{Listen: c.ActorListen, Advertise: host, Cluster: c.Name, TLS: c.TLS, Insecure: c.Insecure, Log: n.log, Registerer: n.registry},
		Members: cluster.MembersConfig{Listen: c.Listen, Advertise: host, Join: c.Join, Label: c.Name, Keys: keys, Insecure: c.Insecure, Now: clock.Now, Boot: cluster.Boottime, Log: n.log, Registry: n.registry},
		Presence: cluster.PresenceConfig{
			Every: c.settings().Every(), Status: n.status, Changed: n.look, Events: n.received,
			Drain: n.askToStop,
		},
		Routes: n.routes, Viewed: func(*cluster.View) { n.look() }, Failed: n.fail, Props: n.props, Log: n.log,
	})
	if err != nil {
		return err
	}
	n.self, n.now = n.process.Self, n.process.Members.Now
	n.clockSkew = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "belfry", Name: "clock_skew_seconds", Help: "How far this node's clock is ahead of the median of all nodes' clocks."})
	n.registry.MustRegister(n.clockSkew)
	n.relay = newRelay(n.registry)
	go n.relay.run(n.system.Root, n.peers, n.ended)
	go n.watchOthers()
	return n.beat(ctx)
}

// beat starts this node's signs of life, where others share its store.
func (n *Node) beat(ctx context.Context) error {
	beats, shared := n.store.(persistence.Beats)
	if !shared {
		return nil
	}
	var err error
	n.beater, err = cluster.NewBeater(cluster.BeatConfig{
		Beats: beats, Self: n.self, Settings: n.cfg.Cluster.settings(), Metrics: cluster.NewBeatMetrics(n.registry), Logger: n.log,
	})
	if err == nil {
		err = n.beater.Start(ctx)
	}
	return err
}

// status is what this node says of itself.
func (n *Node) status() cluster.Status {
	s := cluster.Status{
		Stamp:    cluster.Boottime().Milliseconds(),
		Draining: n.stopping.Load() || !n.begun.Load(),
		ClockOff: n.clockOff.Load(),
		Stored:   int(n.format.Load()),
		Store:    n.storeID,
	}
	if n.begun.Load() && n.worker != nil {
		s.Worker = n.worker.GetId()
	}
	return s
}

// look shows the host who there is, as far as it has begun.
func (n *Node) look() {
	if !n.begun.Load() || n.host == nil {
		return
	}
	view := &cluster.View{Members: []cluster.Member{n.self}}
	if n.process != nil {
		view = n.process.Members.View()
	}
	// A node that nobody can take over from goes on until its last call has ended.
	// So does the last one of those that stop together.
	self := cluster.Status{Draining: n.givingUp.Load() && (n.last.Load() || n.shared()), ClockOff: n.clockOff.Load()}
	n.system.Root.Send(n.host, partition.Seen{View: view, Self: self})
}

// stranger tells, once, of a node that calls itself a member of this cluster and
// works on another store. What it owns is not ours, and it is given nothing.
func (n *Node) stranger(p cluster.Peer) {
	if n.strangers[p.Incarnation] {
		return
	}
	n.strangers[p.Incarnation] = true
	n.log.Error("a node with another store has the name of this cluster: give one of them another --cluster-name", "stranger", p.Node, "address", p.Address)
}

// learnFormat reads the cluster's format again, after another node has said that
// it was raised. Partitions that are taken from here on are written in it.
func (n *Node) learnFormat() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := n.store.Cluster(ctx, n.constants())
	var mismatch *persistence.Mismatch
	switch {
	case errors.As(err, &mismatch):
		n.fail(fmt.Errorf("the store: %w", err))
	case err != nil:
		n.log.Warn("read the format of the cluster", "err", err)
	case n.format.Swap(int64(c.Format)) != int64(c.Format):
		n.log.Info("the format of stored messages was raised", "format", c.Format)
		n.process.Presence.Announce()
	}
}

// takePart tells the others, and the host, that this node does its parts now.
func (n *Node) takePart() {
	n.begun.Store(true)
	if n.process != nil {
		n.process.Presence.Announce()
	}
	n.look()
}

// peers are the other members of the cluster.
func (n *Node) peers() []cluster.Peer {
	if n.process == nil {
		return nil
	}
	return n.process.Presence.Peers()
}

// shared tells whether another node is there to take over what this one has.
func (n *Node) shared() bool {
	if n.beater == nil {
		return false
	}
	for _, p := range n.peers() {
		if p.Roles.Has(cluster.Scheduler) && !p.Draining && !p.ClockOff && !p.Heard.IsZero() {
			return true
		}
	}
	return false
}

// watchPause is the time between two looks at the others.
const watchPause = 250 * time.Millisecond

// watchOthers looks, again and again, at what the other nodes tell about this
// one: that its clock is wrong, its format old, or its name taken.
func (n *Node) watchOthers() {
	t := time.NewTicker(watchPause)
	defer t.Stop()
	compared := sync.OnceFunc(func() { close(n.compared) })
	for {
		select {
		case <-n.ended:
			return
		case <-t.C:
		}
		enough := n.process.Members.CanJudgeClock()
		n.judgeClock()
		if enough {
			compared()
		}
		for _, p := range n.peers() {
			switch {
			case p.Store != uuid.Nil && p.Store != n.storeID:
				n.stranger(p)
			case int64(p.Stored) > n.format.Load():
				n.learnFormat()
			}
		}
		if n.process.Members.Replaced() {
			n.fail(fmt.Errorf("another process has started as node %q: node names must differ", n.self.Node))
		}
	}
}

// compareFor is how long a node that starts waits for readings of the others'
// clocks. One that lives is pinged within 250 ms for each node that there is.
const compareFor = 3 * time.Second

// compareClock waits until a starting node's clock has been compared with the
// others': what it is given before, it would take for due, or for missed, by a
// clock that may be wrong.
func (n *Node) compareClock(ctx context.Context) error {
	n.wait("the node compares its clock with those of the other nodes")
	select {
	case <-n.compared:
	case <-time.After(compareFor):
		n.log.Warn("too few nodes answer to compare this node's clock with theirs")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// judgeClock compares this node's clock with the others', and has it act by the
// one that is right.
func (n *Node) judgeClock() {
	was := n.clockOff.Load()
	v := n.process.Members.FollowClock(was)
	n.clockSkew.Set(v.Offset.Seconds())
	switch {
	case v.Off == was:
		return
	case v.Off:
		n.log.Error("this node's clock is wrong: it owns nothing until it is right again", "offset", v.Offset.String(), "compared", v.Compared)
	default:
		n.log.Info("this node's clock is right again", "offset", v.Offset.String())
	}
	n.clockOff.Store(v.Off)
	n.process.Presence.Announce()
	n.look()
}

// askToStop is what a request to drain this node does.
func (n *Node) askToStop() { n.askedOnce.Do(func() { close(n.asked) }) }

// Asked is closed when the node was asked, over the network, to stop.
func (n *Node) Asked() <-chan struct{} { return n.asked }

// received takes what has happened on other nodes.
func (n *Node) received(events []*belfryv1.Event) {
	if g := n.api.Load(); g != nil {
		for _, e := range events {
			g.Publish(e)
		}
	}
}

// leave gives the cluster notice, once nothing is owned or held any more.
func (n *Node) leave(ctx context.Context) error {
	var errs []error
	if n.process != nil {
		errs = append(errs, n.process.Leave(ctx))
	}
	if n.beater != nil {
		errs = append(errs, n.beater.Stop(ctx))
	}
	return errors.Join(errs...)
}
