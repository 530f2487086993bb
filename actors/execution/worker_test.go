package execution

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/actors"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// calls counts how often each delivery was made.
type calls struct {
	mu   sync.Mutex
	of   map[ref]int
	now  int
	most int // at once
}

func (c *calls) enter(d *belfryv1.Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[ref]int{}
	}
	c.of[ref{d.GetExecutionId(), d.GetAttempt()}]++
	c.now++
	c.most = max(c.most, c.now)
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

func config(slots int, d Deliverer) Config {
	cfg := DefaultConfig()
	cfg.Slots, cfg.Deliverer = slots, d
	return cfg
}

// gate is a Deliverer whose calls end one by one, or all when it is closed.
func gate(release <-chan struct{}) Deliverer {
	return delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return success(ctx, d, 0, nil)
	})
}

// batch is n deliveries of a partition.
func batch(partition int32, from, n int) work {
	var w work
	for i := range n {
		w = append(w, numbered(partition, from+i))
	}
	return w
}

func TestEveryDeliveryEndsExactlyOnce(t *testing.T) {
	const partitions, each, slots = 16, 625, 64
	made := &calls{}
	w := newWorld(t, partitions, partitions*each, config(slots, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
		made.enter(d)
		defer made.leave()
		return success(ctx, d, 0, nil)
	})))
	for p := range int32(partitions) {
		w.give(p, batch(p, 0, each))
	}
	<-w.all
	w.close()
	if len(made.of) != partitions*each || made.most > slots {
		t.Errorf("%d deliveries, at most %d at once", len(made.of), made.most)
	}
	for key, n := range made.of {
		if n != 1 || w.ends[key] != 1 {
			t.Errorf("%v was made %d times and ended %d times", key, n, w.ends[key])
		}
	}
	t.Logf("%d offers", w.offers)
}

// Each kind of message is lost now and then, and still every delivery is made
// once and ends once.
func TestNothingIsLostOrStuckOnABadWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const partitions, each, slots = 5, 200, 16
		made := &calls{}
		w := newWorld(t, partitions, partitions*each, config(slots, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			made.enter(d)
			defer made.leave()
			time.Sleep(20 * time.Millisecond) // of the bubble's clock
			return success(ctx, d, 0, nil)
		})))
		w.loss = 0.2
		for p := range int32(partitions) {
			w.give(p, batch(p, 0, each))
		}
		for ended := false; !ended; {
			for _, pid := range w.owners {
				w.f.System().Root.Send(pid, again{})
			}
			select {
			case <-w.all:
				ended = true
			case <-time.After(time.Second): // of the bubble's clock
			}
		}
		w.close()
		for key, n := range made.of {
			if n != 1 || w.ends[key] != 1 {
				t.Errorf("%v was made %d times and ended %d times", key, n, w.ends[key])
			}
		}
		if made.most > slots {
			t.Errorf("%d at once", made.most)
		}
	})
}

// inbox is an owner that the test plays itself.
type inbox chan any

func (i inbox) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *belfryv1.Results, *belfryv1.Busy, *belfryv1.Offer, *belfryv1.Begun, *belfryv1.Holds:
		i <- m
	}
}

// stage is a worker with one owner, partition 0, that the test plays.
func stage(t *testing.T, cfg Config) (w *world, got inbox) {
	t.Helper()
	w = newWorld(t, 0, math.MaxInt, cfg)
	got = w.play(9)
	w.table[0].Store(w.owners[0])
	return w, got
}

// play makes an owner of partition 0 that the test plays, the next of
// world.owners.
func (w *world) play(epoch int64) inbox {
	got := make(inbox, 1000)
	w.spawn(0, epoch, got)
	return got
}

// tell sends a message of an owner to the worker.
func (w *world) tell(from *actor.PID, m any) {
	w.f.System().Root.RequestWithCustomSender(w.worker, m, from)
}

func (w *world) dispatch(offer int64, ds ...*belfryv1.Delivery) {
	w.tell(w.owners[0], &belfryv1.Dispatch{Epoch: 9, Offer: offer, Deliveries: ds})
}

func (w *world) acknowledge(rs *belfryv1.Results) {
	acks := &belfryv1.Acks{}
	for _, r := range rs.GetResults() {
		acks.Deliveries = append(acks.Deliveries, &belfryv1.DeliveryRef{ExecutionId: r.GetExecutionId(), Attempt: r.GetAttempt()})
	}
	w.f.System().Root.Send(w.worker, acks)
}

func next[T any](t *testing.T, got inbox) T {
	t.Helper()
	m := <-got
	v, ok := m.(T)
	if !ok {
		t.Fatalf("received %T %v, want %T", m, m, v)
	}
	return v
}

