package partition

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/actors"
	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// HostConfig is what a host needs to own partitions.
type HostConfig struct {
	Shell         // Alive and Stamp are the host's to set
	State  Config // Partition is set for each
	Owner  persistence.Owner
	Routes *cluster.Routes
	Props  *actors.Factory
	Loads  int                   // partitions loaded at once; 0: 4
	Peers  func() []cluster.Peer // the other members and what they say of themselves
	Format func() int            // of stored messages, in which the owners write
	Failed func(error)           // told when the node must end

	// Beats, Beater and Settings are nil and zero where no other process can
	// have the store: every partition is taken at once then, and kept.
	Beats    persistence.Beats
	Beater   *cluster.Beater
	Settings cluster.Settings
	// Worker is the worker of this node; nil: it has none.
	Worker *actor.PID
}

// Host owns partitions: it carries out what cluster.Claims decides, starts an
// owner for each partition that it gets, and hands it over when another node is
// to have it. The write that raises the epoch is the activation; there is no
// other.
type Host struct {
	HostConfig
	ctx      context.Context
	cancel   context.CancelFunc
	claims   *cluster.Claims
	watch    *cluster.Watch
	seen     Seen             // View is never nil
	proposed []cluster.Member // who may own partitions, as the claims know it
	lease    cluster.Lease    // as of the last round
	loads    chan struct{}

	owners  map[int32]*ownership
	byPID   map[string]int32
	givers  map[int32]giver                    // who waits to hear that a partition of theirs is taken
	workers []Worker                           // as the owners know them, before the order of each
	partial bool                               // some worker has not been heard yet
	heard   map[persistence.Owner]cluster.Peer // with a worker, as each was heard last
	drained []*actor.PID                       // who waits for the host to own nothing
	timer   *time.Timer

	stats  []atomic.Pointer[Stats] // the system partition's are the last
	depths queuesShown
}

// ownership is a partition whose owner runs here.
type ownership struct {
	pid   *actor.PID
	epoch int64
	// Under which lease the node is known to hold the partition: nothing is sent
	// when it has lapsed.
	lease atomic.Pointer[cluster.Lease]
	// What its owner was told about workers last.
	list    []Worker
	partial bool
}

// giver gives us a partition, under a fence with an epoch.
type giver struct {
	pid   *actor.PID
	epoch int64
}

// HostName is the name of a node's host. The owners are its children.
const HostName = "host"

