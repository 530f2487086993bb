package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/actors"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const here = "10.0.0.9:1"

// asking is a process that asks, and two that own.
type asking struct {
	post    *post
	f       *actors.Factory
	routes  *Routes
	a, b    Member
	atA     *actors.Factory
	atB     *actors.Factory
	results chan result
}

type result struct {
	answer proto.Message
	err    error
	at     time.Time
}

func setupAsk(t testing.TB) *asking {
	p := newPost(t)
	s := &asking{post: p, f: p.open(here), a: memberAt("a", "10.0.0.1:1"), b: memberAt("b", "10.0.0.2:1"), results: make(chan result, 100)}
	s.atA, s.atB = p.open(s.a.Address), p.open(s.b.Address)
	s.routes = NewRoutes(s.f.System(), 16)
	return s
}

// ask asks beside the test.
func (s *asking) ask(ctx context.Context, partition int32, msg proto.Message) {
	go func() {
		answer, err := s.routes.Ask(ctx, partition, msg)
		s.results <- result{answer, err, time.Now()}
	}()
}

func TestAskReachesTheOwner(t *testing.T) {
	s := setupAsk(t)
	pid, got := owner(s.f, 3, 1)
	s.routes.Own(3, 1, pid)
	serve(got, "here")
	_, got = owner(s.atA, 4, 2)
	s.routes.Heard(s.a, owns(4, 2))
	serve(got, "a")
	for partition, want := range map[int32]string{3: "here", 4: "a"} {
		answer, err := s.routes.Ask(t.Context(), partition, &belfryv1.Describe{})
		if got := who(t, answer, err); got != want {
			t.Errorf("partition %d: %s answers, not %s", partition, got, want)
		}
	}
	for _, none := range []int32{-2, 16} {
		if _, err := s.routes.Ask(t.Context(), none, &belfryv1.Describe{}); err == nil || errors.Is(err, job.ErrNoOwner) {
			t.Errorf("partition %d: %v", none, err)
		}
	}
}

func TestAskWaitsForAnOwner(t *testing.T) {
	s := setupAsk(t)
	s.routes = NewRoutes(s.f.System(), 0)
	go func() {
		answer, err := s.routes.AskJob(t.Context(), "a", &belfryv1.Describe{})
		s.results <- result{answer: answer, err: err}
	}()
	p := job.PartitionOf("a", 16)
	_, got := owner(s.atA, p, 2)
	serve(got, "a")
	s.routes.Heard(s.b, owns((p+1)%16, 1))
	s.routes.Heard(s.a, owns(p, 2))
	if r := <-s.results; who(t, r.answer, r.err) != "a" {
		t.Errorf("answer %v", r.answer)
	}
}

// TestAskGoesOn: whatever happens to the owner that was asked first, the next
// one answers.
func TestAskGoesOn(t *testing.T) {
	for name, test := range map[string]struct {
		answer proto.Message // of the first owner; nil: it says nothing
		gone   bool          // the first owner is not there any more
		local  bool
		msg    proto.Message
	}{
		"dead letter":                    {gone: true},
		"dead letter, not keyed":         {gone: true, msg: &belfryv1.Command{}},
		"gave it up":                     {answer: &belfryv1.NotOwner{Partition: 3}},
		"gave it up, here":               {answer: &belfryv1.NotOwner{Partition: 3}, local: true},
		"gave it up, not keyed":          {answer: &belfryv1.NotOwner{Partition: 3}, msg: &belfryv1.Command{}},
		"refuses as not owner":           {answer: refused(belfryv1.Refusal_CODE_NOT_OWNER)},
		"silent":                         {},
		"silent, with a keyed command":   {msg: &belfryv1.Command{Keyed: true}},
		"silent, here":                   {local: true},
		"silent, here, with a keyed one": {local: true, msg: &belfryv1.Command{Keyed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := setupAsk(t)
			at, dead := s.atA, make(chan struct{}, 100)
			if test.local {
				at = s.f
			}
			at.System().EventStream.Subscribe(func(e any) {
				if _, ok := e.(*actor.DeadLetterEvent); ok {
					dead <- struct{}{}
				}
			})
			pid, first := owner(at, 3, 1)
			if test.gone {
				if err := at.System().Root.StopFuture(pid).Wait(); err != nil {
					t.Fatal(err)
				}
			}
			if test.local {
				s.routes.Own(3, 1, pid)
			} else {
				s.routes.Heard(s.a, owns(3, 1))
			}
			msg := test.msg
			if msg == nil {
				msg = &belfryv1.Describe{JobId: jobIn(3)}
			}
			s.ask(within(t, 10*time.Second), 3, msg)
			if test.gone {
				<-dead
			} else {
				r := <-first
				if changed := s.routes.Changed(); test.answer != nil {
					r.reply(test.answer)
					<-changed // else it lost the partition before it answered, which is another case
				}
			}
			_, second := owner(s.atB, 3, 2)
			s.routes.Heard(s.b, owns(3, 2))
			r := <-second
			if !proto.Equal(r.msg, msg) {
				t.Errorf("the next owner got %v, not %v", r.msg, msg)
			}
			r.reply(&belfryv1.Description{Waiting: "b"})
			if r := <-s.results; who(t, r.answer, r.err) != "b" {
				t.Errorf("answer %v", r.answer)
			}
		})
	}
}

