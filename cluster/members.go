package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
)

// Membership is gossip (hashicorp/memberlist): who seems to be alive. It is a
// hint and never an authority.
//
//	a process starts ──Join──▶ in every list ──silent──▶ suspect ──▶ dead, out
//	                              ▲    │                   │
//	                              │    └──Leave──▶ out     └─answers─▶ in again
//	                              └────────── rejoin ◀── halves of a split
//
// A member is one incarnation of a node: its name in memberlist is
// node/incarnation. A node that was restarted, on whatever address and however
// soon, is another member; while its predecessor is still in the list, the View
// shows the one that was started later.
//
// What a member says of itself (meta.go) never changes during its life. What
// changes is sent by actor messages.
//
// Every member asks again and again, for as long as it runs, whom it could join:
// the addresses and names it was given, looked up anew, and those of members
// that it has seen before. memberlist alone forgets the dead, and halves that
// have forgotten each other never meet again.
//
// Of two processes with one node name the later one stays: the other learns it
// from Replaced, and has to stop.
//
// Each ping is answered with the wall clock of the one that is asked. Clocks are
// judged in clock.go.

// MembersConfig says who a member is and how it finds the others.
type MembersConfig struct {
	Self Member

	// Listen is host:port for gossip, TCP and UDP. Port 0 takes a free one.
	Listen string
	// Advertise is host:port, or host, by which others reach Listen. Empty: the
	// address of Listen, and if that is 0.0.0.0 the private address of the
	// machine.
	Advertise string
	// Join names others: host, host:port, or a name of several addresses, looked
	// up anew each time. The port is that of Listen where it is not said.
	Join []string

	// Label is the name of the cluster, ≤ 255 bytes: gossip with another is
	// ignored.
	Label string
	// Keys encrypt gossip; see ParseKeys. None: no encryption, which is refused
	// off loopback unless Insecure.
	Keys     [][]byte
	Insecure bool

	// Rejoin is the time between two looks for members to join, ± a quarter.
	// Default 5 s.
	Rejoin time.Duration

	// Now is the machine's wall clock, which others compare with theirs. Default
	// time.Now.
	Now func() time.Time
	// Boot is a clock that never steps and counts the time in which the machine
	// sleeps. Default Boottime.
	Boot func() time.Duration

	// Changed is told the newest View: at first, and when it has changed. Calls
	// come from one goroutine, one after another; what changes during a call is
	// told once after it. It must not call Close or Leave.
	Changed func(*View)

	Log      *slog.Logger          // default slog.Default()
	Registry prometheus.Registerer // nil: no metrics

	resolve   func(ctx context.Context, host string) ([]string, error)
	tune      func(*memberlist.Config)
	transport memberlist.NodeAwareTransport // instead of sockets
}

// Members is the membership of this process.
type Members struct {
	cfg    MembersConfig
	log    *slog.Logger
	lines  *gossipLog
	list   *memberlist.Memberlist
	keys   *memberlist.Keyring // nil: no encryption
	gossip string              // host:port by which others reach us
	port   string              // that we listen on
	own    map[string]bool     // every host:port that is ours
	count  *membersMetrics
	wall   *Wall

	view     atomic.Pointer[View]
	replaced atomic.Bool
	dirty    chan struct{} // holds one token when peers changed since the last look

	keysMu sync.Mutex // serialises SetKeys

	// mu is taken under memberlist's lock: nothing is called while it is held.
	mu    sync.Mutex
	peers map[string]*peer     // alive now, by name in memberlist, without ourselves
	seen  map[string]*sighting // gossip addresses of members, alive or not

	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	done   sync.WaitGroup
	ending sync.Mutex // memberlist panics when it is left after its end
}

// peer is another member that seems to be alive.
type peer struct {
	member   Member
	err      error // why member cannot be used
	gossip   string
	answered bool // it has answered a ping of ours: it is no shadow of a dead one
	clocks   clockSamples
}

// JoinMembers starts the membership and tries once, at most for a few seconds,
// to join others; finding nobody is no error. ctx bounds only this call.
// Errors: a setting that cannot be used, a port that cannot be bound, more about
// the node than gossip can carry, or the end of ctx.
func JoinMembers(ctx context.Context, cfg MembersConfig) (*Members, error) {
	m, err := newMembers(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster membership: %w", err)
	}
	ended := context.AfterFunc(ctx, m.stop)
	alone := m.rejoin(ctx, false)
	if !ended() {
		m.Close()
		return nil, fmt.Errorf("cluster membership: %w", context.Cause(ctx))
	}
	m.refresh()
	m.done.Go(m.tell)
	m.done.Go(func() { m.rejoinLoop(alone) })
	return m, nil
}

