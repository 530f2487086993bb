package cluster

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

func setup(t *testing.T) (*actor.ActorSystem, *Owners) {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	t.Cleanup(system.Shutdown)
	return system, NewOwners(system, 16)
}

func TestAskReachesTheOwner(t *testing.T) {
	system, owners := setup(t)
	pid := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if d, ok := ctx.Message().(*belfryv1.Describe); ok {
			ctx.Respond(&belfryv1.Description{Waiting: d.GetJobId()})
		}
	}))
	owners.Set(3, pid)
	if owners.Ready() != 1 || owners.Partitions() != 16 || owners.Owner(3) != pid || owners.Owner(4) != nil {
		t.Errorf("the table is wrong: %d ready", owners.Ready())
	}
	answer, err := owners.Ask(context.Background(), 3, &belfryv1.Describe{JobId: "a"})
	if d, _ := answer.(*belfryv1.Description); err != nil || d.GetWaiting() != "a" {
		t.Errorf("answer %v, %v", answer, err)
	}
}

// TestAskWithoutAnswer: nobody owns it, the owner is gone, or it stays silent;
// each time the caller is told to try again.
func TestAskWithoutAnswer(t *testing.T) {
	system, owners := setup(t)
	if _, err := owners.Ask(context.Background(), 3, &belfryv1.Describe{}); !errors.Is(err, job.ErrNoOwner) {
		t.Errorf("no owner: %v", err)
	}
	silent := system.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	owners.Set(3, silent)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := owners.Ask(ctx, 3, &belfryv1.Describe{}); !errors.Is(err, job.ErrNoOwner) {
		t.Errorf("a silent owner: %v", err)
	}
	if _, err := owners.Ask(ctx, 3, &belfryv1.Describe{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	if err := system.Root.StopFuture(silent).Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := owners.Ask(context.Background(), 3, &belfryv1.Describe{}); !errors.Is(err, job.ErrNoOwner) {
		t.Errorf("a dead owner: %v", err)
	}
}
