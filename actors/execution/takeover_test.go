package execution

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// dapr/dapr#10337: in-flight work is put back and made again when its owner
// changes. Here owners change all the time, the ones before do not know and go
// on sending, a fifth of all messages is lost, and the routing table is behind
// for half of the partitions; still every delivery is made once.
func TestTakeoversWhileCallsRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const partitions, each, slots = 4, 150, 16
		made := &calls{}
		w := newWorld(t, partitions, partitions*each, config(slots, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			made.enter(d)
			defer made.leave()
			time.Sleep(300 * time.Millisecond) // of the bubble's clock
			return success(ctx, d, 0, nil)
		})))
		w.loss = 0.2
		for p := range int32(partitions) {
			w.give(p, batch(p, 0, each))
		}
		takeovers := 0
		for ended := false; !ended; {
			for _, pid := range w.owners {
				w.f.System().Root.Send(pid, again{})
			}
			select {
			case <-w.all:
				ended = true
			case <-time.After(time.Second): // of the bubble's clock
				p := int32(takeovers % partitions)
				pid := w.takeover(p)
				if p%2 == 0 {
					w.table[p].Store(pid)
				}
				takeovers++
			}
		}
		w.close()
		if len(made.of) != partitions*each || made.most > slots || takeovers < 2*partitions {
			t.Errorf("%d deliveries, at most %d at once, %d takeovers", len(made.of), made.most, takeovers)
		}
		for key, n := range made.of {
			if n != 1 || w.ends[key] != 1 {
				t.Errorf("%v was made %d times and ended %d times", key, n, w.ends[key])
			}
		}
	})
}

func refs(ds ...*belfryv1.DeliveryRef) map[string]bool {
	out := map[string]bool{}
	for _, d := range ds {
		out[d.GetExecutionId()] = true
	}
	return out
}

func TestANewOwnerHearsWhatIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		made := &calls{}
		release := make(chan struct{})
		w, old := stage(t, config(8, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			made.enter(d)
			if d.GetExecutionId() != "p0-1" {
				<-release
			}
			return success(ctx, d, 0, nil)
		})))
		w.dispatch(0, numbered(0, 1), numbered(0, 2))
		next[*belfryv1.Results](t, old) // of p0-1; nobody acknowledges it
		fresh := w.play(10)
		start := time.Now()
		w.tell(w.owners[1], &belfryv1.Inquire{Epoch: 10})
		holds := next[*belfryv1.Holds](t, fresh)
		if got := refs(holds.GetDeliveries()...); holds.GetEpoch() != 10 || len(got) != 2 || !got["p0-1"] || !got["p0-2"] {
			t.Errorf("holds %v", holds)
		}
		rs := next[*belfryv1.Results](t, fresh)
		if r := rs.GetResults()[0]; len(rs.GetResults()) != 1 || r.GetExecutionId() != "p0-1" || r.GetEpoch() != 9 || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), rs)
		}
		w.acknowledge(rs)

		// What the old owner still sends begins nothing, and it hears of it.
		w.tell(w.owners[0], &belfryv1.Dispatch{Epoch: 9, Confirm: true, Deliveries: []*belfryv1.Delivery{numbered(0, 2), numbered(0, 3), numbered(0, 1)}})
		if begun := next[*belfryv1.Begun](t, old); len(begun.GetDeliveries()) != 1 || begun.GetDeliveries()[0].GetExecutionId() != "p0-2" {
			t.Errorf("begun %v", begun)
		}
		if busy := next[*belfryv1.Busy](t, old); len(busy.GetDeliveries()) != 2 || busy.GetEpoch() != 9 {
			t.Errorf("busy %v", busy)
		}
		w.tell(w.owners[0], &belfryv1.Inquire{Epoch: 9})
		nothing(t, old) // also no offer
		close(release)
		rs = next[*belfryv1.Results](t, fresh)
		w.acknowledge(rs)
		nothing(t, fresh)
		nothing(t, old)
		if r := rs.GetResults()[0]; r.GetExecutionId() != "p0-2" || made.of[ref{"p0-2", 1}] != 1 || made.of[ref{"p0-3", 1}] != 0 {
			t.Errorf("%v, made %v", r, made.of)
		}

		// The new owner itself is served, and asks again without harm.
		w.tell(w.owners[1], &belfryv1.Dispatch{Epoch: 10, Deliveries: []*belfryv1.Delivery{numbered(0, 3)}})
		w.acknowledge(next[*belfryv1.Results](t, fresh))
		w.tell(w.owners[1], &belfryv1.Inquire{Epoch: 10})
		if holds := next[*belfryv1.Holds](t, fresh); len(holds.GetDeliveries()) != 0 {
			t.Errorf("holds %v", holds)
		}
		w.close()
	})
}

