package actors

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// blocked is an actor that stays in its first message until released.
func blocked(started chan<- struct{}, release <-chan struct{}, done chan<- any) func() actor.Actor {
	first := true
	return produce(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started, *actor.Stopping, *actor.Stopped:
		default:
			if first {
				first = false
				close(started)
				<-release
			}
			done <- ctx.Message()
		}
	})
}

func TestFullMailboxTurnsAwayAtOnce(t *testing.T) {
	f := setup(t)
	started, release, done := make(chan struct{}), make(chan struct{}), make(chan any, 100)
	type turned struct {
		message any
		sender  *actor.PID
	}
	away := make(chan turned, 100)
	pid := spawn(t, f, f.Props(kind, blocked(started, release, done), OnFull(func(m any, s *actor.PID) { away <- turned{m, s} })))
	root := f.System().Root
	root.Send(pid, "in work")
	<-started
	for i := range kind.Mailbox {
		root.Send(pid, i)
	}
	root.Send(pid, "without sender") // returns at once, or the test hangs here
	sender := actor.NewPID("there", "me")
	root.RequestWithCustomSender(pid, "with sender", sender)
	if got := <-away; got.message != "without sender" || got.sender != nil {
		t.Errorf("turned away: %v", got)
	}
	if got := <-away; got.message != "with sender" || !got.sender.Equal(sender) {
		t.Errorf("turned away: %v", got)
	}
	if n := count(f.metrics.refused); n != 2 {
		t.Errorf("%v refused, want 2", n)
	}
	close(release)
	for want := range kind.Mailbox + 1 {
		if got := <-done; got != "in work" && got != want-1 {
			t.Errorf("got %v at %d", got, want)
		}
	}
	root.Send(pid, "there is room again")
	if got := <-done; got != "there is room again" {
		t.Errorf("got %v", got)
	}
	stop(t, f, pid)
}

func TestRequestToAFullMailboxFailsAtOnce(t *testing.T) {
	f := setup(t)
	started, release, done := make(chan struct{}), make(chan struct{}), make(chan any, 100)
	pid := spawn(t, f, f.Props(kind, blocked(started, release, done)))
	root := f.System().Root
	root.Send(pid, "in work")
	<-started
	for range kind.Mailbox {
		root.Send(pid, "waits")
	}
	_, err := root.RequestFuture(pid, "anybody there?", time.Hour).Result()
	if !errors.Is(err, actor.ErrDeadLetter) {
		t.Errorf("err = %v, want a dead letter", err)
	}
	close(release)
	stop(t, f, pid)
}

type report struct{}

func (report) Reserved() {}

func TestReservedMessagesAndPoisonPassAFullMailbox(t *testing.T) {
	f := setup(t)
	started, release, done := make(chan struct{}), make(chan struct{}), make(chan any, 100)
	pid := spawn(t, f, f.Props(kind, blocked(started, release, done)))
	root := f.System().Root
	root.Send(pid, "in work")
	<-started
	for range kind.Mailbox {
		root.Send(pid, "waits")
	}
	for range 10 {
		root.Send(pid, report{})
	}
	ended := root.PoisonFuture(pid)
	close(release)
	if err := ended.Wait(); err != nil {
		t.Fatal(err)
	}
	close(done)
	reports := 0
	for m := range done {
		if m == (report{}) {
			reports++
		}
	}
	if reports != 10 {
		t.Errorf("%d reports of 10 arrived", reports)
	}
}

// With protoactor's own mailboxes a message that comes before RegisterHandlers
// panics in its sender and leaves the actor deaf for ever.
func TestMessageWhileSpawningWaitsForStarted(t *testing.T) {
	f := setup(t)
	got := make(received, 10)
	props := f.Props(kind, func() actor.Actor { return got })
	props.Configure(actor.WithOnInit(func(ctx actor.Context) {
		f.System().Root.Send(ctx.Self(), "early")
	}))
	pid := spawn(t, f, props)
	expect[*actor.Started](t, got)
	if m := expect[string](t, got); m != "early" {
		t.Errorf("got %q", m)
	}
	f.System().Root.Send(pid, "later")
	expect[string](t, got)
	stop(t, f, pid)
}