func nothing(t *testing.T, got inbox) {
	t.Helper()
	synctest.Wait()
	select {
	case m := <-got:
		t.Fatalf("received %T %v", m, m)
	default:
	}
}

func TestAResultIsRepeatedUntilAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(1, delivererFunc(success)))
		start := time.Now()
		w.dispatch(0, numbered(0, 1))
		first := next[*belfryv1.Results](t, got)
		if r := first.GetResults()[0]; r.GetExecutionId() != "p0-1" || r.GetAttempt() != 1 || r.GetEpoch() != 9 || r.GetJobId() != "job" || r.GetFinishedAt() == 0 {
			t.Errorf("result %v", r)
		}
		next[*belfryv1.Results](t, got)
		next[*belfryv1.Results](t, got)
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("the third report came after %v", d)
		}
		w.dispatch(0, numbered(0, 1)) // the owner asks again: the result at once, and no second call
		next[*belfryv1.Results](t, got)
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("the answer to a repeated dispatch came after %v", d)
		}
		w.dispatch(0, numbered(0, 2)) // the unacknowledged result keeps its slot
		next[*belfryv1.Busy](t, got)
		w.acknowledge(first)
		next[*belfryv1.Offer](t, got)
		w.dispatch(1)
		time.Sleep(time.Minute) // of the bubble's clock
		nothing(t, got)
		w.close()
	})
}

func TestARepeatedDispatchOfARunningCallChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		made := &calls{}
		release := make(chan struct{})
		w, got := stage(t, config(4, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			made.enter(d)
			<-release
			return success(ctx, d, 0, nil)
		})))
		for range 5 {
			w.dispatch(0, numbered(0, 1))
		}
		nothing(t, got)
		close(release)
		rs := next[*belfryv1.Results](t, got)
		w.acknowledge(rs)
		nothing(t, got)
		if n := made.of[ref{"p0-1", 1}]; n != 1 || len(rs.GetResults()) != 1 {
			t.Errorf("%d calls, results %v", n, rs)
		}
		w.close()
	})
}

func TestAnExecutionActorEndsWithItsCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(1, delivererFunc(success)))
		w.dispatch(0, numbered(0, 1))
		next[*belfryv1.Results](t, got)
		synctest.Wait()
		child := actor.NewPID(w.worker.GetAddress(), w.worker.GetId()+"/e1")
		if _, there := w.f.System().ProcessRegistry.Get(child); there {
			t.Error("the actor is still there")
		}
		w.close()
	})
}

func TestResultsTravelTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		w, got := stage(t, config(200, gate(release)))
		w.dispatch(0, batch(0, 0, 200)...)
		synctest.Wait()
		close(release)
		synctest.Wait()
		messages, results := 0, 0
		for results < 200 {
			n := len(next[*belfryv1.Results](t, got).GetResults())
			if n > resultsChunk {
				t.Errorf("%d results in one message", n)
			}
			messages++
			results += n
		}
		if messages > 150 {
			t.Errorf("%d messages for 200 results", messages)
		}
		w.close()
	})
}

func TestBusyOnceForAWholeDispatchThenOffers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{}, 100)
		w, got := stage(t, config(2, gate(release)))
		w.dispatch(0, batch(0, 0, 10)...)
		if busy := next[*belfryv1.Busy](t, got); len(busy.GetDeliveries()) != 8 || busy.GetEpoch() != 9 || busy.GetDeliveries()[0].GetExecutionId() != "p0-2" {
			t.Errorf("busy %v", busy)
		}
		nothing(t, got)
		release <- struct{}{}
		w.acknowledge(next[*belfryv1.Results](t, got))
		offer := next[*belfryv1.Offer](t, got)
		if offer.GetSlots() != 1 {
			t.Errorf("offer %v", offer)
		}
		w.dispatch(0, numbered(0, 50)) // unasked, while the slot is promised
		next[*belfryv1.Busy](t, got)
		w.dispatch(offer.GetId(), numbered(0, 3))
		nothing(t, got) // begun
		release <- struct{}{}
		w.acknowledge(next[*belfryv1.Results](t, got))
		offer = next[*belfryv1.Offer](t, got)
		w.dispatch(offer.GetId()) // nothing waits any more
		time.Sleep(time.Minute)   // of the bubble's clock
		nothing(t, got)
		w.close()
	})
}

func TestAnUnansweredOfferLapses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{}, 100)
		w, got := stage(t, config(2, gate(release)))
		w.dispatch(0, batch(0, 0, 3)...)
		next[*belfryv1.Busy](t, got)
		release <- struct{}{}
		w.acknowledge(next[*belfryv1.Results](t, got))
		start := time.Now()
		first := next[*belfryv1.Offer](t, got)
		second := next[*belfryv1.Offer](t, got)
		if d := time.Since(start); d != time.Second || second.GetId() == first.GetId() {
			t.Errorf("offered again after %v: %v, %v", d, first, second)
		}
		w.dispatch(first.GetId(), numbered(0, 2)) // too late: its slot is promised anew
		next[*belfryv1.Busy](t, got)
		w.dispatch(second.GetId(), numbered(0, 2))
		nothing(t, got)
		release <- struct{}{}
		release <- struct{}{}
		next[*belfryv1.Results](t, got)
		w.close()
	})
}

func TestWithoutAnOwnerResultsWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		w, got := stage(t, config(1, gate(release)))
		w.table[0].Store(nil)
		w.dispatch(0, numbered(0, 1), numbered(0, 2))
		next[*belfryv1.Busy](t, got)
		w.stop(w.owners[0])
		close(release)
		time.Sleep(10 * time.Second) // of the bubble's clock
		after := w.play(10)
		w.table[0].Store(w.owners[1])
		w.acknowledge(next[*belfryv1.Results](t, after))
		next[*belfryv1.Offer](t, after) // its partition still stood in line
		nothing(t, got)
		w.stop(w.worker, w.owners[1])
	})
}

func TestAPanicIsAFailedAttempt(t *testing.T) {
	w, got := stage(t, config(4, delivererFunc(func(_ context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
		panic("cannot deliver with Bearer s3cret-token")
	})))
	d := numbered(0, 1)
	d.Target = &belfryv1.Target{Kind: &belfryv1.Target_Http{Http: &belfryv1.HTTPTarget{Headers: map[string]string{"Authorization": "Bearer s3cret-token"}}}}
	w.dispatch(0, d)
	r := next[*belfryv1.Results](t, got).GetResults()[0]
	if r.GetOutcome() != failedOutcome || r.GetError() != "internal: panic: cannot deliver with ***" {
		t.Errorf("result %v", r)
	}
	w.close()
}

// poison is a message that an execution actor does not survive.
func TestAPanicInTheExecutionActorIsAFailedAttempt(t *testing.T) {
	w, got := stage(t, config(4, delivererFunc(func(ctx context.Context, _ *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
		<-ctx.Done() // cancelled when the actor is stopped
		return &belfryv1.Result{}
	})))
	w.dispatch(0, numbered(0, 1))
	child := actor.NewPID(w.worker.GetAddress(), w.worker.GetId()+"/e1")
	root := w.f.System().Root
	for { // until it is there
		if _, there := w.f.System().ProcessRegistry.Get(child); there {
			break
		}
	}
	root.Send(child, (*begin)(nil)) // reads through nil
	r := next[*belfryv1.Results](t, got).GetResults()[0]
	if r.GetOutcome() != failedOutcome || !strings.HasPrefix(r.GetError(), "internal: panic: ") || r.GetExecutionId() != "p0-1" {
		t.Errorf("result %v", r)
	}
	w.dispatch(0, numbered(0, 1)) // the worker goes on
	next[*belfryv1.Results](t, got)
	w.close()
}

// A panic of the worker itself loses one message: what it held is still
// reported, what ran is unknown, and later work is taken.
func TestTheWorkerRestartsWithWhatItHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(3, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			if d.GetExecutionId() == "p0-2" {
				<-ctx.Done()
			}
			return success(ctx, d, 0, nil)
		})))
		w.dispatch(0, numbered(0, 1), numbered(0, 2))
		next[*belfryv1.Results](t, got)
		w.f.System().Root.Send(w.worker, (*ended)(nil)) // reads through nil
		seen := map[string]belfryv1.Result_Outcome{}
		for len(seen) < 2 {
			rs := next[*belfryv1.Results](t, got)
			for _, r := range rs.GetResults() {
				seen[r.GetExecutionId()] = r.GetOutcome()
			}
			w.acknowledge(rs)
		}
		if seen["p0-1"] != succeededOutcome || seen["p0-2"] != unknownOutcome {
			t.Errorf("results %v", seen)
		}
		w.dispatch(0, batch(0, 10, 3)...)
		for n := 0; n < 3; {
			n += len(next[*belfryv1.Results](t, got).GetResults())
		}
		w.close()
	})
}

func TestAWorkerThatAlwaysPanicsIsGivenUpAndReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reported := make(chan any, 1)
		cfg := config(3, delivererFunc(success))
		cfg.Stopped = func(reason any) { reported <- reason }
		w, _ := stage(t, cfg)
		for range actors.Worker.OnPanic.Restarts + 1 {
			w.f.System().Root.Send(w.worker, (*ended)(nil))
		}
		if reason := <-reported; reason == nil {
			t.Error("no reason")
		}
		synctest.Wait()
		if _, there := w.f.System().ProcessRegistry.Get(w.worker); there {
			t.Error("it is still there")
		}
		w.stop(w.owners...)
	})
}