// The word of the routing table is enough: the Inquire may be late or lost.
func TestTheTableMovesResultsOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, old := stage(t, config(8, delivererFunc(success)))
		w.dispatch(0, numbered(0, 1))
		next[*belfryv1.Results](t, old)
		fresh := w.play(10)
		w.table[0].Store(w.owners[1])
		w.acknowledge(next[*belfryv1.Results](t, fresh))
		w.dispatch(0, numbered(0, 2))
		next[*belfryv1.Busy](t, old)
		nothing(t, old)
		nothing(t, fresh)
		w.close()
	})
}

// An owner before the newest would acknowledge a result that it cannot record.
func TestNoResultGoesBackInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		w, old := stage(t, config(8, gate(release)))
		fresh := w.play(10)
		w.tell(w.owners[1], &belfryv1.Dispatch{Epoch: 10, Deliveries: []*belfryv1.Delivery{numbered(0, 1)}})
		synctest.Wait()
		w.stop(w.owners[1])
		close(release)
		time.Sleep(time.Minute) // of the bubble's clock; the table still names the old one
		nothing(t, old)
		nothing(t, fresh)
		last := w.play(11)
		w.tell(w.owners[2], &belfryv1.Inquire{Epoch: 11})
		next[*belfryv1.Holds](t, last)
		next[*belfryv1.Results](t, last)
		w.stop(w.worker, w.owners[0], w.owners[2])
	})
}

// kagkarlsson/db-scheduler#365, kestra-io/kestra#17129: a rolling restart. The
// worker drains while a call of 60 s runs, its partition moves to a node that
// goes on, and that gets the result.
func TestADrainingWorkerAnswersTheNextOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		made := &calls{}
		w, old := stage(t, config(4, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			made.enter(d)
			time.Sleep(time.Minute) // of the bubble's clock
			return success(ctx, d, 0, nil)
		})))
		w.dispatch(0, numbered(0, 1))
		synctest.Wait()
		start := time.Now()
		left := make(chan int)
		go func() {
			n, err := Drain(w.f.System(), w.worker, 90*time.Second)
			if err != nil {
				t.Error(err)
			}
			left <- n
		}()
		synctest.Wait()
		w.stop(w.owners[0])
		fresh := w.play(10)
		inquire := func() { w.tell(w.owners[1], &belfryv1.Inquire{Epoch: 10}) }
		inquire()
		if holds := next[*belfryv1.Holds](t, fresh); len(holds.GetDeliveries()) != 1 {
			t.Errorf("holds %v", holds)
		}
		w.tell(w.owners[1], &belfryv1.Dispatch{Epoch: 10, Deliveries: []*belfryv1.Delivery{numbered(0, 1), numbered(0, 2)}})
		if busy := next[*belfryv1.Busy](t, fresh); len(busy.GetDeliveries()) != 1 || busy.GetDeliveries()[0].GetExecutionId() != "p0-2" {
			t.Errorf("busy %v", busy)
		}
		w.acknowledge(next[*belfryv1.Results](t, fresh))
		if n := <-left; n != 0 || time.Since(start) != time.Minute || len(made.of) != 1 || made.of[ref{"p0-1", 1}] != 1 {
			t.Errorf("%d left after %v, made %v", n, time.Since(start), made.of)
		}
		nothing(t, old)
		nothing(t, fresh)
		w.stop(w.worker, w.owners[1])
	})
}

// What is cut before it was sent is no attempt: another worker may have it.
func TestDrainGivesBackWhatWasNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(4, delivererFunc(func(ctx context.Context, _ *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			<-ctx.Done() // as if it were dialling
			return nil
		})))
		w.dispatch(0, numbered(0, 1))
		synctest.Wait()
		left, err := Drain(w.f.System(), w.worker, 5*time.Second)
		if err != nil || left != 0 {
			t.Errorf("%d left, %v", left, err)
		}
		if busy := next[*belfryv1.Busy](t, got); busy.GetEpoch() != 9 || !refs(busy.GetDeliveries()...)["p0-1"] {
			t.Errorf("busy %v", busy)
		}
		nothing(t, got)
		w.close()
	})
}

// A message to an owner that is gone comes back, also from another node.
func TestADeadLetterOfNobodyChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(4, delivererFunc(success)))
		w.dispatch(0, numbered(0, 1))
		next[*belfryv1.Results](t, got)
		root := w.f.System().Root
		root.Send(w.worker, &actor.DeadLetterResponse{})
		root.Send(w.worker, &actor.DeadLetterResponse{Target: actor.NewPID("elsewhere", w.owners[0].GetId())})
		next[*belfryv1.Results](t, got)
		w.close()
	})
}