// jobIn is the id of a job in one of 16 partitions.
func jobIn(partition int32) string {
	for i := 0; ; i++ {
		if id := fmt.Sprint("job", i); job.PartitionOf(id, 16) == partition {
			return id
		}
	}
}

func refused(code belfryv1.Refusal_Code) *belfryv1.Answer {
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Refusal{Refusal: &belfryv1.Refusal{Code: code}}}
}

// TestRefusedIsNotBelievedAgain: a presence that was on its way when its sender
// gave the partition up does not bring the route back.
func TestRefusedIsNotBelievedAgain(t *testing.T) {
	s := setupAsk(t)
	_, got := owner(s.atA, 3, 1)
	s.routes.Heard(s.a, owns(3, 1))
	s.ask(within(t, 10*time.Second), 3, &belfryv1.Describe{})
	changed := s.routes.Changed()
	(<-got).reply(&belfryv1.NotOwner{Partition: 3})
	<-changed
	s.routes.Heard(s.a, owns(3, 1))
	if pid := s.routes.Owner(3); pid != nil {
		t.Errorf("the owner is %v again", pid)
	}
	_, got = owner(s.atA, 3, 2)
	s.routes.Heard(s.a, owns(3, 2))
	serve(got, "a")
	if r := <-s.results; who(t, r.answer, r.err) != "a" {
		t.Errorf("answer %v", r.answer)
	}
}

// TestACommandThatIsNotKeyedIsNotRepeated: when its owner is lost after it got
// the command, nobody knows what came of it.
func TestACommandThatIsNotKeyedIsNotRepeated(t *testing.T) {
	s := setupAsk(t)
	pid, first := owner(s.f, 3, 1)
	_, second := owner(s.atB, 3, 2)
	s.routes.Own(3, 1, pid)
	s.ask(within(t, 10*time.Second), 3, &belfryv1.Command{})
	<-first
	s.routes.Heard(s.b, owns(3, 2))
	if r := <-s.results; !errors.Is(r.err, job.ErrNoOwner) {
		t.Errorf("%v, %v", r.answer, r.err)
	}
	select {
	case <-second:
		t.Error("it was sent again")
	default:
	}
}

// TestACommandOfAnotherPartition: an owner that refuses a job which is not of
// its partition is no less the owner.
func TestACommandOfAnotherPartition(t *testing.T) {
	s := setupAsk(t)
	pid, got := owner(s.f, 3, 1)
	s.routes.Own(3, 1, pid)
	other := "a"
	for job.PartitionOf(other, 16) == 3 {
		other += "a"
	}
	s.ask(within(t, 10*time.Second), 3, &belfryv1.Command{JobId: other})
	(<-got).reply(refused(belfryv1.Refusal_CODE_NOT_OWNER))
	r := <-s.results
	if a, ok := r.answer.(*belfryv1.Answer); r.err != nil || !ok || a.GetRefusal().GetCode() != belfryv1.Refusal_CODE_NOT_OWNER {
		t.Errorf("%v, %v", r.answer, r.err)
	}
	if s.routes.Owner(3) == nil {
		t.Error("the route was dropped")
	}
}

