package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// hosting is a process that asks, and two that host the kinds of a test.
type hosting struct {
	post     *post
	services *Services
	hosts    map[string]*kindsHost // by node
	members  map[string]Member
}

func setupKinds(t testing.TB, kinds func(node string) Kinds) *hosting {
	p := newPost(t)
	s := &hosting{post: p, services: NewServices(p.open(here).System()), hosts: map[string]*kindsHost{}, members: map[string]Member{}}
	for node, address := range map[string]string{"a": "10.0.0.1:1", "b": "10.0.0.2:1"} {
		k := kinds(node)
		h, err := startKinds(p.open(address), k, func(reason any) { t.Errorf("the host of kinds at %s panicked: %v", node, reason) })
		if err != nil {
			t.Fatal(err)
		}
		s.hosts[node], s.members[node] = h, memberAt(node, address, k.Names()...)
	}
	s.see("a", "b")
	return s
}

func (s *hosting) see(nodes ...string) {
	v := &View{Members: []Member{memberAt("asking", here)}}
	for _, n := range nodes {
		v.Members = append(v.Members, s.members[n])
	}
	s.services.Viewed(v)
}

func mail(identity string) *belfryv1.Perform {
	return &belfryv1.Perform{ExecutionId: "job~1~x", JobId: "job", Key: "job~1~x", Attempt: 1, Kind: "mail", Identity: identity, Payload: []byte("hello")}
}

// identityAt is an identity that is placed at a node.
func (s *hosting) identityAt(node string) string {
	for i := 0; ; i++ {
		id := fmt.Sprint(i)
		if m, _ := s.services.view.Load().place(place{"mail", id}); m.Node == node {
			return id
		}
	}
}

func TestPerform(t *testing.T) {
	handle := func(ctx context.Context, e Execution) error {
		if until, ok := ctx.Deadline(); !ok || time.Until(until) > 10*time.Second {
			t.Errorf("deadline %v, %v", until, ok)
		}
		switch e.Identity {
		case "good":
			if want := (Execution{ID: "job~1~x", JobID: "job", Key: "job~1~x", ScheduledFor: e.ScheduledFor, Attempt: 1, Kind: "mail", Identity: "good", Payload: e.Payload}); fmt.Sprint(e) != fmt.Sprint(want) || string(e.Payload) != "hello" {
				t.Errorf("execution %+v", e)
			}
			return nil
		case "final":
			return fmt.Errorf("send it: %w", Final(errors.New("no such address")))
		case "later":
			return RetryAfter(time.Minute, errors.New("too many"))
		case "panics":
			panic("out of range")
		}
		return errors.New("refused")
	}
	s := setupKinds(t, func(string) Kinds { return Kinds{Handlers: map[string]Handler{"mail": handle}} })
	for identity, want := range map[string]*belfryv1.Performed{
		"good":   {Succeeded: true},
		"bad":    {Error: "refused"},
		"final":  {Error: "send it: no such address", Final: true},
		"later":  {Error: "too many", RetryAfterMs: 60_000},
		"panics": {Error: "the handler panicked: out of range"},
	} {
		got, err := s.services.Perform(t.Context(), mail(identity))
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: %v, %v", identity, got, err)
		}
	}
}

