package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/cluster"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Deliverer makes one delivery.
type Deliverer interface {
	// Deliver calls the target and says what came of it: outcome and all that
	// was seen of the answer. It returns soon after the context is done, and
	// keeps to the delivery's timeout by itself. It has no error: whatever
	// happens is an outcome.
	//
	// It asks may right before the first byte leaves for the target, each time.
	// The result is nil if nothing was sent because that said no, or because
	// the context was done: the delivery is then not begun, and its attempt not
	// used up.
	Deliver(ctx context.Context, d *belfryv1.Delivery, epoch int64, may func() bool) *belfryv1.Result
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
	// TTL is the age that the stamp of a Dispatch may have: time spent in
	// buffers on the way counts. Default 3 s, the TTL of the cluster.
	TTL time.Duration
	// Stamp is the clock of this node that its presences carry and stamps
	// repeat, in milliseconds. Default: cluster.Boottime.
	Stamp func() int64
	// Lease begins, when a Dispatch is taken, and returns what says whether since
	// then all others have had to take this node for alive, without a break:
	// otherwise its deliveries may be with another worker. That is asked right
	// before each send, from many goroutines. Default: a lease that never ends.
	// See cluster.Lease.
	Lease func() (valid func() bool)
	// Owner is the routing table: the actor that owns a partition, here or on
	// another node; nil when it knows none, whatever it is asked about. Its name
	// tells the epoch; see cluster.OwnerName.
	Owner func(partition int32) *actor.PID
	// Deliverer calls HTTP targets; see NewTarget.
	Deliverer Deliverer
	// Perform asks an actor of a service in the cluster, and returns soon after
	// the context is done. An error that wraps job.ErrNotSent says that the
	// actor was not asked; after any other one it may have done the work. Nil:
	// this node is in no cluster, and deliveries to actors fail.
	Perform func(ctx context.Context, p *belfryv1.Perform) (*belfryv1.Performed, error)
	// Brokers hands messages to brokers; see NewPublisher. Default: there are none,
	// and such deliveries fail.
	Brokers Deliverer
	// Stopped, if set, is called when the worker panicked too often and was
	// stopped: this node makes no deliveries any more.
	Stopped func(reason any)
	// Limits are those of hosts.
	Limits LimitsConfig
	// Publish, if set, is told of circuits that change.
	Publish func(*belfryv1.Event)
	// Metrics and Log are told what happens.
	Metrics *Metrics
	Log     *slog.Logger
}

// DefaultConfig has every default; Owner, Deliverer, Metrics and Log have none.
func DefaultConfig() Config {
	return Config{
		Slots: 512, Resend: time.Second, OfferFor: time.Second,
		Limits: LimitsConfig{Failures: 10, OpenFor: 10 * time.Second},
		TTL:    3 * time.Second, Stamp: func() int64 { return cluster.Boottime().Milliseconds() }, Lease: func() func() bool { return unbroken },
		Brokers: NewPublisher(PublisherConfig{}),
	}
}

func unbroken() bool { return true }

// Validate names the first field that cannot work.
func (c Config) Validate() error {
	switch {
	case c.Slots < 1 || c.Slots > 1<<20:
		return fmt.Errorf("execution: Slots is %d, and must be from 1 to %d", c.Slots, 1<<20)
	case c.Resend < time.Millisecond:
		return fmt.Errorf("execution: Resend is %v, and must be 1 ms or more", c.Resend)
	case c.OfferFor < time.Millisecond:
		return fmt.Errorf("execution: OfferFor is %v, and must be 1 ms or more", c.OfferFor)
	case c.TTL < time.Millisecond:
		return fmt.Errorf("execution: TTL is %v, and must be 1 ms or more", c.TTL)
	case c.Stamp == nil:
		return errors.New("execution: Stamp is missing")
	case c.Lease == nil:
		return errors.New("execution: Lease is missing")
	case c.Limits.Failures < 0:
		return fmt.Errorf("execution: Limits.Failures is %d, and must be 0 or more", c.Limits.Failures)
	case c.Limits.Failures > 0 && c.Limits.OpenFor < time.Second:
		return fmt.Errorf("execution: Limits.OpenFor is %v, and must be 1 s or more", c.Limits.OpenFor)
	case c.Owner == nil:
		return errors.New("execution: Owner is missing")
	case c.Deliverer == nil:
		return errors.New("execution: Deliverer is missing")
	case c.Brokers == nil:
		return errors.New("execution: Brokers is missing")
	case c.Metrics == nil:
		return errors.New("execution: Metrics is missing")
	case c.Log == nil:
		return errors.New("execution: Log is missing")
	}
	return nil
}
