package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Deliverer makes one delivery.
type Deliverer interface {
	// Deliver calls the target and says what came of it: outcome and all that
	// was seen of the answer. It returns soon after the context is done, and
	// keeps to the delivery's timeout by itself. It has no error: whatever
	// happens is an outcome.
	Deliver(ctx context.Context, d *belfryv1.Delivery, epoch int64) *belfryv1.Result
}

// Config is what a Worker needs.
type Config struct {
	// Node is the name of this node, for the log.
	Node string
	// Slots is how many deliveries are held at once: running, or ended and not
	// acknowledged. Default 512.
	Slots int
	// Resend is how long a result waits for its acknowledgement before it is
	// reported again. Default 1 s.
	Resend time.Duration
	// OfferFor is how long offered slots are kept. Default 1 s.
	OfferFor time.Duration
	// Owner names the actor that owns a partition now; nil when none is ready.
	Owner func(partition int32) *actor.PID
	// Deliverer calls the targets; see NewTarget.
	Deliverer Deliverer
	// Stopped, if set, is called when the worker panicked too often and was
	// stopped: this node makes no deliveries any more.
	Stopped func(reason any)
	// Metrics and Log are told what happens.
	Metrics *Metrics
	Log     *slog.Logger
}

// DefaultConfig has every default; Owner, Deliverer, Metrics and Log have none.
func DefaultConfig() Config {
	return Config{Slots: 512, Resend: time.Second, OfferFor: time.Second}
}

// Validate names the first field that cannot work.
func (c Config) Validate() error {
	switch {
	case c.Slots < 1 || c.Slots > 1<<20:
		return fmt.Errorf("execution: Slots is %d, and must be from 1 to %d", c.Slots, 1<<20)
	case c.Resend < time.Millisecond:
		return fmt.Errorf("execution: Resend is %v, and must be 1 ms or more", c.Resend)
	case c.OfferFor < time.Millisecond:
		return fmt.Errorf("execution: OfferFor is %v, and must be 1 ms or more", c.OfferFor)
	case c.Owner == nil:
		return errors.New("execution: Owner is missing")
	case c.Deliverer == nil:
		return errors.New("execution: Deliverer is missing")
	case c.Metrics == nil:
		return errors.New("execution: Metrics is missing")
	case c.Log == nil:
		return errors.New("execution: Log is missing")
	}
	return nil
}
