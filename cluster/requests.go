package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const (
	defaultAsk    = 10 * time.Second // of a question whose context has no deadline
	maxUnanswered = 4096             // questions to one peer that have no answer yet
	silence       = 2 * time.Second  // without an answer from another process, the question may be lost: it is sent again
	firstPause    = 20 * time.Millisecond
	longestPause  = time.Second
)

// Ask sends a message to the owner of a partition and waits for the answer,
// until the context ends (10 s without a deadline). It goes on to the next owner
// when one is not there, gave the partition up, or lost it while it was asked,
// and waits for one while none is known. What may have had effect is sent again
// only if a repeat is harmless (see repeatable).
//
// Errors: job.ErrNoOwner when nobody answered (the message may still have had
// effect: repeat the same command id), or when too many questions to the owner's
// process wait already. It must not be called inside an actor: it waits.
func (r *Routes) Ask(ctx context.Context, partition int32, msg proto.Message) (proto.Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := r.learned(ctx); err != nil {
		return nil, err
	}
	if r.at(partition) == nil {
		return nil, fmt.Errorf("ask the owner of partition %d: there are %d partitions", partition, r.Partitions())
	}
	q := &question{routes: r, partition: partition, msg: msg}
	return q.ask(ctx)
}

// AskJob is Ask for the owner of a job.
func (r *Routes) AskJob(ctx context.Context, jobID string, msg proto.Message) (proto.Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := r.learned(ctx); err != nil {
		return nil, err
	}
	return r.Ask(ctx, job.PartitionOf(jobID, r.Partitions()), msg)
}

// bounded gives a context a deadline.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, defaultAsk)
}

// learned waits until the number of partitions is known.
func (r *Routes) learned(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-r.known:
		return nil
	case <-ctx.Done():
		return unanswered(ctx, errNobody)
	}
}

var (
	errNobody     = errors.New("no owner is known")
	errDeadLetter = errors.New("it is not there")
	errNotOwner   = errors.New("it has given the partition up")
	errOver       = errors.New("it lost the partition before it answered")
	errSilent     = errors.New("it did not answer in time")
	errInWork     = errors.New("it works on what was sent before")
)

// question is one Ask.
type question struct {
	routes    *Routes
	partition int32
	msg       proto.Message
	sent      int // times that somebody may have got it
	pauses    pauses
	last      error // why it has no answer yet
}

func (q *question) ask(ctx context.Context) (proto.Message, error) {
	q.last = errNobody
	for {
		at := q.routes.at(q.partition)
		if at.pid == nil {
			if !wait(ctx, at.over, nil) {
				return nil, q.failed(ctx)
			}
			continue
		}
		answer, err := q.try(ctx, at)
		if err == nil {
			return answer, nil
		}
		q.last = fmt.Errorf("%s at %s: %w", at.pid.GetId(), at.pid.GetAddress(), err)
		switch {
		case ctx.Err() != nil:
			return nil, q.failed(ctx)
		case errors.Is(err, errNotOwner):
			q.routes.Refused(q.partition, at.epoch)
		case errors.Is(err, errDeadLetter):
			q.pause(ctx, at)
		case errors.Is(err, errOver) && repeatable(q.msg):
		case errors.Is(err, errOver):
			return nil, q.failed(ctx)
		default:
			return nil, err
		}
	}
}

// pause waits a while, or until the table has another owner.
func (q *question) pause(ctx context.Context, at *route) {
	t := time.NewTimer(q.pauses.next())
	defer t.Stop()
	wait(ctx, at.over, t.C)
}

func (q *question) failed(ctx context.Context) error {
	return unanswered(ctx, fmt.Errorf("partition %d: %w", q.partition, q.last))
}

// try asks one owner. On its way to another process the message may be lost
// without a trace, so it is sent again after a while, as it is.
func (q *question) try(ctx context.Context, at *route) (proto.Message, error) {
	c, err := q.routes.calls.open(at.pid)
	if err != nil {
		return nil, err
	}
	defer c.close()
	again := time.NewTimer(silence)
	defer again.Stop()
	if at.local() || !repeatable(q.msg) {
		again.Stop()
	}
	q.send(c)
	for {
		select {
		case answer := <-c.answers:
			m, err := q.judge(answer)
			if !errors.Is(err, errInWork) {
				return m, err
			}
			again.Reset(q.pauses.next())
		case <-again.C:
			q.send(c)
			again.Reset(silence)
		case <-at.over:
			return nil, errOver
		case <-ctx.Done():
			return nil, errSilent
		}
	}
}

func (q *question) send(c *call) {
	q.sent++
	c.send(q.msg)
}

