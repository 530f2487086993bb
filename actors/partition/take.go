package partition

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// What a host asks of the store is done beside its mailbox, and comes back as a
// message.

// fenceTimeout bounds the reading of a fence, and its release.
const fenceTimeout = 5 * time.Second

func (h *Host) readFence(ctx actor.Context, e cluster.ReadFence) {
	root, self, lease := ctx.ActorSystem().Root, ctx.Self(), h.Beater.Lease()
	go func() {
		ctx, cancel := context.WithTimeout(h.ctx, fenceTimeout)
		defer cancel()
		f, err := h.Store.ReadFence(ctx, e.Partition)
		root.Send(self, fenceRead{e.Partition, e.Reading, f, err, lease})
	}()
}

// take acquires and loads a partition.
func (h *Host) take(ctx actor.Context, e cluster.Take) {
	root, self := ctx.ActorSystem().Root, ctx.Self()
	m := taken{partition: e.Partition, lease: h.Beater.Lease()}
	go func() {
		m.state, m.err = h.tryTake(e, func() { m.held = true; root.Send(self, acquired{e.Partition}) })
		m.held = m.held || errors.Is(m.err, persistence.ErrInDoubt)
		root.Send(self, m)
	}()
}

// tryTake is acquire and load. What is given is loaded meanwhile: nothing is due
// for anybody until both are done, and where the acquisition succeeds nothing has
// changed since. Else a batch of the owner before may still be half done, and is
// finished or dead only when the partition is acquired.
func (h *Host) tryTake(e cluster.Take, acquired func()) (s *State, err error) {
	defer caught(&err)
	ctx, cancel := context.WithTimeout(h.ctx, 5*time.Minute)
	defer cancel()
	load := sync.OnceValues(func() (*State, error) { return h.load(ctx, e) })
	if e.Given {
		go func() { _, _ = load() }()
	}
	fence, err := h.acquire(ctx, e.Seen)
	if err != nil {
		return nil, err
	}
	acquired()
	s, err = load()
	if newer := new(messages.NewerFormat); errors.As(err, &newer) {
		h.leaveToOthers(ctx, fence, err)
	}
	if err != nil {
		return nil, err
	}
	s.acquired(fence, h.Now())
	return s, nil
}

// caught makes a panic, over whatever is stored, an error of this partition.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic while loading: %v\n%s", r, debug.Stack())
	}
}

// leaveToOthers gives up a partition with rows that this build does not know.
// The node ends with it: the cluster has gone on to a newer format.
func (h *Host) leaveToOthers(ctx context.Context, fence persistence.Fence, why error) {
	if err := h.Store.Release(ctx, fence, uuid.New()); err != nil {
		h.Log.Warn("release a partition", "partition", fence.Partition, "err", err)
	}
	h.Failed(fmt.Errorf("partition %d: %w", fence.Partition, why))
}

// acquire raises the epoch of a partition. After persistence.ErrInDoubt it may be
// raised.
func (h *Host) acquire(ctx context.Context, seen persistence.Fence) (persistence.Fence, error) {
	op, doubted := uuid.New(), false
	fence, err := h.Store.Acquire(ctx, seen, h.Owner, op)
	for errors.Is(err, persistence.ErrInDoubt) && ctx.Err() == nil {
		doubted = true
		fence, err = h.Store.Acquire(ctx, seen, h.Owner, op) // the same op: it settles itself
	}
	switch {
	case err == nil:
		h.Metrics.fenceAcquired.Inc()
		return fence, nil
	case doubted && !errors.Is(err, job.ErrFenced):
		err = fmt.Errorf("%w: %w", persistence.ErrInDoubt, err)
	}
	return fence, fmt.Errorf("acquire: %w", err)
}

// load reads what is in a partition, for who acquires it after the fence seen.
func (h *Host) load(ctx context.Context, e cluster.Take) (s *State, err error) {
	defer caught(&err)
	h.loads <- struct{}{}
	defer func() { <-h.loads }()
	began, cfg, fence := time.Now(), h.State, e.Seen
	if e.Ended {
		cfg.FormerEnded = fence.Epoch
	}
	fence.Epoch++
	cfg.Partition, cfg.Partitions, cfg.Format = e.Partition, h.Routes.Partitions(), h.Format()
	s = New(cfg, fence, h.Now())
	if err := h.Store.Load(ctx, e.Partition, 0, job.DeadSliceOffset, s.LoadRow); err != nil {
		return nil, fmt.Errorf("load jobs: %w", err)
	}
	if err := h.Store.Load(ctx, e.Partition, job.SideSliceOffset, job.SideSliceOffset+job.SlicesPerKind, s.LoadRow); err != nil {
		return nil, fmt.Errorf("load the rest: %w", err)
	}
	s.Loaded()
	h.Metrics.loadTime.Observe(time.Since(began).Seconds())
	return s, nil
}

// release lets anybody have a partition, and then ends its owner.
func (h *Host) release(ctx actor.Context, e cluster.Release) {
	root, self := ctx.ActorSystem().Root, ctx.Self()
	go func() {
		ctx, cancel := context.WithTimeout(h.ctx, fenceTimeout)
		defer cancel()
		root.Send(self, released{e.Partition, h.Store.Release(ctx, e.Fence, uuid.New())})
	}()
}

// handed is the fence in a message.
func handed(p int32, f *belfryv1.Fence) (persistence.Fence, error) {
	op, err := uuid.FromBytes(f.GetOpId())
	if err != nil {
		return persistence.Fence{}, fmt.Errorf("the fence's op id: %w", err)
	}
	incarnation, err := uuid.FromBytes(f.GetIncarnation())
	if err != nil {
		return persistence.Fence{}, fmt.Errorf("the fence's incarnation: %w", err)
	}
	return persistence.Fence{
		Partition: p, Epoch: f.GetEpoch(), Seq: f.GetSeq(), OpID: op,
		Owner: f.GetOwner(), Incarnation: incarnation, LastNumber: f.GetLastNumber(),
	}, nil
}

// toHand is a fence as a message carries it.
func toHand(f persistence.Fence) *belfryv1.Fence {
	return &belfryv1.Fence{
		Epoch: f.Epoch, Seq: f.Seq, OpId: f.OpID[:], Owner: f.Owner, Incarnation: f.Incarnation[:], LastNumber: f.LastNumber,
	}
}
