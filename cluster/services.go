package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Services reaches the actors that members host for targets. An identity of a
// kind is placed by rendezvous over the members that host the kind, and its
// actor is started there by the first message to it. While views differ there
// may be two; the idempotency key makes that harmless.
type Services struct {
	calls *calls
	view  atomic.Pointer[watched]
	mu    sync.Mutex         // one change of view at a time
	under singleflight.Group // Activates
}

// watched is a view, what its members say, and the end of its time.
type watched struct {
	*View
	draining map[persistence.Owner]bool // they get nothing new
	over     chan struct{}              // closed when there is another
}

// NewServices knows no member until Viewed.
func NewServices(system *actor.ActorSystem) *Services {
	s := &Services{calls: newCalls(system, maxUnanswered)}
	s.view.Store(&watched{View: &View{}, over: make(chan struct{})})
	return s
}

// Viewed tells it the newest view.
func (s *Services) Viewed(v *View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(v, s.view.Load().draining)
}

// Heard tells it what the other members say.
func (s *Services) Heard(peers []Peer) {
	draining := map[persistence.Owner]bool{}
	for _, p := range peers {
		if p.Draining {
			draining[p.Owner()] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.view.Load(); !maps.Equal(was.draining, draining) {
		s.change(was.View, draining)
	}
}

func (s *Services) change(v *View, draining map[persistence.Owner]bool) {
	was := s.view.Swap(&watched{v, draining, make(chan struct{})})
	close(was.over)
}

// Perform hands an execution to the actor of its kind and identity, and waits
// for the answer until the context ends (10 s without a deadline).
//
// An error that wraps job.ErrNotSent says that no member got it. Every other one
// says that a member was asked and gave no answer: it may have done the work, or
// be at it.
func (s *Services) Perform(ctx context.Context, p *belfryv1.Perform) (*belfryv1.Performed, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if until, _ := ctx.Deadline(); p.GetTimeoutMs() == 0 {
		p = proto.Clone(p).(*belfryv1.Perform)
		p.TimeoutMs = max(time.Until(until).Milliseconds(), 1)
	}
	at := place{p.GetKind(), p.GetIdentity()}
	answer, err := s.ask(ctx, at, p, func(m Member) (*actor.PID, error) { return actor.NewPID(m.Address, hostActor), nil })
	if err != nil {
		return nil, err
	}
	out, ok := answer.(*belfryv1.Performed)
	if !ok {
		return nil, fmt.Errorf("%s answered %T", at, answer)
	}
	return out, nil
}

// Ask sends a message to the actor of an identity and waits for the answer, as
// Perform does.
func (s *Services) Ask(ctx context.Context, kind, identity string, msg proto.Message) (proto.Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	at := place{kind, identity}
	return s.ask(ctx, at, msg, func(m Member) (*actor.PID, error) { return s.activate(ctx, at, m) })
}

// Find is the actor of an identity, which is started if there is none.
func (s *Services) Find(ctx context.Context, kind, identity string) (*actor.PID, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	at := place{kind, identity}
	m, ok := s.view.Load().place(at)
	if !ok {
		return nil, noMember(at)
	}
	return s.activate(ctx, at, m)
}

// place is who is meant.
type place struct{ kind, identity string }

func (p place) String() string { return fmt.Sprintf("%s %q", p.kind, p.identity) }

func noMember(at place) error {
	return fmt.Errorf("%w: no member of the cluster hosts the kind %q, or each is about to leave", job.ErrNotSent, at.kind)
}

// place is the member that hosts an identity, if any that stays hosts its kind.
func (v *watched) place(at place) (Member, bool) {
	var hosts []Member
	var names []string
	for _, m := range v.Members {
		if slices.Contains(m.Kinds, at.kind) && !v.draining[m.Owner()] {
			hosts, names = append(hosts, m), append(names, m.Node)
		}
	}
	i := Rendezvous(at.kind+"\x00"+at.identity, names)
	if i < 0 {
		return Member{}, false
	}
	return hosts[i], true
}

// ask asks the member where an identity is placed. A dead letter was not
// delivered: it asks again, after a pause. What was delivered is not sent twice.
func (s *Services) ask(ctx context.Context, at place, msg proto.Message, find func(Member) (*actor.PID, error)) (proto.Message, error) {
	var pauses pauses
	for {
		view := s.view.Load()
		m, ok := view.place(at)
		if !ok {
			return nil, noMember(at)
		}
		pid, err := find(m)
		if err == nil {
			var answer proto.Message
			if answer, err = s.try(ctx, pid, m, msg); err == nil {
				return answer, nil
			}
		}
		if !errors.Is(err, errDeadLetter) {
			return nil, err
		}
		t := time.NewTimer(pauses.next())
		if !wait(ctx, view.over, t.C) {
			t.Stop()
			return nil, fmt.Errorf("%w: %s at %s: %w", job.ErrNotSent, at, m.Node, err)
		}
		t.Stop()
	}
}

// try asks one actor, until its member is gone.
func (s *Services) try(ctx context.Context, pid *actor.PID, m Member, msg proto.Message) (proto.Message, error) {
	c, err := s.calls.open(pid)
	if err != nil {
		return nil, err
	}
	defer c.close()
	c.send(msg)
	for view := s.view.Load(); ; view = s.view.Load() {
		if _, here := view.Find(m.Owner()); !here {
			return nil, fmt.Errorf("member %s left before it answered", m.Node)
		}
		select {
		case answer := <-c.answers:
			return reply(answer)
		case <-view.over:
		case <-ctx.Done():
			return nil, fmt.Errorf("member %s has not answered: %w", m.Node, ctx.Err())
		}
	}
}

// reply is an answer; errDeadLetter: nobody was there.
func reply(answer any) (proto.Message, error) {
	switch m := answer.(type) {
	case *actor.DeadLetterResponse:
		return nil, errDeadLetter
	case proto.Message:
		return m, nil
	}
	return nil, fmt.Errorf("answer of type %T", answer)
}

// activate asks a member for the actor of an identity: once, for all who ask at
// the same time. An Activate may be repeated freely; errDeadLetter says that it
// must be.
func (s *Services) activate(ctx context.Context, at place, m Member) (*actor.PID, error) {
	key := at.kind + "\x00" + at.identity + "\x00" + m.Incarnation.String()
	found := s.under.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), silence)
		defer cancel()
		answer, err := s.try(ctx, actor.NewPID(m.Address, hostActor), m, &belfryv1.Activate{Kind: at.kind, Identity: at.identity})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDeadLetter, err)
		}
		a, ok := answer.(*belfryv1.Activated)
		switch {
		case !ok:
			return nil, fmt.Errorf("%w: %s answered %T", job.ErrNotSent, m.Node, answer)
		case a.GetId() == "":
			return nil, fmt.Errorf("%w: %s: %s", job.ErrNotSent, m.Node, a.GetError())
		}
		return actor.NewPID(m.Address, a.GetId()), nil
	})
	select {
	case r := <-found:
		pid, _ := r.Val.(*actor.PID)
		return pid, r.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %s at %s: %w", job.ErrNotSent, at, m.Node, errSilent)
	}
}