// NewHost makes the actor, to be spawned under HostName. Stats are shown by its collector, see Metrics.
func NewHost(cfg HostConfig) *Host {
	if cfg.Loads == 0 {
		cfg.Loads = 4
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	n := cfg.Routes.Partitions()
	claims := cluster.DefaultClaims(cfg.Owner, n)
	claims.Alone, claims.System = cfg.Beats == nil, true
	watch := cluster.NewWatch(cfg.Settings)
	return &Host{
		HostConfig: cfg, watch: watch, claims: cluster.NewClaims(claims, watch), seen: Seen{View: &cluster.View{}}, loads: make(chan struct{}, cfg.Loads),
		owners: map[int32]*ownership{}, byPID: map[string]int32{}, givers: map[int32]giver{}, heard: map[persistence.Owner]cluster.Peer{}, stats: make([]atomic.Pointer[Stats], n+1),
	}
}

// Seen tells a host who there is, and what this node says of itself. The view
// has this node, too. It is sent again when what Peers answers has changed.
type Seen struct {
	View *cluster.View
	Self cluster.Status
}

// Drain asks a host to give up everything; it answers Drained when it owns
// nothing any more.
type (
	Drain   struct{}
	Drained struct{}
)

// Messages of the host to itself.
type (
	round struct { // of looking at all nodes' beats
		began, ended time.Duration
		beats        []persistence.Beat
		err          error
	}
	fenceRead struct {
		partition int32
		reading   int
		fence     persistence.Fence
		err       error
		lease     cluster.Lease // from before it was read
	}
	acquired struct{ partition int32 }
	taken    struct {
		partition int32
		state     *State
		held      bool // the epoch was raised, or may have been
		err       error
		lease     cluster.Lease // from before it was acquired
	}
	released struct {
		partition int32
		err       error
	}
	tick struct{}
)

// Reserved marks messages that a full mailbox takes.
func (Seen) Reserved()      {}
func (Drain) Reserved()     {}
func (round) Reserved()     {}
func (fenceRead) Reserved() {}
func (acquired) Reserved()  {}
func (taken) Reserved()     {}
func (released) Reserved()  {}
func (tick) Reserved()      {}

// Receive is the table of what a host understands.
func (h *Host) Receive(ctx actor.Context) {
	now := cluster.Boottime()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		h.start(ctx)
	case *actor.Stopping:
		h.cancel()
		h.timer.Stop()
	case *actor.Stopped, *actor.Restarting:
	case Seen:
		h.seen = m
		h.proposed = h.candidates()
		h.carry(ctx, h.claims.See(now, m.View, h.proposed))
		h.showWorkers(ctx)
	case round:
		h.round(ctx, now, m)
	case tick:
		h.carry(ctx, h.claims.Tick(now))
	case fenceRead:
		h.fenceRead(ctx, now, m)
	case acquired:
		h.answerGiver(ctx, m.partition, true)
	case taken:
		h.taken(ctx, now, m)
	case released:
		if m.err != nil {
			h.Log.Warn("release a partition", "partition", m.partition, "err", m.err)
			h.claims.Unreleased(m.partition)
		}
		h.end(ctx, m.partition)
	case yielded:
		h.carry(ctx, h.claims.Yielded(now, m.partition, m.fence))
	case *belfryv1.Handover:
		h.offered(ctx, now, m)
	case *belfryv1.HandoverTaken:
		if h.knows(m.GetPartition()) {
			h.carry(ctx, h.claims.Answered(now, m.GetPartition(), m.GetEpoch(), m.GetTaken()))
		}
	case *actor.Terminated:
		h.ended(ctx, now, m.Who)
	case Drain:
		h.drained = append(h.drained, ctx.Sender())
	case poke:
		for _, child := range ctx.Children() {
			ctx.Send(child, m)
		}
	case *actor.DeadLetterResponse:
		// A node that is gone. Its silence says the same.
	default:
		h.Log.Warn("message of an unknown type", "type", fmt.Sprintf("%T", m))
	}
	h.rest(ctx, now)
}

func (h *Host) knows(p int32) bool {
	return p >= job.SystemPartition && int(p) < h.Routes.Partitions()
}

func (h *Host) statsOf(p int32) *atomic.Pointer[Stats] {
	if p == job.SystemPartition {
		return &h.stats[len(h.stats)-1]
	}
	return &h.stats[p]
}

func (h *Host) start(ctx actor.Context) {
	h.ctx, h.cancel = context.WithCancel(context.Background())
	root, self := ctx.ActorSystem().Root, ctx.Self()
	h.timer = time.AfterFunc(time.Hour, func() { root.Send(self, tick{}) })
	go h.watchClock(root, self)
	if h.Beats == nil {
		root.Send(self, round{})
		return
	}
	go h.watchBeats(root, self)
}

// watchBeats reads all nodes' beats, as often as they move.
func (h *Host) watchBeats(root *actor.RootContext, self *actor.PID) {
	t := time.NewTicker(h.Settings.Every())
	defer t.Stop()
	for {
		m := round{began: cluster.Boottime()}
		ctx, cancel := context.WithTimeout(h.ctx, 2*h.Settings.Every())
		m.beats, m.err = h.Beats.Beats(ctx, h.nodes()...)
		cancel()
		m.ended = cluster.Boottime()
		if h.ctx.Err() != nil {
			return
		}
		root.Send(self, m)
		select {
		case <-h.ctx.Done():
			return
		case <-t.C:
		}
	}
}

// nodes are the names of those whose beats must be in every reading.
func (h *Host) nodes() []string {
	names := []string{h.Owner.Node}
	for _, p := range h.Peers() {
		names = append(names, p.Node)
	}
	return names
}

