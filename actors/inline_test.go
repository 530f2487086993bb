package actors

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// An inline child is started, hears and ends before its parent goes on; its
// panic costs the child alone.
func TestAnInlineChildRunsInItsParent(t *testing.T) {
	f := setup(t)
	var heard []any // without a lock: all of it happens in one goroutine
	child := f.Props(kind, produce(func(ctx actor.Context) {
		heard = append(heard, ctx.Message())
		if ctx.Message() == "fail" {
			panic("failed")
		}
	}), Inline())
	reasons, terminated, counts := make(chan any, 1), make(chan string, 2), make(chan int, 10)
	parent := spawn(t, f, f.Props(kind, produce(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case string:
			pid, err := ctx.SpawnNamed(child, m)
			if err != nil {
				t.Error(err)
				return
			}
			counts <- len(heard)
			ctx.Send(pid, m)
			counts <- len(heard)
			ctx.Stop(pid)
			counts <- len(heard)
		case *actor.Terminated:
			terminated <- m.Who.GetId()
		}
	}), f.Supervises(kind, func(_ *actor.PID, reason any) { reasons <- reason })))

	f.System().Root.Send(parent, "work")
	for _, want := range []int{1, 2, 4} { // Started, the message, Stopping and Stopped
		if n := <-counts; n != want {
			t.Errorf("the child has heard %d messages, want %d", n, want)
		}
	}
	if who := <-terminated; who != parent.GetId()+"/work" {
		t.Errorf("%s has ended", who)
	}
	f.System().Root.Send(parent, "fail")
	if reason := <-reasons; reason != "failed" {
		t.Errorf("stopped for %v", reason)
	}
	if who := <-terminated; who != parent.GetId()+"/fail" {
		t.Errorf("%s has ended", who)
	}
	stop(t, f, parent)
}