// judge tells an answer from the ways of saying that there is none.
func (q *question) judge(answer any) (proto.Message, error) {
	switch m := answer.(type) {
	case *actor.DeadLetterResponse:
		q.sent--
		return nil, errDeadLetter
	case *belfryv1.NotOwner:
		return nil, errNotOwner
	case *belfryv1.Answer:
		switch m.GetRefusal().GetCode() {
		case belfryv1.Refusal_CODE_NOT_OWNER:
			if q.belongs() {
				return nil, errNotOwner
			}
		case belfryv1.Refusal_CODE_IN_FLIGHT:
			if q.sent > 1 {
				return nil, errInWork
			}
		}
		return m, nil
	case proto.Message:
		return m, nil
	}
	return nil, fmt.Errorf("ask the owner of partition %d: answer of type %T", q.partition, answer)
}

// belongs tells whether the message is about a job of this partition. An owner
// that refuses another one is no less the owner.
func (q *question) belongs() bool {
	m, ok := q.msg.(interface{ GetJobId() string })
	return !ok || job.PartitionOf(m.GetJobId(), q.routes.Partitions()) == q.partition
}

// repeatable tells whether a message that may have had effect may be sent again.
// An owner remembers a command only if its id is keyed; then it answers a repeat
// as it answered the first. What ends a lease does so once. What is no command is
// a question, save a claim: a second one would be granted something else.
func repeatable(msg proto.Message) bool {
	switch m := msg.(type) {
	case *belfryv1.Command:
		return m.GetKeyed() || m.GetComplete() != nil || m.GetRelease() != nil
	case *belfryv1.Commands, *belfryv1.Claim:
		return false
	}
	return true
}

// wait waits for one of two events; false when the context ended first.
func wait(ctx context.Context, over <-chan struct{}, pause <-chan time.Time) bool {
	select {
	case <-over:
	case <-pause:
	case <-ctx.Done():
		return false
	}
	return true
}

// unanswered is the error of a question that nobody answered; a caller that has
// gone away itself hears only of that.
func unanswered(ctx context.Context, why error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", job.ErrNoOwner, why)
}

// pauses grow from firstPause to longestPause, each spread by half.
type pauses struct{ n uint }

func (p *pauses) next() time.Duration {
	d := min(firstPause<<p.n, longestPause)
	p.n = min(p.n+1, 6)
	return d/2 + rand.N(d/2+1)
}

// calls sends questions from this process and receives the answers, up to a
// limit of unanswered ones to each peer.
type calls struct {
	system *actor.ActorSystem
	limit  int

	mu    sync.Mutex
	under map[string]int // by address
}

func newCalls(system *actor.ActorSystem, limit int) *calls {
	return &calls{system: system, limit: limit, under: map[string]int{}}
}

// open makes a place for the answers of an actor. It must be closed.
// job.ErrNoOwner, job.ErrNotSent: too many to this peer are open.
func (c *calls) open(to *actor.PID) (*call, error) {
	c.mu.Lock()
	full := c.under[to.GetAddress()] >= c.limit
	if !full {
		c.under[to.GetAddress()]++
	}
	c.mu.Unlock()
	if full {
		return nil, fmt.Errorf("%w: %w: %d questions to %s have no answer yet", job.ErrNoOwner, job.ErrNotSent, c.limit, to.GetAddress())
	}
	out := &call{calls: c, to: to, answers: make(chan any, 4)}
	registry := c.system.ProcessRegistry
	out.self, _ = registry.Add(out, "ask"+registry.NextId())
	return out, nil
}

// call is a question to one actor, and as an actor.Process the place where its
// answers arrive. It is used in place of protoactor's Future, which cannot be
// given up early and races when two answers come.
type call struct {
	calls   *calls
	to      *actor.PID
	self    *actor.PID
	answers chan any
}

var _ actor.Process = (*call)(nil)

func (c *call) send(msg proto.Message) {
	c.calls.system.Root.RequestWithCustomSender(c.to, msg, c.self)
}

func (c *call) close() {
	c.calls.system.ProcessRegistry.Remove(c.self)
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	address := c.to.GetAddress()
	if c.calls.under[address]--; c.calls.under[address] == 0 {
		delete(c.calls.under, address)
	}
}

// SendUserMessage implements actor.Process. Answers that nobody waits for are
// dropped.
func (c *call) SendUserMessage(_ *actor.PID, message any) {
	select {
	case c.answers <- actor.UnwrapEnvelopeMessage(message):
	default:
	}
}

// SendSystemMessage implements actor.Process.
func (c *call) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (c *call) Stop(*actor.PID) {}