// TestPerformIsPlaced: an identity is at one member, moves when that is gone,
// and none moves without need.
func TestPerformIsPlaced(t *testing.T) {
	var mu sync.Mutex
	at := map[string]string{}
	s := setupKinds(t, func(node string) Kinds {
		return Kinds{Handlers: map[string]Handler{"mail": func(_ context.Context, e Execution) error {
			mu.Lock()
			defer mu.Unlock()
			at[e.Identity] = node
			return nil
		}}}
	})
	everyone := func() map[string]string {
		for i := range 100 {
			if _, err := s.services.Perform(t.Context(), mail(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		out := at
		at = map[string]string{}
		return out
	}
	before := everyone()
	share := 0
	for _, node := range before {
		if node == "a" {
			share++
		}
	}
	if share < 30 || share > 70 {
		t.Errorf("a has %d of 100", share)
	}
	s.post.kill(s.members["a"].Address)
	s.see("b")
	for identity, node := range everyone() {
		if node != "b" {
			t.Errorf("%s is at %s", identity, node)
		}
	}
	s.see()
	if _, err := s.services.Perform(t.Context(), mail("1")); !errors.Is(err, job.ErrNotSent) {
		t.Errorf("without a member: %v", err)
	}
}

// TestAMemberThatDrains gets nothing new, and is waited for all the same.
func TestAMemberThatDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, release := make(chan string, 10), make(chan struct{})
		s := setupKinds(t, func(node string) Kinds {
			return Kinds{Handlers: map[string]Handler{"mail": func(_ context.Context, e Execution) error {
				begun <- node
				if node == "a" {
					<-release
				}
				return nil
			}}}
		})
		identity := s.identityAt("a")
		result := make(chan error)
		go func() {
			_, err := s.services.Perform(within(t, time.Minute), mail(identity))
			result <- err
		}()
		<-begun
		drains := Peer{Member: s.members["a"], Draining: true}
		s.services.Heard([]Peer{drains, {Member: s.members["b"]}})
		s.see("a", "b") // a later view does not change what was heard
		if _, err := s.services.Perform(within(t, time.Minute), mail(identity)); err != nil || <-begun != "b" {
			t.Errorf("beside a member that drains: %v", err)
		}
		s.see("a")
		if _, err := s.services.Perform(within(t, time.Minute), mail(identity)); !errors.Is(err, job.ErrNotSent) {
			t.Errorf("with none but a member that drains: %v", err)
		}
		rests := make(chan struct{})
		go func() {
			s.hosts["a"].quiet(t.Context())
			close(rests)
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if isClosed(rests) {
			t.Error("it does not wait for what runs")
		}
		close(release)
		if err := <-result; err != nil {
			t.Errorf("what ran: %v", err)
		}
		<-rests
		s.services.Heard([]Peer{{Member: s.members["a"]}}) // it has changed its mind
		if _, err := s.services.Perform(within(t, time.Minute), mail(identity)); err != nil {
			t.Error(err)
		}
		s.close(t)
	})
}

// TestPerformWithoutAnswer: what is certain, and what is not.
func TestPerformWithoutAnswer(t *testing.T) {
	type call struct{ ctx context.Context }
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan call, 10)
		s := setupKinds(t, func(string) Kinds {
			return Kinds{Handlers: map[string]Handler{"mail": func(ctx context.Context, _ Execution) error {
				begun <- call{ctx: ctx}
				<-ctx.Done()
				return ctx.Err()
			}}}
		})
		// The timeout ends both: the answer may be just in time, and never wrong.
		start := time.Now()
		p, err := s.services.Perform(within(t, 3*time.Second), mail("slow"))
		if took := time.Since(start); took != 3*time.Second || err == nil && p.GetSucceeded() || errors.Is(err, job.ErrNotSent) {
			t.Errorf("after %s: %v, %v", took, p, err)
		}
		<-begun
		// Its member is gone: the answer never comes, and it may have done the work.
		result := make(chan error)
		identity := s.identityAt("a")
		go func() {
			_, err := s.services.Perform(t.Context(), mail(identity))
			result <- err
		}()
		<-begun
		start = time.Now()
		s.post.kill(s.members["a"].Address)
		s.see("b")
		if err := <-result; err == nil || errors.Is(err, job.ErrNotSent) || time.Since(start) != 0 {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		// It is dead, and nobody has noticed yet: it never got anything.
		s.see("a")
		_, err = s.services.Perform(within(t, 3*time.Second), mail("x"))
		if !errors.Is(err, job.ErrNotSent) {
			t.Errorf("to a dead member: %v", err)
		}
		s.close(t)
	})
}

// TestARepeatOfWhatRuns: the handler is called once, and both get the answer.
func TestARepeatOfWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var calls atomic.Int32
		s := setupKinds(t, func(string) Kinds {
			return Kinds{Handlers: map[string]Handler{"mail": func(context.Context, Execution) error {
				calls.Add(1)
				<-release
				return nil
			}}}
		})
		results := make(chan error, 2)
		for range 2 {
			go func() {
				p, err := s.services.Perform(t.Context(), mail("x"))
				if err == nil && !p.GetSucceeded() {
					err = errors.New(p.GetError())
				}
				results <- err
			}()
			synctest.Wait()
		}
		close(release)
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if calls.Load() != 1 {
			t.Errorf("%d calls", calls.Load())
		}
		s.close(t)
	})
}

// close ends the hosts of a bubble.
func (s *hosting) close(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, h := range s.hosts {
		if err := h.close(ctx); err != nil {
			t.Error(err)
		}
	}
	time.Sleep(2 * time.Second) // protoactor counts dead letters for a second before it logs them
}

