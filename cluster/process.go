package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/remote"

	"github.com/belfry-scheduler/belfry/actors"
	"github.com/belfry-scheduler/belfry/cluster/wire"
)

// ProcessConfig is what a process says and is told as a member of the cluster.
type ProcessConfig struct {
	Self     Member        // Address and Kinds are filled in
	Wire     wire.Config   // the actors' transport
	Members  MembersConfig // Self and Changed are filled in
	Presence PresenceConfig
	Kinds    Kinds // that it hosts for targets; none is fine

	// Routes is the table of a process that owns partitions. nil: a new one,
	// which learns their number from others.
	Routes *Routes
	// Viewed is told the newest view, after all parts of the process were.
	Viewed func(*View)
	// Failed is told when the process is of no use to the cluster any more.
	Failed func(error)

	Props *actors.Factory
	Log   *slog.Logger // nil: slog.Default
}

// Process is this process as a member of the cluster: the parts of this package,
// started in the one order that works.
type Process struct {
	Self       Member
	Wire       *wire.Wire
	Members    *Members
	Routes     *Routes
	Presence   *Presence
	Services   *Services
	Protoactor *Protoactor

	kinds   *kindsHost // nil: it hosts none
	view    *View      // the last one
	viewed  func(*View)
	leaving atomic.Bool
	log     *slog.Logger
}

// Join makes this process a member. The actors that others know by name are
// there before gossip tells anybody of the process, and the transport before
// them, because their PIDs carry its address. Whatever was started is stopped
// again on an error.
func Join(ctx context.Context, cfg ProcessConfig) (_ *Process, err error) {
	cfg.setDefaults()
	p := &Process{Self: cfg.Self, Routes: cfg.Routes, view: &View{}, viewed: cfg.Viewed, log: cfg.Log}
	defer func() {
		if err != nil {
			err = fmt.Errorf("join the cluster: %w", errors.Join(err, p.stop(context.Background())))
		}
	}()
	system := cfg.Props.System()
	if p.Wire, err = wire.Start(system, cfg.Wire); err != nil {
		return nil, err
	}
	p.Self.Address, p.Self.Kinds = p.Wire.Address(), cfg.Kinds.Names()
	if p.Routes == nil {
		p.Routes = NewRoutes(system, 0)
	}
	p.Services = NewServices(system)
	if p.Protoactor, err = NewProtoactor(system, remote.GetRemote(system), p.Routes, p.Services); err != nil {
		return nil, err
	}
	gone := func(reason any) { cfg.Failed(fmt.Errorf("an actor of the cluster panicked: %v", reason)) }
	if len(p.Self.Kinds) > 0 {
		if p.kinds, err = startKinds(cfg.Props, cfg.Kinds, gone); err != nil {
			return nil, err
		}
	}
	if p.Presence, err = StartPresence(cfg.Props, p.presence(cfg.Presence), gone); err != nil {
		return nil, err
	}
	cfg.Members.Self, cfg.Members.Changed = p.Self, p.changed
	if p.Members, err = JoinMembers(ctx, cfg.Members); err != nil {
		return nil, err
	}
	return p, nil
}

func (c *ProcessConfig) setDefaults() {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Viewed == nil {
		c.Viewed = func(*View) {}
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	if c.Presence.Log == nil {
		c.Presence.Log = c.Log
	}
}

// presence says that the process drains once it leaves, and tells the services
// of others that do. Changed does not come before the first view, and that not
// before Join has set what it reads.
func (p *Process) presence(cfg PresenceConfig) PresenceConfig {
	status, changed := cfg.Status, cfg.Changed
	cfg.Self, cfg.Routes = p.Self, p.Routes
	cfg.Status = func() Status {
		s := status()
		s.Draining = s.Draining || p.leaving.Load()
		return s
	}
	cfg.Changed = func() {
		p.Services.Heard(p.Presence.Peers())
		if changed != nil {
			changed()
		}
	}
	return cfg
}

// changed tells every part of a new view. A member that is new in it may be at an
// address where a dead one was called in vain a moment ago.
func (p *Process) changed(v *View) {
	for _, m := range v.Members {
		if _, known := p.view.Find(m.Owner()); !known {
			p.Wire.Redial(m.Address)
		}
	}
	p.view = v
	p.Presence.Viewed(v)
	p.Services.Viewed(v)
	p.Protoactor.Viewed(v)
	p.viewed(v)
}

// Leave tells the others that this process drains, lets its handlers end until
// ctx does, and only then leaves and stops: nobody waits for the answer of one
// that has left. That the others are not told in time is no error: they miss it
// a second or two later.
func (p *Process) Leave(ctx context.Context) error {
	p.leaving.Store(true)
	p.Presence.Announce()
	if p.kinds != nil {
		p.kinds.quiet(ctx)
	}
	if err := p.Members.Leave(grace(ctx)); err != nil {
		p.log.Warn("tell the others that this process leaves", "err", err)
	}
	return p.stop(ctx)
}

// grace is the time that ctx leaves for a step. It is never 0, which memberlist
// takes for no bound.
func grace(ctx context.Context) time.Duration {
	const least, most = time.Millisecond, 2 * time.Second
	if until, ok := ctx.Deadline(); ok {
		return min(max(time.Until(until), least), most)
	}
	return most
}

// stop ends what was started, in the opposite order.
func (p *Process) stop(ctx context.Context) error {
	var errs []error
	if p.Members != nil {
		p.Members.Close()
	}
	if p.kinds != nil {
		errs = append(errs, p.kinds.close(ctx))
	}
	if p.Presence != nil {
		errs = append(errs, p.Presence.Stop())
	}
	if p.Protoactor != nil {
		p.Protoactor.Close()
	}
	if p.Wire != nil {
		p.Wire.Stop(grace(ctx))
	}
	return errors.Join(errs...)
}
