package cluster

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/actors"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// NodeActor is the name under which every process has its presence. The others
// write to it as soon as they see the process.
const NodeActor = "node"

// nodeKind is stopped by a panic: what it knows of others may be wrong.
var nodeKind = actors.Kind{Name: "node", Mailbox: 16_384}

// coalesce is how long an announcement waits for others that come with it.
const coalesce = 20 * time.Millisecond

// Status is what a process says of itself, beside the partitions that it owns.
type Status struct {
	Worker   string // id of its worker's actor; "": it has none
	Stamp    int64  // its BOOTTIME clock, ms
	Draining bool   // takes no partitions and no deliveries any more
	Stored   int    // the format of stored messages that it writes; 0: not known
	ClockOff bool   // its wall clock is wrong: it owns nothing
	// Store is the id of the cluster in its store; zero: it has no store, or has
	// not read it yet.
	Store uuid.UUID
}

// Peer is another process, as it is seen and as it says.
type Peer struct {
	Member
	Worker   *actor.PID // nil: it has none of this store, or did not say so yet
	Stamp    int64      // its newest BOOTTIME clock, ms
	Draining bool
	Stored   int // the format of stored messages that it writes; 0: it did not say
	ClockOff bool
	Store    uuid.UUID // the id of the cluster in its store; zero: it has none, or did not say
	Heard    time.Time // by our own monotonic clock; zero: not yet
}

// PresenceConfig is what a Presence needs. Status, Routes and Every are
// required; the callbacks are called in the actor's goroutine, and must be quick.
type PresenceConfig struct {
	Self   Member
	Every  time.Duration // between two presences without a change: TTL/6, so that two may be lost
	Status func() Status
	Routes *Routes
	Log    *slog.Logger // nil: slog.Default

	Changed func()                  // Peers has changed in more than stamps
	Events  func([]*belfryv1.Event) // another node tells what has happened there
	Drain   func()                  // this node is asked to hand everything over and to stop

	send func(to *actor.PID, msg proto.Message) // nil: through the actor system
}

// Presence tells the others of this process, and knows what they told. It is
// the actor NodeActor.
type Presence struct {
	PresenceConfig
	system  *actor.ActorSystem
	self    *actor.PID
	roster  roster
	number  int64
	peers   atomic.Pointer[[]Peer]
	waiting atomic.Bool // an announcement is on its way
	ended   chan struct{}
}

// Messages of a presence to itself.
type (
	announce struct{}
	look     struct{ view *View }
)

func (announce) Reserved() {}
func (look) Reserved()     {}

// StartPresence starts the actor; gone is told when it was stopped by a panic,
// after which the process is of no use to the cluster. The remote transport must
// run, and gossip must not have told of this process yet.
func StartPresence(props *actors.Factory, cfg PresenceConfig, gone func(reason any)) (*Presence, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	p := &Presence{PresenceConfig: cfg, system: props.System(), roster: roster{}, ended: make(chan struct{})}
	p.peers.Store(new([]Peer))
	if p.send == nil {
		p.send = func(to *actor.PID, msg proto.Message) { p.system.Root.RequestWithCustomSender(to, msg, p.self) }
	}
	p.self = actor.NewPID(p.system.Address(), NodeActor)
	guardian := props.Guardian(nodeKind, func(_ *actor.PID, reason any) {
		if gone != nil {
			gone(reason)
		}
	})
	_, err := p.system.Root.SpawnNamed(props.Props(nodeKind, func() actor.Actor { return p }, guardian), NodeActor)
	if err != nil {
		return nil, fmt.Errorf("start the presence: %w", err)
	}
	cfg.Routes.OnOwn(p.Announce)
	return p, nil
}

// Announce tells the others soon (20 ms) that something has changed here. It may
// be called from anywhere.
func (p *Presence) Announce() {
	if p.waiting.CompareAndSwap(false, true) {
		time.AfterFunc(coalesce, func() {
			p.waiting.Store(false)
			p.system.Root.Send(p.self, announce{})
		})
	}
}

// Viewed tells it the newest view. It may be called from anywhere.
func (p *Presence) Viewed(v *View) { p.system.Root.Send(p.self, look{v}) }

// Peers are the other members of the view, by node name. It is not to be changed.
func (p *Presence) Peers() []Peer { return *p.peers.Load() }

// Stop ends the actor. Messages to it are dead letters then.
func (p *Presence) Stop() error { return p.system.Root.StopFuture(p.self).Wait() }

// Receive is the table of what a presence understands.
func (p *Presence) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		go p.tick()
	case *actor.Stopping:
		close(p.ended)
	case *actor.Stopped, *actor.Restarting, *actor.DeadLetterResponse:
		// The next presence says it all again.
	case announce:
		p.tell(p.roster.others()...)
	case look:
		p.look(m.view)
	case *belfryv1.Presence:
		p.heard(m)
	case *belfryv1.Events:
		if p.Events != nil {
			p.Events(m.GetEvents())
		}
	case *belfryv1.DrainNode:
		ctx.Respond(&belfryv1.Draining{})
		if p.Drain != nil {
			p.Drain()
		}
	default:
		p.Log.Warn("message of an unknown type", "type", fmt.Sprintf("%T", m))
	}
}

// tick announces at every interval, without waiting for a change.
func (p *Presence) tick() {
	t := time.NewTicker(p.Every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.system.Root.Send(p.self, announce{})
		case <-p.ended:
			return
		}
	}
}

// look takes the newest view. A member that has joined is told at once.
func (p *Presence) look(v *View) {
	joined, changed := p.roster.viewed(v, p.Self)
	p.Routes.Viewed(v)
	p.tell(joined...)
	p.show(changed)
}

// heard takes what another process says. The first time it is answered at once:
// that process may not have seen this one when it was told.
func (p *Presence) heard(m *belfryv1.Presence) {
	m = ofStore(p.Status().Store, m)
	peer, first, changed := p.roster.heard(m, time.Now())
	if peer == nil {
		return
	}
	p.Routes.Heard(peer.Member, m)
	if first {
		p.tell(peer.Member)
	}
	p.show(changed)
}

// tell sends our presence to members. Each time it is a message of its own: one
// that is on its way is not touched.
func (p *Presence) tell(to ...Member) {
	if len(to) == 0 {
		return
	}
	s := p.Status()
	p.number++
	m := &belfryv1.Presence{
		Node: p.Self.Node, Incarnation: p.Self.Incarnation[:], Number: p.number,
		Owned: p.Routes.Owned(), Partitions: int32(p.Routes.Partitions()),
		Worker: s.Worker, Stamp: s.Stamp, Draining: s.Draining, Format: int32(s.Stored), ClockOff: s.ClockOff,
	}
	if s.Store != uuid.Nil {
		m.Store = s.Store[:]
	}
	for _, member := range to {
		p.send(actor.NewPID(member.Address, NodeActor), m)
	}
}

func (p *Presence) show(changed bool) {
	peers := p.roster.peers()
	p.peers.Store(&peers)
	if changed && p.Changed != nil {
		p.Changed()
	}
}
