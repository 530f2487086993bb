package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/cluster"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const (
	// slice is how long one poll waits at most: then the broker is looked up
	// again, since it may have moved.
	slice = 2 * time.Second
	// pollGrace is how much later than that its answer may come before it counts
	// as lost.
	pollGrace = time.Second
	// claimTimeout bounds the wait for an owner's answer to a claim.
	claimTimeout = 10 * time.Second
	// pause is waited when a broker or an owner cannot be asked.
	pause = 100 * time.Millisecond
	// maxPolls is how many polls at the brokers of one node may be unanswered.
	maxPolls = 16_384
)

// Config is what a Client needs.
type Config struct {
	System *actor.ActorSystem
	// Owners reaches the owners of partitions.
	Owners interface {
		Ask(ctx context.Context, partition int32, msg proto.Message) (proto.Message, error)
	}
	// Members are the live nodes; nil: this process is alone.
	Members func() []cluster.Member
}

// Client claims executions for outside workers, and tells brokers of what waits.
type Client struct {
	Config
	calls *cluster.Caller
}

// NewClient makes a client.
func NewClient(cfg Config) *Client {
	return &Client{Config: cfg, calls: cluster.NewCaller(cfg.System, maxPolls)}
}

// place is the desk that has the broker of a queue.
func (c *Client) place(queue string) *actor.PID {
	address := c.System.Address()
	if c.Members != nil {
		var hosts []cluster.Member
		var names []string
		for _, m := range c.Members() {
			if m.Roles.Has(cluster.Scheduler) || m.Roles.Has(cluster.Gateway) {
				hosts, names = append(hosts, m), append(names, m.Node)
			}
		}
		if i := cluster.Rendezvous("queue\x00"+queue, names); i >= 0 {
			address = hosts[i].Address
		}
	}
	return actor.NewPID(address, DeskName)
}

// Hint tells the broker of a queue what waits at an owner. It may be lost.
func (c *Client) Hint(h *belfryv1.Hint) { c.System.Root.Send(c.place(h.GetQueue()), h) }

// Claim waits until something of a queue is granted, for wait at most, and
// returns at most claim.Max grants; none: nothing came in time. When the context
// ends first it returns its error, or what was granted in that moment: the caller
// must give back what nobody takes.
func (c *Client) Claim(ctx context.Context, claim *belfryv1.Claim, wait time.Duration) ([]*belfryv1.Grant, error) {
	until := time.Now().Add(wait)
	var grants []*belfryv1.Grant
	for {
		left := time.Until(until)
		if len(grants) > 0 {
			left = 0 // more only if it is there already
		}
		granted, found, err := c.once(ctx, claim, int(claim.GetMax())-len(grants), left)
		grants = append(grants, granted...)
		switch {
		case len(grants) >= int(claim.GetMax()), len(grants) > 0 && !found:
			return grants, nil
		case len(grants) > 0 && (err != nil || ctx.Err() != nil):
			return grants, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !found && time.Until(until) <= 0:
			return nil, err
		case err != nil && !rest(ctx, min(pause, time.Until(until))):
			return nil, ctx.Err()
		}
	}
}

// rest waits a while; false: the context ended first.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once asks the broker where something waits, and claims there. found: something
// was said to wait, so that it is worth asking again at once.
func (c *Client) once(ctx context.Context, claim *belfryv1.Claim, most int, wait time.Duration) (grants []*belfryv1.Grant, found bool, err error) {
	r, err := c.poll(ctx, claim.GetQueue(), most, min(max(wait, 0), slice))
	if err != nil || !r.GetFound() {
		return nil, false, err
	}
	grants, err = c.claim(ctx, r.GetPartition(), &belfryv1.Claim{
		Queue: claim.GetQueue(), Worker: claim.GetWorker(), LeaseMs: claim.GetLeaseMs(), Max: int32(most),
	})
	return grants, true, err
}

func (c *Client) poll(ctx context.Context, queue string, most int, wait time.Duration) (*belfryv1.Referral, error) {
	desk := c.place(queue)
	id := uuid.NewString()
	within, cancel := context.WithTimeout(ctx, wait+pollGrace)
	defer cancel()
	answer, err := c.calls.Call(within, desk, &belfryv1.Poll{Queue: queue, Id: id, Max: int32(most), WaitMs: wait.Milliseconds()})
	if err != nil {
		c.System.Root.Send(desk, &belfryv1.Unpoll{Queue: queue, Id: id})
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return nil, nil // the broker, or its answer, was lost
		}
		return nil, err
	}
	r, ok := answer.(*belfryv1.Referral)
	if !ok {
		return nil, fmt.Errorf("the broker of queue %s answered %T", queue, answer)
	}
	return r, nil
}

// claim asks an owner. Once it was asked it waits for the answer, also when the
// caller has gone: what is granted must be known to somebody.
func (c *Client) claim(ctx context.Context, partition int32, claim *belfryv1.Claim) ([]*belfryv1.Grant, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	msg, err := c.Owners.Ask(ctx, partition, claim)
	if err != nil {
		return nil, err
	}
	answers, ok := msg.(*belfryv1.Answers)
	if !ok {
		return nil, fmt.Errorf("the owner of partition %d answered a claim with %T", partition, msg)
	}
	var grants []*belfryv1.Grant
	for _, a := range answers.GetAnswers() {
		if g := a.GetGrant(); g != nil {
			grants = append(grants, g)
		}
	}
	return grants, nil
}