// round looks at the beats of all nodes, and at our own.
func (h *Host) round(ctx actor.Context, now time.Duration, m round) {
	lease := h.Beater.Lease()
	if !lease.Since(h.lease) { // it lapsed in between, however short the gap looks now
		h.carry(ctx, h.claims.Able(now, false))
	}
	h.lease = lease
	h.carry(ctx, h.claims.Able(now, lease.Valid()))
	if m.err == nil {
		h.carry(ctx, h.claims.Beats(m.began, m.ended, m.beats))
		if may := h.candidates(); !slices.EqualFunc(may, h.proposed, sameProcess) {
			h.proposed = may
			h.carry(ctx, h.claims.See(now, h.seen.View, may))
		}
	}
	for p, o := range h.owners {
		if known := h.Routes.Owner(p); known != nil && !known.Equal(o.pid) { // under a later epoch
			h.carry(ctx, h.claims.Rival(now, p))
		}
	}
	h.showWorkers(ctx)
}

// candidates are the members that may own partitions, by node name. One that
// does not beat in our store is none, although gossip hears of it: it can reach
// the other nodes and not the store, or works on another one.
func (h *Host) candidates() []cluster.Member {
	var out []cluster.Member
	for _, m := range h.seen.View.With(cluster.Scheduler) {
		s, known := h.says(m)
		if known && !s.Draining && !s.ClockOff && (m.Owner() == h.Owner || h.watch.Live(m.Owner(), h.seen.View)) {
			out = append(out, m)
		}
	}
	return out
}

func sameProcess(a, b cluster.Member) bool { return a.Owner() == b.Owner() }

// says is what a member says of itself; false: nothing yet.
func (h *Host) says(m cluster.Member) (cluster.Peer, bool) {
	if m.Owner() == h.Owner {
		return cluster.Peer{Member: m, Worker: h.Worker, Draining: h.seen.Self.Draining, ClockOff: h.seen.Self.ClockOff}, true
	}
	for _, p := range h.Peers() {
		if p.Owner() == m.Owner() {
			return p, !p.Heard.IsZero()
		}
	}
	return cluster.Peer{}, false
}

// carry carries out what the claims want.
func (h *Host) carry(ctx actor.Context, effects []cluster.ClaimEffect) {
	for _, e := range effects {
		switch e := e.(type) {
		case cluster.ReadFence:
			h.readFence(ctx, e)
		case cluster.Take:
			h.take(ctx, e)
		case cluster.Yield:
			h.yield(ctx, e)
		case cluster.Offer:
			ctx.Request(actor.NewPID(e.Next.Address, HostName), &belfryv1.Handover{Partition: e.Partition, Fence: toHand(e.Fence)})
		case cluster.Release:
			h.release(ctx, e)
		case cluster.End:
			h.end(ctx, e.Partition)
		}
	}
}

// fenceRead passes a fence on. An owner of ours that is found in it still is
// one: it may act under the lease from before the fence was read.
func (h *Host) fenceRead(ctx actor.Context, now time.Duration, m fenceRead) {
	confirmed, effects := h.claims.Fence(now, m.partition, m.reading, m.fence, m.err)
	if o := h.owners[m.partition]; o != nil && confirmed {
		o.lease.Store(&m.lease)
	}
	h.carry(ctx, effects)
}

// taken starts the owner of a loaded partition. Its name carries the epoch, so
// that no message meant for one owner reaches another.
func (h *Host) taken(ctx actor.Context, now time.Duration, m taken) {
	p := m.partition
	h.answerGiver(ctx, p, false) // unless it has been told already
	if m.err == nil {
		m.err = h.spawn(ctx, m)
	}
	if m.err != nil {
		h.Log.Warn("take a partition", "partition", p, "err", m.err)
	}
	h.carry(ctx, h.claims.Took(now, p, m.held, m.err))
}

