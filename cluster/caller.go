package cluster

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// Caller asks actors that are known by their PIDs, with a limit of its own of
// questions to each process that have no answer yet.
type Caller struct{ calls *calls }

// NewCaller makes a caller.
func NewCaller(system *actor.ActorSystem, limit int) *Caller {
	return &Caller{newCalls(system, limit)}
}

// Call sends a message once and waits for the answer until the context ends. The
// message or its answer may be lost on the way. An error that wraps
// job.ErrNotSent says that it was not sent.
func (c *Caller) Call(ctx context.Context, to *actor.PID, msg proto.Message) (proto.Message, error) {
	one, err := c.calls.open(to)
	if err != nil {
		return nil, err
	}
	defer one.close()
	one.send(msg)
	select {
	case answer := <-one.answers:
		return reply(answer)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