// echo is an actor of a service: it answers with its identity and what number it
// is among those that were ever made.
type echo struct {
	identity string
	number   int32
}

func (e echo) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *belfryv1.Describe:
		if m.GetJobId() == "panic" {
			panic("asked to")
		}
		ctx.Respond(&belfryv1.Description{Waiting: fmt.Sprintf("%s %d", e.identity, e.number)})
	case *belfryv1.Perform:
		ctx.Respond(&belfryv1.Performed{Succeeded: true})
	}
}

func echoes(made *atomic.Int32, idle time.Duration, most int) func(string) Kinds {
	return func(string) Kinds {
		return Kinds{Idle: idle, Most: most, Actors: map[string]func(string) actor.Actor{
			"echo": func(identity string) actor.Actor { return echo{identity, made.Add(1)} },
		}}
	}
}

// TestAnIdentityHasOneActor: however many ask at once, until it panics or is idle.
func TestAnIdentityHasOneActor(t *testing.T) {
	var made atomic.Int32
	s := setupKinds(t, echoes(&made, 0, 0))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			answer, err := s.services.Ask(t.Context(), "echo", "x", &belfryv1.Describe{})
			if got := who(t, answer, err); got != "x 1" {
				t.Errorf("%q answers", got)
			}
		})
	}
	all.Wait()
	answer, err := s.services.Ask(t.Context(), "echo", "y", &belfryv1.Describe{})
	if got := who(t, answer, err); got != "y 2" {
		t.Errorf("%q answers", got)
	}
	if p, err := s.services.Perform(t.Context(), &belfryv1.Perform{Kind: "echo", Identity: "x"}); err != nil || !p.GetSucceeded() || made.Load() != 2 {
		t.Errorf("%v, %v; %d actors", p, err, made.Load())
	}
	if _, err := s.services.Ask(within(t, time.Second/10), "echo", "x", &belfryv1.Describe{JobId: "panic"}); err == nil || errors.Is(err, job.ErrNotSent) {
		t.Errorf("asked one that panics: %v", err)
	}
	answer, err = s.services.Ask(t.Context(), "echo", "x", &belfryv1.Describe{})
	if got := who(t, answer, err); got != "x 3" {
		t.Errorf("%q answers after the panic", got)
	}
	if _, err := s.services.Ask(t.Context(), "unknown", "x", &belfryv1.Describe{}); !errors.Is(err, job.ErrNotSent) {
		t.Errorf("a kind that nobody hosts: %v", err)
	}
	for node, m := range s.members { // gossip says so, and the member knows better
		m.Kinds = append(m.Kinds, "unknown")
		s.members[node] = m
	}
	s.see("a", "b")
	if _, err := s.services.Ask(t.Context(), "unknown", "x", &belfryv1.Describe{}); !errors.Is(err, job.ErrNotSent) || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("a kind that is not hosted: %v", err)
	}
}

func TestAnIdleActorIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int32
		s := setupKinds(t, echoes(&made, time.Minute, 0))
		ask := func(want string) {
			t.Helper()
			answer, err := s.services.Ask(t.Context(), "echo", "x", &belfryv1.Describe{})
			if got := who(t, answer, err); got != want {
				t.Errorf("%q answers, want %q", got, want)
			}
		}
		ask("x 1")
		for range 10 {
			time.Sleep(50 * time.Second)
			ask("x 1")
		}
		pid, err := s.services.Find(t.Context(), "echo", "x")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(80 * time.Second)
		synctest.Wait()
		if _, err := s.services.try(t.Context(), pid, s.members["a"], &belfryv1.Describe{}); !errors.Is(err, errDeadLetter) {
			t.Errorf("the idle one is there: %v", err)
		}
		ask("x 2")
		s.close(t)
	})
}

// TestTheEndOfAnIdleActor comes late, when there is another one, which stays.
func TestTheEndOfAnIdleActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int32
		begun, release := make(chan struct{}), make(chan struct{})
		s := setupKinds(t, func(string) Kinds {
			return Kinds{Idle: time.Minute, Actors: map[string]func(string) actor.Actor{"echo": func(identity string) actor.Actor {
				e := echo{identity, made.Add(1)}
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if _, slow := ctx.Message().(*belfryv1.GetJob); slow {
						close(begun)
						<-release
						ctx.Respond(&belfryv1.Answer{})
					}
					e.Receive(ctx)
				})
			}}}
		})
		ask := func(want string) {
			t.Helper()
			answer, err := s.services.Ask(t.Context(), "echo", "x", &belfryv1.Describe{})
			if got := who(t, answer, err); got != want {
				t.Errorf("%q answers, want %q", got, want)
			}
		}
		result := make(chan error)
		go func() {
			_, err := s.services.Ask(within(t, time.Hour), "echo", "x", &belfryv1.GetJob{})
			result <- err
		}()
		<-begun
		time.Sleep(2 * time.Minute) // it is swept
		ask("x 2")
		close(release)
		if err := <-result; err != nil {
			t.Error(err)
		}
		synctest.Wait() // it has ended
		ask("x 2")
		s.close(t)
	})
}