// timed runs a test on a clock that stands still while anything runs.
func timed(t *testing.T, f func(t *testing.T, s *asking)) {
	synctest.Test(t, func(t *testing.T) { f(t, setupAsk(t)) })
}

// TestAskNeverEndsLate: exactly at the deadline, whatever there is to wait for.
func TestAskNeverEndsLate(t *testing.T) {
	for name, prepare := range map[string]func(s *asking){
		"no number":    func(s *asking) { s.routes = NewRoutes(s.f.System(), 0) },
		"no owner":     func(*asking) {},
		"silent":       func(s *asking) { owner(s.atA, 3, 1); s.routes.Heard(s.a, owns(3, 1)) },
		"silent, here": func(s *asking) { pid, _ := owner(s.f, 3, 1); s.routes.Own(3, 1, pid) },
		"not there":    func(s *asking) { s.routes.Heard(s.a, owns(3, 1)) },
		"killed":       func(s *asking) { s.routes.Heard(s.a, owns(3, 1)); s.post.kill(s.a.Address) },
	} {
		t.Run(name, func(t *testing.T) {
			timed(t, func(t *testing.T, s *asking) {
				prepare(s)
				for _, want := range []time.Duration{3 * time.Second, defaultAsk} {
					ctx := t.Context()
					if want != defaultAsk {
						ctx = within(t, want)
					}
					start := time.Now()
					_, err := s.routes.Ask(ctx, 3, &belfryv1.Describe{})
					if took := time.Since(start); !errors.Is(err, job.ErrNoOwner) || took != want {
						t.Errorf("after %s, not %s: %v", took, want, err)
					}
				}
			})
		})
	}
}

