package partition

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/actors"
	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// HostConfig is what a host needs to own partitions.
type HostConfig struct {
	Shell
	State  Config // Partition is set for each
	Owner  persistence.Owner
	Owners *cluster.Owners
	Props  *actors.Factory
	Loads  int // partitions loaded at once
}

// Host takes every partition of the node, starts its owner, and takes it again
// when the owner ends. The write that raises the epoch is the activation;
// there is no other.
type Host struct {
	HostConfig
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}
	byPID  map[string]int32
	stats  []atomic.Pointer[Stats]
	stop   chan struct{}
}

// NewHost makes the actor. Stats are shown by its collector, see Metrics.
func NewHost(cfg HostConfig) *Host {
	if cfg.Loads == 0 {
		cfg.Loads = 4
	}
	h := &Host{HostConfig: cfg, byPID: map[string]int32{}, slots: make(chan struct{}, cfg.Loads), stop: make(chan struct{})}
	h.stats = make([]atomic.Pointer[Stats], cfg.Owners.Partitions())
	return h
}

// Messages of the host to itself.
type (
	taken struct {
		partition int32
		state     *State
	}
	takeAgain struct{ partition int32 }
)

func (taken) Reserved()     {}
func (takeAgain) Reserved() {}

// Receive is the table of what a host understands.
func (h *Host) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		h.start(ctx)
	case *actor.Stopping:
		h.cancel()
	case *actor.Stopped, *actor.Restarting:
	case taken:
		h.spawn(ctx, m)
	case takeAgain:
		h.take(ctx.ActorSystem().Root, ctx.Self(), m.partition)
	case *actor.Terminated:
		h.ended(ctx, m.Who)
	case poke:
		for _, child := range ctx.Children() {
			ctx.Send(child, m)
		}
	default:
		h.Log.Warn("message of an unknown type", "type", fmt.Sprintf("%T", m))
	}
}

func (h *Host) start(ctx actor.Context) {
	h.ctx, h.cancel = context.WithCancel(context.Background())
	root, self := ctx.ActorSystem().Root, ctx.Self()
	for p := range int32(h.Owners.Partitions()) {
		h.take(root, self, p)
	}
	go h.watchClock(root, self)
}

// take acquires and loads a partition beside the mailbox, a few at once.
func (h *Host) take(root *actor.RootContext, self *actor.PID, p int32) {
	go func() {
		select {
		case h.slots <- struct{}{}:
		case <-h.ctx.Done():
			return
		}
		state, err := h.tryAcquire(p)
		<-h.slots
		switch {
		case err == nil:
			root.Send(self, taken{p, state})
		case h.ctx.Err() == nil:
			h.Log.Warn("take a partition", "partition", p, "err", err)
			h.takeLater(root, self, p)
		}
	}()
}

// tryAcquire is acquire; a panic in it, over whatever is stored, is an error of
// this partition.
func (h *Host) tryAcquire(p int32) (s *State, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic while loading: %v\n%s", r, debug.Stack())
		}
	}()
	return h.acquire(p)
}

// acquire raises the epoch of a partition and reads what is in it.
func (h *Host) acquire(p int32) (*State, error) {
	ctx, cancel := context.WithTimeout(h.ctx, 5*time.Minute)
	defer cancel()
	seen, err := h.Store.ReadFence(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read the fence: %w", err)
	}
	op := uuid.New()
	fence, err := h.Store.Acquire(ctx, seen, h.Owner, op)
	for errors.Is(err, persistence.ErrInDoubt) && ctx.Err() == nil {
		fence, err = h.Store.Acquire(ctx, seen, h.Owner, op) // the same op: it settles itself
	}
	if err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	h.Metrics.fenceAcquired.Inc()
	cfg := h.State
	cfg.Partition, cfg.Partitions = p, h.Owners.Partitions()
	s := New(cfg, fence, time.Now())
	each := func(r persistence.Row) error { s.LoadRow(r); return nil }
	if err := h.Store.Load(ctx, p, 0, job.DeadSliceOffset, each); err != nil {
		return nil, fmt.Errorf("load jobs: %w", err)
	}
	if err := h.Store.Load(ctx, p, job.SideSliceOffset, job.SideSliceOffset+job.SlicesPerKind, each); err != nil {
		return nil, fmt.Errorf("load the rest: %w", err)
	}
	s.Loaded()
	return s, nil
}

// spawn starts the owner of a loaded partition. Its name carries the epoch, so
// that no message meant for one owner reaches another.
func (h *Host) spawn(ctx actor.Context, t taken) {
	sh := h.Shell
	sh.Log = h.Log.With("partition", t.partition, "epoch", t.state.life)
	props := h.Props.Props(actors.Partition, func() actor.Actor { return newOwner(sh, t.partition, t.state, &h.stats[t.partition]) })
	pid, err := ctx.SpawnNamed(props, fmt.Sprintf("p%d-e%d", t.partition, t.state.life))
	if err != nil {
		h.Log.Error("start the owner", "partition", t.partition, "err", err)
		h.take(ctx.ActorSystem().Root, ctx.Self(), t.partition)
		return
	}
	h.byPID[pid.GetId()] = t.partition
	h.Owners.Set(t.partition, pid)
}

// ended takes a partition again whose owner has stopped.
func (h *Host) ended(ctx actor.Context, who *actor.PID) {
	p, ok := h.byPID[who.GetId()]
	if !ok {
		return
	}
	delete(h.byPID, who.GetId())
	h.Owners.Set(p, nil)
	h.stats[p].Store(nil)
	if h.ctx.Err() == nil {
		h.takeLater(ctx.ActorSystem().Root, ctx.Self(), p)
	}
}

// takePause is waited before a partition is taken again that was lost, or could
// not be taken.
const takePause = time.Second

func (h *Host) takeLater(root *actor.RootContext, self *actor.PID, p int32) {
	time.AfterFunc(takePause, func() { root.Send(self, takeAgain{p}) })
}

// watchClock wakes every owner when the wall clock was stepped: their timers
// run on the monotonic one and would sleep on.
func (h *Host) watchClock(root *actor.RootContext, self *actor.PID) {
	const every = 250 * time.Millisecond
	t := time.NewTicker(every)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		step := now.Round(0).Sub(last.Round(0)) - now.Sub(last)
		if step.Abs() > 500*time.Millisecond {
			h.Log.Warn("the wall clock was stepped", "by", step.String())
			root.Send(self, poke{})
		}
		last = now
	}
}
