package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A restart limit is driven to its end, with every pause before it.
func TestRestartsPauseLongerEachTimeThenStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		crashing := Kind{Name: "crashing", Mailbox: 4, OnPanic: Policy{
			Restarts: 4, Within: time.Hour, Backoff: time.Second, MaxBackoff: 3 * time.Second,
		}}
		begin := time.Now()
		var starts []time.Duration
		stopped := make(chan any, 1)
		guardian := f.Guardian(crashing, func(_ *actor.PID, reason any) { stopped <- reason })
		pid := spawn(t, f, f.Props(crashing, produce(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				starts = append(starts, time.Since(begin))
				panic("again")
			}
		}), guardian))
		if reason := <-stopped; reason != "again" {
			t.Errorf("stopped for %v", reason)
		}
		synctest.Wait()
		want := []time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second, 9 * time.Second}
		if diff := cmp.Diff(want, starts); diff != "" {
			t.Error(diff)
		}
		if _, there := f.System().ProcessRegistry.Get(pid); there {
			t.Error("it is still registered")
		}
		if r, s := count(f.metrics.restarts), count(f.metrics.stops); r != 4 || s != 1 {
			t.Errorf("%v restarts and %v stops are counted", r, s)
		}
	})
}

func TestRareFailuresNeverAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		k := Kind{Name: "rare", Mailbox: 4, OnPanic: Policy{Restarts: 2, Within: time.Minute, Backoff: time.Millisecond, MaxBackoff: time.Second}}
		restarts := 0
		pid := spawn(t, f, f.Props(k, produce(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Restarting:
				restarts++
			case string:
				panic("now and then")
			}
		}), f.Guardian(k, nil)))
		for range 100 {
			f.System().Root.Send(pid, "fail")
			time.Sleep(31 * time.Second) // of the bubble's clock
		}
		synctest.Wait()
		if restarts != 100 {
			t.Errorf("%d restarts", restarts)
		}
		stop(t, f, pid)
	})
}

func TestFailuresAreForgottenAfterTheWindow(t *testing.T) {
	f := failures{of: map[string][]time.Time{}}
	now := time.Unix(0, 0)
	for i := range 1000 {
		now = now.Add(25 * time.Second)
		if n := f.add("often", now, time.Minute); n != min(i+1, 3) {
			t.Fatalf("failure %d: %d in a minute", i, n)
		}
		f.add(fmt.Sprint("another ", i), now, time.Minute)
	}
	if n := len(f.of); n > 4 {
		t.Errorf("%d actors are remembered", n)
	}
	if n := f.add("often", now.Add(time.Hour), time.Minute); n != 1 || len(f.of) != 1 {
		t.Errorf("after an hour: %d failures, %d actors", n, len(f.of))
	}
}

func TestRestartKeepsTheQueueAndLosesOneMessage(t *testing.T) {
	f := setup(t)
	k := Kind{Name: "k", Mailbox: 10, OnPanic: Policy{Restarts: 1, Within: time.Minute, Backoff: 1, MaxBackoff: 1}}
	got := make(chan string, 10)
	hold := make(chan struct{})
	pid := spawn(t, f, f.Props(k, produce(func(ctx actor.Context) {
		m, ok := ctx.Message().(string)
		if !ok {
			return
		}
		if m == "bad" {
			<-hold
			panic(m)
		}
		got <- m
	}), f.Guardian(k, nil)))
	for _, m := range []string{"bad", "a", "b"} {
		f.System().Root.Send(pid, m)
	}
	close(hold)
	if a, b := <-got, <-got; a != "a" || b != "b" {
		t.Errorf("got %s, %s", a, b)
	}
	stop(t, f, pid)
}

// A Stop that comes in the pause before a restart is final.
func TestStopDuringThePauseIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		k := Kind{Name: "k", Mailbox: 4, OnPanic: Policy{Restarts: 5, Within: time.Hour, Backoff: time.Second, MaxBackoff: time.Second}}
		starts := 0
		pid := spawn(t, f, f.Props(k, produce(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started:
				starts++
			case string:
				panic("fail")
			}
		}), f.Guardian(k, nil)))
		f.System().Root.Send(pid, "fail")
		synctest.Wait()
		stop(t, f, pid)
		time.Sleep(time.Minute) // of the bubble's clock
		synctest.Wait()
		if starts != 1 {
			t.Errorf("started %d times", starts)
		}
	})
}