func TestDrainLetsCallsFinish(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(4, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			time.Sleep(3 * time.Second) // of the bubble's clock
			return success(ctx, d, 0, nil)
		})))
		w.dispatch(0, numbered(0, 1))
		synctest.Wait()
		type answer struct {
			left int
			err  error
			took time.Duration
		}
		done := make(chan answer)
		start := time.Now()
		go func() {
			left, err := Drain(w.f.System(), w.worker, time.Minute)
			done <- answer{left, err, time.Since(start)}
		}()
		synctest.Wait()
		w.dispatch(0, numbered(0, 2))
		next[*belfryv1.Busy](t, got)
		w.acknowledge(next[*belfryv1.Results](t, got))
		if a := <-done; a.left != 0 || a.err != nil || a.took != 3*time.Second {
			t.Errorf("drained: %+v", a)
		}
		time.Sleep(time.Minute) // of the bubble's clock
		nothing(t, got)         // no offer
		w.close()
	})
}

func TestDrainCutsWhatDoesNotFinish(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(4, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			<-ctx.Done()
			return &belfryv1.Result{Outcome: unknownOutcome, Error: context.Cause(ctx).Error()}
		})))
		w.dispatch(0, numbered(0, 1), numbered(0, 2))
		synctest.Wait()
		start := time.Now()
		done := make(chan int)
		go func() {
			left, _ := Drain(w.f.System(), w.worker, 5*time.Second)
			done <- left
		}()
		rs := next[*belfryv1.Results](t, got)
		if r := rs.GetResults()[0]; r.GetOutcome() != unknownOutcome || r.GetError() != errCut.Error() || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), r)
		}
		rs.Results = rs.Results[:1:1]
		w.acknowledge(rs) // only one of the two
		if left := <-done; left != 1 {
			t.Errorf("%d left, want the one that nobody acknowledged", left)
		}
		w.close()
	})
}

// A panic during a drain cuts what ran; who waits for the drain is answered all
// the same.
func TestADrainOutlivesAPanic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(4, delivererFunc(func(ctx context.Context, _ *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			<-ctx.Done()
			return &belfryv1.Result{Outcome: unknownOutcome}
		})))
		w.dispatch(0, numbered(0, 1))
		synctest.Wait()
		start := time.Now()
		done := make(chan int)
		go func() {
			left, err := Drain(w.f.System(), w.worker, time.Minute)
			if err != nil {
				t.Error(err)
			}
			done <- left
		}()
		synctest.Wait()
		w.f.System().Root.Send(w.worker, (*ended)(nil)) // reads through nil
		w.acknowledge(next[*belfryv1.Results](t, got))
		if left := <-done; left != 0 || time.Since(start) > time.Second {
			t.Errorf("after %v %d are left", time.Since(start), left)
		}
		w.dispatch(0, numbered(0, 2))
		next[*belfryv1.Busy](t, got) // it is drained still
		w.close()
	})
}

func TestDrainWithoutAWorker(t *testing.T) {
	f := factory(nil)
	if _, err := Drain(f.System(), actor.NewPID(f.System().Address(), "nobody"), time.Millisecond); !errors.Is(err, actor.ErrDeadLetter) {
		t.Errorf("err = %v", err)
	}
}

// Stopping the worker cancels every call.
func TestStoppingTheWorkerStopsItsCalls(t *testing.T) {
	var running atomic.Int32
	begun, cancelled := make(chan struct{}, 10), make(chan struct{}, 10)
	w, _ := stage(t, config(10, delivererFunc(func(ctx context.Context, _ *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
		running.Add(1)
		begun <- struct{}{}
		<-ctx.Done()
		cancelled <- struct{}{}
		return &belfryv1.Result{}
	})))
	w.dispatch(0, batch(0, 0, 10)...)
	for range 10 {
		<-begun
	}
	w.close()
	for range 10 {
		<-cancelled
	}
}

func TestConfigNamesTheWrongField(t *testing.T) {
	good := config(1, delivererFunc(success))
	good.Owner, good.Log, good.Metrics = func(int32) *actor.PID { return nil }, silent, NewMetrics(nil)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Config){
		"Slots": func(c *Config) { c.Slots = 0 }, "Resend": func(c *Config) { c.Resend = 0 }, "OfferFor": func(c *Config) { c.OfferFor = -1 },
		"Owner": func(c *Config) { c.Owner = nil }, "Deliverer": func(c *Config) { c.Deliverer = nil }, "Metrics": func(c *Config) { c.Metrics = nil }, "Log": func(c *Config) { c.Log = nil },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := NewWorker(factory(nil), c); err == nil {
			t.Errorf("%s: a worker was made", field)
		}
	}
}
