package cluster

import (
	"context"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
)

// ConnectInMemory is Connect to one node whose owners keep jobs in memory.
func ConnectInMemory(_ context.Context, cfg ClientConfig) (*Client, error) {
	p := &post{log: slog.New(slog.DiscardHandler), systems: map[string]*actor.ActorSystem{}}
	return newVillage(p, cfg.Kinds).Client, nil
}