func TestStopWhileSpawningStillStarts(t *testing.T) {
	f := setup(t)
	got := make(received, 10)
	props := f.Props(kind, func() actor.Actor { return got })
	props.Configure(actor.WithOnInit(func(ctx actor.Context) {
		f.System().Root.Stop(ctx.Self())
	}))
	spawn(t, f, props)
	expect[*actor.Started](t, got)
	expect[*actor.Stopping](t, got)
	expect[*actor.Stopped](t, got)
}

func TestEverySenderKeepsItsOrder(t *testing.T) {
	const senders, each = 8, 2000
	f := setup(t)
	type numbered struct{ sender, n int }
	next, done := make([]int, senders), make(chan error, 1)
	left := senders * each
	pid := spawn(t, f, f.Props(Kind{Name: "wide", Mailbox: senders * each}, produce(func(ctx actor.Context) {
		m, ok := ctx.Message().(numbered)
		if !ok {
			return
		}
		if next[m.sender] != m.n {
			done <- fmt.Errorf("sender %d: got %d, want %d", m.sender, m.n, next[m.sender])
		}
		next[m.sender]++
		if left--; left == 0 {
			done <- nil
		}
	})))
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for n := range each {
				f.System().Root.Send(pid, numbered{s, n})
			}
		})
	}
	all.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
	stop(t, f, pid)
}

// script is a MessageInvoker that notes what it is given.
type script struct{ got []any }

func (s *script) InvokeSystemMessage(m any)     { s.got = append(s.got, m) }
func (s *script) InvokeUserMessage(m any)       { s.got = append(s.got, m) }
func (s *script) EscalateFailure(reason, m any) { s.got = append(s.got, reason) }

// A pause before a restart may end just when the actor is being stopped.
func TestRestartAfterStopIsDropped(t *testing.T) {
	m, s := &mailbox{limit: 4}, new(script)
	m.RegisterHandlers(s, actor.NewSynchronizedDispatcher(10))
	m.PostSystemMessage(&actor.Restart{})
	m.PostSystemMessage(&actor.Stop{})
	m.PostSystemMessage(&actor.Restart{})
	m.Start()
	if len(s.got) != 2 {
		t.Fatalf("got %T", s.got)
	}
	if _, ok := s.got[1].(*actor.Stop); !ok {
		t.Errorf("got %T", s.got)
	}
}

func TestSuspendedMailboxHoldsUserMessagesOnly(t *testing.T) {
	m, s := &mailbox{limit: 4}, new(script)
	m.RegisterHandlers(s, actor.NewSynchronizedDispatcher(10))
	m.Start()
	m.PostSystemMessage(&actor.SuspendMailbox{})
	m.PostUserMessage("held")
	m.PostSystemMessage(&actor.Unwatch{})
	if len(s.got) != 1 || m.UserMessageCount() != 1 {
		t.Fatalf("got %v, %d wait", s.got, m.UserMessageCount())
	}
	m.PostSystemMessage(&actor.ResumeMailbox{})
	if len(s.got) != 2 || s.got[1] != "held" {
		t.Errorf("got %v", s.got)
	}
}

func TestQueueKeepsOrderAndGivesMemoryBack(t *testing.T) {
	var q queue
	for round := range 3 {
		for i := range 1000 {
			q.push(i)
		}
		q.pushFront(-1)
		for want := -1; want < 1000; want++ {
			if got := q.pop(); got != want {
				t.Fatalf("round %d: got %v, want %d", round, got, want)
			}
		}
		if q.ring != nil || q.len != 0 {
			t.Errorf("an empty queue keeps %d places", len(q.ring))
		}
	}
}