// TestActorsOfAServiceAreWaitedFor until they have answered, or nobody waits for
// the answer any more.
func TestActorsOfAServiceAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, release := make(chan struct{}, 10), make(chan struct{})
		s := setupKinds(t, func(string) Kinds {
			return Kinds{Actors: map[string]func(string) actor.Actor{"mail": func(identity string) actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if _, ok := ctx.Message().(*belfryv1.Perform); !ok {
						return
					}
					begun <- struct{}{}
					if root, sender := ctx.ActorSystem().Root, ctx.Sender(); identity != "silent" {
						go func() {
							<-release
							root.Send(sender, &belfryv1.Performed{Succeeded: true})
						}()
					}
				})
			}}}
		})
		s.see("a")
		perform := func(identity string) chan error {
			result := make(chan error, 1)
			go func() {
				p, err := s.services.Perform(within(t, time.Minute), mail(identity))
				if err == nil && !p.GetSucceeded() {
					err = errors.New(p.GetError())
				}
				result <- err
			}()
			<-begun
			return result
		}
		good, silent := perform("good"), perform("silent")
		start, closed := time.Now(), make(chan error, 1)
		go func() { closed <- s.hosts["a"].close(t.Context()) }()
		time.Sleep(10 * time.Second)
		close(release)
		if err := <-good; err != nil {
			t.Errorf("what ran: %v", err)
		}
		if err := <-silent; err == nil {
			t.Error("one that does not answer has succeeded")
		}
		if err := <-closed; err != nil || time.Since(start) < 59*time.Second || time.Since(start) > 61*time.Second {
			t.Errorf("closed after %s: %v", time.Since(start), err)
		}
		delete(s.hosts, "a")
		s.close(t)
	})
}

func TestKindsAreBounded(t *testing.T) {
	var made atomic.Int32
	s := setupKinds(t, echoes(&made, 0, 2))
	s.see("a")
	for i := range 3 {
		_, err := s.services.Ask(t.Context(), "echo", fmt.Sprint(i), &belfryv1.Describe{})
		if full := errors.Is(err, job.ErrNotSent); full != (i == 2) {
			t.Errorf("identity %d: %v", i, err)
		}
	}
	p, err := s.services.Perform(t.Context(), &belfryv1.Perform{Kind: "echo", Identity: "2"})
	if err != nil || p.GetSucceeded() || p.GetRetryAfterMs() != 1000 || p.GetFinal() {
		t.Errorf("%v, %v", p, err)
	}

	release, begun := make(chan struct{}), make(chan struct{}, 2)
	s = setupKinds(t, func(string) Kinds {
		return Kinds{Busy: 1, Handlers: map[string]Handler{"mail": func(context.Context, Execution) error {
			begun <- struct{}{}
			<-release
			return nil
		}}}
	})
	s.see("a")
	done := make(chan error, 1)
	go func() {
		_, err := s.services.Perform(t.Context(), mail("x"))
		done <- err
	}()
	<-begun
	p, err = s.services.Perform(t.Context(), mail("y"))
	if err != nil || p.GetSucceeded() || p.GetRetryAfterMs() != 1000 {
		t.Errorf("%v, %v", p, err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.hosts["a"].close(t.Context()); err != nil || s.hosts["a"].busy.Load() != 0 {
		t.Errorf("%v, %d run", err, s.hosts["a"].busy.Load())
	}
}

func TestAKindIsDeclaredOnce(t *testing.T) {
	k := Kinds{Handlers: map[string]Handler{"a": nil, "b": nil}, Actors: map[string]func(string) actor.Actor{"b": nil}}
	if _, err := startKinds(newPost(t).open(here), k, nil); err == nil {
		t.Error("a kind with a handler and an actor was taken")
	}
	if got := fmt.Sprint(k.Names()); got != "[a b]" {
		t.Errorf("names %s", got)
	}
}