func (c *MembersConfig) setDefaults() {
	c.Rejoin = cmp.Or(c.Rejoin, 5*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Boot == nil {
		c.Boot = Boottime
	}
	if c.Changed == nil {
		c.Changed = func(*View) {}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.resolve == nil {
		c.resolve = lookup
	}
}

// View is who seems to be alive now: of each node the newest incarnation, always
// with this process, unless it is replaced.
func (m *Members) View() *View { return m.view.Load() }

// Replaced tells that a later incarnation of this node is alive. This process
// has to stop: others do not count it any more.
func (m *Members) Replaced() bool { return m.replaced.Load() }

// Gossip is the host:port by which other members reach this one.
func (m *Members) Gossip() string { return m.gossip }

// poke has the view looked at. It never blocks.
func (m *Members) poke() {
	select {
	case m.dirty <- struct{}{}:
	default:
	}
}

// tell reports changes of the view until the end.
func (m *Members) tell() {
	m.cfg.Changed(m.View())
	for {
		select {
		case <-m.dirty:
			if m.refresh() {
				m.cfg.Changed(m.View())
			}
		case <-m.ctx.Done():
			return
		}
	}
}

// refresh derives the view from what is alive, and tells whether it changed. A
// later incarnation of our own node counts only when it has answered us: if the
// wall clock went back between two starts, the dead one is the later until the
// others have noticed its death.
func (m *Members) refresh() bool {
	self := m.cfg.Self
	members := []Member{self}
	m.mu.Lock()
	for _, p := range m.peers {
		switch {
		case p.err != nil:
		case p.member.Node != self.Node:
			members = append(members, p.member)
		case later(p.member, self) && p.answered:
			members = append(members, p.member)
			m.replaced.Store(true)
		}
	}
	m.mu.Unlock()
	view, last := &View{Members: newest(members)}, m.view.Load()
	if last != nil && reflect.DeepEqual(view, last) {
		return false
	}
	m.view.Store(view)
	m.count.members.Set(float64(len(view.Members)))
	return true
}

// Clock is a reading of another member's wall clock.
type Clock struct {
	Member Member
	Offset time.Duration // its clock − ours, now
	RTT    time.Duration // of the ping that read it: the reading is off by at most half of that
}

// Clocks has, for each other member of the view that has answered, the best of
// its last 8 readings. Members that are only clients are left out: a service
// beside the cluster must not outvote it.
func (m *Members) Clocks() []Clock {
	now, boot := m.wall.read()
	return m.clocks(now - boot)
}

// clocks compares with our own wall clock, as it is that much ahead of BOOTTIME.
func (m *Members) clocks(own time.Duration) []Clock {
	var out []Clock
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, member := range m.View().Members {
		p := m.peers[memberName(member)]
		if p == nil || member.Roles.Has(ClientRole) {
			continue
		}
		if s, ok := p.clocks.best(); ok {
			out = append(out, Clock{Member: member, Offset: s.ahead - own, RTT: s.rtt})
		}
	}
	return out
}

// JudgeClock judges the machine's wall clock by those of the live members.
// wasOff is the last verdict.
func (m *Members) JudgeClock(wasOff bool) ClockVerdict {
	now, boot := m.wall.read()
	return m.judgeClock(now-boot, wasOff)
}

func (m *Members) judgeClock(own time.Duration, wasOff bool) ClockVerdict {
	var others []time.Duration
	for _, c := range m.clocks(own) {
		others = append(others, c.Offset)
	}
	return JudgeClock(others, wasOff)
}

// Now is the wall clock that this node is to act by: see Wall.
func (m *Members) Now() time.Time { return m.wall.Now() }

// FollowClock is JudgeClock, and has Now follow the verdict. One goroutine calls
// it, again and again: a step of the machine's clock is believed, or not, when it
// is called next.
func (m *Members) FollowClock(wasOff bool) ClockVerdict {
	now, boot := m.wall.read()
	v := m.judgeClock(now-boot, wasOff)
	m.wall.judge(now-boot, v)
	return v
}

// CanJudgeClock tells whether as many clocks were read as a verdict takes: three,
// or those of all nodes of the view.
func (m *Members) CanJudgeClock() bool {
	nodes := 0
	for _, member := range m.View().Members {
		if !member.Roles.Has(ClientRole) {
			nodes++
		}
	}
	return 1+len(m.Clocks()) >= min(nodes, 3)
}

// Leave tells the others that this member goes: they drop it at once, not after
// the time that it takes to miss it. It waits until one was told, at most for
// the timeout, and returns an error when that ended. Close has to follow.
func (m *Members) Leave(timeout time.Duration) error {
	m.ending.Lock()
	defer m.ending.Unlock()
	if m.ctx.Err() != nil {
		return errors.New("leave the cluster: already closed")
	}
	return m.list.Leave(timeout)
}

// Close stops: without Leave the others notice after a second or two. It waits
// for a running call of Changed.
func (m *Members) Close() {
	m.stop()
	m.done.Wait()
	m.ending.Lock()
	defer m.ending.Unlock()
	_ = m.list.Shutdown() // never returns an error
	m.lines.close()
	m.count.unregister()
}

// membersMetrics are the numbers of the membership.
type membersMetrics struct {
	registry prometheus.Registerer
	members  prometheus.Gauge
	refused  *prometheus.CounterVec
}

func newMembersMetrics(registry prometheus.Registerer) (*membersMetrics, error) {
	c := &membersMetrics{
		members: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_cluster_members", Help: "Nodes and clients that seem to be alive, this one included.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_cluster_gossip_refused_total", Help: "What other members sent and nobody can use: meta (who they are) or clock (an answer to a ping).",
		}, []string{"what"}),
	}
	if registry == nil {
		return c, nil
	}
	for i, each := range c.all() {
		if err := registry.Register(each); err != nil {
			for _, before := range c.all()[:i] {
				registry.Unregister(before)
			}
			return nil, err
		}
	}
	c.registry = registry
	return c, nil
}

func (c *membersMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{c.members, c.refused}
}

func (c *membersMetrics) unregister() {
	if c.registry != nil {
		for _, each := range c.all() {
			c.registry.Unregister(each)
		}
	}
}