func (h *Host) spawn(ctx actor.Context, m taken) error {
	o := &ownership{epoch: m.state.life}
	o.lease.Store(&m.lease)
	sh := h.Shell
	sh.Log = h.Log.With("partition", m.partition, "epoch", o.epoch)
	sh.Ask = h.Routes.Ask
	sh.Alive = func() bool { return o.lease.Load().Valid() }
	sh.Stamp = h.stamp
	props := h.Props.Props(actors.Partition, func() actor.Actor { return newOwner(sh, m.partition, m.state, h.statsOf(m.partition)) })
	pid, err := ctx.SpawnNamed(props, cluster.OwnerName(m.partition, o.epoch))
	if err != nil {
		return fmt.Errorf("start the owner: %w", err)
	}
	o.pid = pid
	h.owners[m.partition], h.byPID[pid.GetId()] = o, m.partition
	h.tellWorkers(ctx, m.partition, o)
	h.Routes.Own(m.partition, o.epoch, pid)
	sh.Log.Info("the partition is owned")
	return nil
}

// ended follows the end of an owner, for whatever reason.
func (h *Host) ended(ctx actor.Context, now time.Duration, who *actor.PID) {
	p, ok := h.byPID[who.GetId()]
	if !ok {
		return
	}
	delete(h.byPID, who.GetId())
	o := h.owners[p]
	delete(h.owners, p)
	h.Routes.Disown(p, o.epoch)
	h.statsOf(p).Store(nil)
	h.Log.Info("the partition is not owned any more", "partition", p, "epoch", o.epoch)
	if h.ctx.Err() == nil { // else the host ends with it
		h.carry(ctx, h.claims.Ended(now, p))
	}
}

func (h *Host) end(ctx actor.Context, p int32) {
	if o := h.owners[p]; o != nil {
		ctx.Stop(o.pid)
	}
}

func (h *Host) yield(ctx actor.Context, e cluster.Yield) {
	o := h.owners[e.Partition]
	h.Log.Info("the partition is given up", "partition", e.Partition, "epoch", o.epoch, "next", e.Next.Node)
	ctx.Send(o.pid, yield{next: e.Next.Node})
}

// offered takes a partition that its owner gives to us.
func (h *Host) offered(ctx actor.Context, now time.Duration, m *belfryv1.Handover) {
	p := m.GetPartition()
	fence, err := handed(p, m.GetFence())
	if err != nil || !h.knows(p) {
		h.Log.Warn("a partition that is handed over is refused", "partition", p, "err", err)
		return
	}
	accepted, effects := h.claims.Offered(now, p, fence)
	if accepted {
		h.givers[p] = giver{ctx.Sender(), fence.Epoch}
	} else if ctx.Sender() != nil {
		ctx.Respond(&belfryv1.HandoverTaken{Partition: p, Epoch: fence.Epoch})
	}
	h.carry(ctx, effects)
}

func (h *Host) answerGiver(ctx actor.Context, p int32, taken bool) {
	if g := h.givers[p]; g.pid != nil {
		ctx.Request(g.pid, &belfryv1.HandoverTaken{Partition: p, Epoch: g.epoch, Taken: taken})
	}
	delete(h.givers, p)
}

// rest sets the timer for what the claims wait for, and answers those who wait
// for the host to own nothing.
func (h *Host) rest(ctx actor.Context, now time.Duration) {
	if h.ctx.Err() != nil {
		return
	}
	if at, ok := h.claims.Wake(); ok {
		h.timer.Reset(max(at-now, time.Millisecond))
	}
	// Where nobody is left to take over nothing is given up, so that what still
	// runs can be recorded.
	if len(h.drained) > 0 && (h.claims.Idle() || !h.seen.Self.Draining) {
		for _, pid := range h.drained {
			ctx.Send(pid, Drained{})
		}
		h.drained = nil
	}
}

// watchClock wakes every owner when the wall clock was stepped: their timers
// run on the monotonic one and would sleep on.
func (h *Host) watchClock(root *actor.RootContext, self *actor.PID) {
	const every = 250 * time.Millisecond
	t := time.NewTicker(every)
	defer t.Stop()
	last, began := h.Now(), time.Now()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-t.C:
		}
		now, wall := time.Now(), h.Now()
		step := wall.Round(0).Sub(last.Round(0)) - now.Sub(began)
		if step.Abs() > 500*time.Millisecond {
			h.Log.Warn("the wall clock was stepped", "by", step.String())
			root.Send(self, poke{})
		}
		last, began = wall, now
	}
}