// parent spawns one child when told to and forwards what it hears of it.
type parent struct {
	child *actor.Props
	heard chan any
	begun chan *actor.PID
}

func (p *parent) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		p.begun <- ctx.Spawn(p.child)
	case *actor.Terminated:
		p.heard <- m
	}
}

func family(t *testing.T, f *Factory, child func(actor.Context), hook Stopped) (p, c *actor.PID, heard chan any) {
	t.Helper()
	heard = make(chan any, 10)
	begun := make(chan *actor.PID, 1)
	props := f.Props(kind, func() actor.Actor {
		return &parent{child: f.Props(kind, produce(child)), heard: heard, begun: begun}
	}, f.Supervises(kind, hook))
	p = spawn(t, f, props)
	return p, <-begun, heard
}

// Panics in Stopping restart an actor, and in Stopped leave a zombie that its
// parent waits for without end, unless they are caught.
func TestPanicOnTheWayOutIsNoZombie(t *testing.T) {
	for name, at := range map[string]func(any) bool{
		"stopping": func(m any) bool { _, ok := m.(*actor.Stopping); return ok },
		"stopped":  func(m any) bool { _, ok := m.(*actor.Stopped); return ok },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			p, c, heard := family(t, f, func(ctx actor.Context) {
				if at(ctx.Message()) {
					panic("on the way out")
				}
			}, nil)
			f.System().Root.Stop(c)
			if m := (<-heard).(*actor.Terminated); !m.Who.Equal(c) {
				t.Errorf("terminated: %v", m.Who)
			}
			stop(t, f, p)
			if n := count(f.metrics.panics); n != 1 {
				t.Errorf("%v panics are counted", n)
			}
		})
	}
}

func TestPanicInTerminatedWhileStoppingIsNoZombie(t *testing.T) {
	f := setup(t)
	begun := make(chan struct{})
	child := f.Props(kind, produce(func(actor.Context) {}))
	p := spawn(t, f, f.Props(kind, produce(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ctx.Spawn(child)
			close(begun)
		case *actor.Terminated:
			panic("a child less")
		}
	})))
	<-begun
	stop(t, f, p)
}

func TestStoppedChildIsReportedBeforeItsEnd(t *testing.T) {
	f := setup(t)
	order := make(chan string, 2)
	p, c, heard := family(t, f, func(ctx actor.Context) {
		if _, ok := ctx.Message().(string); ok {
			panic("bad input")
		}
	}, func(_ *actor.PID, reason any) { order <- reason.(string); panic("and the hook too") })
	f.System().Root.Send(c, "x")
	if got := <-order; got != "bad input" {
		t.Errorf("reason %q", got)
	}
	<-heard // Terminated
	if n := count(f.metrics.stops); n != 1 {
		t.Errorf("%v stops are counted", n)
	}
	stop(t, f, p)
}

func TestPauseIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Backoff:    time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "backoff")),
			MaxBackoff: time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "max")),
			Jitter:     rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		d := p.pause(rapid.IntRange(1, 10_000).Draw(t, "n"), rapid.Float64Range(0, 0.999).Draw(t, "random"))
		if d < 0 || d > 2*p.MaxBackoff {
			t.Fatalf("pause %v", d)
		}
	})
}

func BenchmarkTell(b *testing.B) {
	f := setup(b)
	done := make(chan struct{})
	seen := 0
	pid := spawn(b, f, f.Props(Kind{Name: "b", Mailbox: 1 << 30}, produce(func(ctx actor.Context) {
		if n, ok := ctx.Message().(int); ok {
			if seen++; seen == n {
				close(done)
			}
		}
	})))
	b.ReportAllocs()
	b.ResetTimer()
	message := any(b.N)
	for range b.N {
		f.System().Root.Send(pid, message)
	}
	<-done
	stop(b, f, pid)
}

func BenchmarkSpawnAndStop(b *testing.B) {
	f := setup(b)
	child := f.Props(Execution, produce(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			ctx.Stop(ctx.Self())
		}
	}))
	done := make(chan struct{})
	left := b.N
	p := spawn(b, f, f.Props(Worker, produce(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case string, *actor.Terminated:
			if left--; left < 0 {
				close(done)
				return
			}
			ctx.Spawn(child)
		}
	})))
	b.ReportAllocs()
	b.ResetTimer()
	f.System().Root.Send(p, "begin")
	<-done
	stop(b, f, p)
}
