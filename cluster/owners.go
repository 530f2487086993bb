package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// Owners knows, on this node, which actor owns each partition. Whoever starts
// or stops an owner says so with Set; whoever needs one asks.
type Owners struct {
	system *actor.ActorSystem
	pids   []atomic.Pointer[actor.PID]
}

// NewOwners makes the table of a cluster with n partitions, all without owner.
func NewOwners(system *actor.ActorSystem, n int) *Owners {
	return &Owners{system: system, pids: make([]atomic.Pointer[actor.PID], n)}
}

// Partitions is the number of partitions of the cluster.
func (o *Owners) Partitions() int { return len(o.pids) }

// Set names the owner of a partition; nil: it has none.
func (o *Owners) Set(partition int32, pid *actor.PID) { o.pids[partition].Store(pid) }

// Owner is the actor that owns a partition; nil when none is ready.
func (o *Owners) Owner(partition int32) *actor.PID { return o.pids[partition].Load() }

// Ready is how many partitions have an owner.
func (o *Owners) Ready() int {
	n := 0
	for i := range o.pids {
		if o.pids[i].Load() != nil {
			n++
		}
	}
	return n
}

// defaultAsk bounds a question whose context has no deadline.
const defaultAsk = 10 * time.Second

// Ask sends a message to the owner of a partition and waits for the answer.
// Errors: job.ErrNoOwner when there is none, it died, or it did not answer
// before the deadline (it may still have acted: repeat the same command id).
func (o *Owners) Ask(ctx context.Context, partition int32, msg proto.Message) (proto.Message, error) {
	pid := o.Owner(partition)
	if pid == nil {
		return nil, job.ErrNoOwner
	}
	wait := defaultAsk
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline)
	}
	if wait <= 0 {
		return nil, context.DeadlineExceeded
	}
	answer, err := o.system.Root.RequestFuture(pid, msg, wait).Result()
	if err != nil {
		if errors.Is(err, actor.ErrTimeout) || errors.Is(err, actor.ErrDeadLetter) {
			return nil, fmt.Errorf("%w: %w", job.ErrNoOwner, err)
		}
		return nil, fmt.Errorf("ask the owner of partition %d: %w", partition, err)
	}
	reply, ok := answer.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("ask the owner of partition %d: answer of type %T", partition, answer)
	}
	return reply, nil
}