func TestAskOfACallerThatWent(t *testing.T) {
	s := setupAsk(t)
	_, got := owner(s.atA, 3, 1)
	s.routes.Heard(s.a, owns(3, 1))
	ctx, cancel := context.WithCancel(t.Context())
	s.ask(ctx, 3, &belfryv1.Describe{})
	<-got
	cancel()
	if r := <-s.results; !errors.Is(r.err, context.Canceled) || errors.Is(r.err, job.ErrNoOwner) {
		t.Errorf("%v", r.err)
	}
	if _, err := s.routes.Ask(ctx, 3, &belfryv1.Describe{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestALostMessageIsSentAgain: without a word of the loss, after 2 s, to another
// process only, and what must not be repeated never.
func TestALostMessageIsSentAgain(t *testing.T) {
	for name, test := range map[string]struct {
		msg   proto.Message
		local bool
		again bool
	}{
		"question":      {msg: &belfryv1.Describe{}, again: true},
		"keyed command": {msg: &belfryv1.Command{Keyed: true}, again: true},
		"other command": {msg: &belfryv1.Command{}},
		"batch":         {msg: &belfryv1.Commands{}},
		"here":          {msg: &belfryv1.Describe{}, local: true},
	} {
		t.Run(name, func(t *testing.T) {
			timed(t, func(t *testing.T, s *asking) {
				var got chan received
				if test.local {
					var pid *actor.PID
					pid, got = owner(s.f, 3, 1)
					s.routes.Own(3, 1, pid)
				} else {
					_, got = owner(s.atA, 3, 1)
					s.routes.Heard(s.a, owns(3, 1))
				}
				start := time.Now()
				s.ask(within(t, 3*time.Second), 3, test.msg)
				<-got // as good as lost
				if !test.again {
					if r := <-s.results; r.err == nil || len(got) > 0 {
						t.Errorf("%v, %v; sent again: %v", r.answer, r.err, len(got) > 0)
					}
					return
				}
				r := <-got
				if waited := time.Since(start); waited != silence {
					t.Errorf("sent again after %s", waited)
				}
				r.reply(&belfryv1.Description{Waiting: "a"})
				if r := <-s.results; who(t, r.answer, r.err) != "a" {
					t.Errorf("answer %v", r.answer)
				}
			})
		})
	}
}

// TestAnOwnerThatIsAtIt: a repeat of ours finds the first one in work. That is
// no answer; the answer to the first one is.
func TestAnOwnerThatIsAtIt(t *testing.T) {
	timed(t, func(t *testing.T, s *asking) {
		_, got := owner(s.atA, 3, 1)
		s.routes.Heard(s.a, owns(3, 1))
		s.ask(t.Context(), 3, &belfryv1.Command{Keyed: true})
		first := <-got
		(<-got).reply(refused(belfryv1.Refusal_CODE_IN_FLIGHT))
		first.reply(&belfryv1.Description{Waiting: "a"})
		if r := <-s.results; who(t, r.answer, r.err) != "a" {
			t.Errorf("answer %v", r.answer)
		}
		// To a first request the same refusal is an answer: another client's is in work.
		s.ask(t.Context(), 3, &belfryv1.Command{Keyed: true})
		(<-got).reply(refused(belfryv1.Refusal_CODE_IN_FLIGHT))
		if r := <-s.results; r.err != nil || r.answer.(*belfryv1.Answer).GetRefusal().GetCode() != belfryv1.Refusal_CODE_IN_FLIGHT {
			t.Errorf("%v, %v", r.answer, r.err)
		}
	})
}

// TestDeadLettersAreAskedAgainWithPauses: an owner that has no room, or is being
// restarted, is not flooded.
func TestDeadLettersAreAskedAgainWithPauses(t *testing.T) {
	timed(t, func(t *testing.T, s *asking) {
		s.routes.Heard(s.a, owns(3, 1))
		var mu sync.Mutex
		tries := 0
		s.post.fate = func(_ string, to *actor.PID, _ proto.Message) int {
			mu.Lock()
			defer mu.Unlock()
			if to.GetAddress() == s.a.Address {
				tries++
			}
			return 1
		}
		if _, err := s.routes.Ask(t.Context(), 3, &belfryv1.Describe{}); !errors.Is(err, job.ErrNoOwner) {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		// 10 s at 0.5 to 1 s, and half a dozen shorter pauses before that.
		if tries < 10 || tries > 32 {
			t.Errorf("%d tries in 10 s", tries)
		}
	})
}

func TestPauses(t *testing.T) {
	var p pauses
	for want := firstPause; ; want = min(2*want, longestPause) {
		d := p.next()
		if d < want/2 || d > want {
			t.Errorf("pause %s, want %s to %s", d, want/2, want)
		}
		if want == longestPause {
			break
		}
	}
}

func TestTooManyQuestionsToOneProcess(t *testing.T) {
	s := setupAsk(t)
	s.routes.calls.limit = 2
	_, got := owner(s.atA, 3, 1)
	s.routes.Heard(s.a, owns(3, 1))
	_, other := owner(s.atB, 4, 1)
	s.routes.Heard(s.b, owns(4, 1))
	serve(other, "b")
	s.ask(within(t, 10*time.Second), 3, &belfryv1.Describe{})
	s.ask(within(t, 10*time.Second), 3, &belfryv1.Describe{})
	first, second := <-got, <-got
	if _, err := s.routes.Ask(t.Context(), 3, &belfryv1.Describe{}); !errors.Is(err, job.ErrNoOwner) || !errors.Is(err, job.ErrNotSent) {
		t.Errorf("a third one: %v", err)
	}
	answer, err := s.routes.Ask(t.Context(), 4, &belfryv1.Describe{})
	if who(t, answer, err) != "b" {
		t.Error("another process cannot be asked")
	}
	for _, r := range []received{first, second} {
		r.reply(&belfryv1.Description{Waiting: "a"})
		if r := <-s.results; who(t, r.answer, r.err) != "a" {
			t.Errorf("answer %v", r.answer)
		}
	}
	serve(got, "a")
	answer, err = s.routes.Ask(t.Context(), 3, &belfryv1.Describe{})
	if who(t, answer, err) != "a" {
		t.Error("there is room again, and it cannot be asked")
	}
	if len(s.routes.calls.under) != 0 {
		t.Errorf("%v are counted still", s.routes.calls.under)
	}
}

func BenchmarkAskHere(b *testing.B) {
	s := setupAsk(b)
	pid := s.f.System().Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*belfryv1.Describe); ok {
			ctx.Respond(&belfryv1.Description{})
		}
	}))
	s.routes.Own(3, 1, pid)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.routes.Ask(b.Context(), 3, &belfryv1.Describe{}); err != nil {
			b.Fatal(err)
		}
	}
}
