package execution

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

func TestConfirmedWhenAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		w, got := stage(t, config(2, gate(release)))
		w.dispatch(0, numbered(0, 1))
		nothing(t, got)
		ask := &belfryv1.Dispatch{Epoch: 9, Confirm: true, Deliveries: batch(0, 1, 3)}
		for range 2 { // one held and one new, then the same again
			w.tell(w.owners[0], ask)
			begun := next[*belfryv1.Begun](t, got)
			if held := refs(begun.GetDeliveries()...); begun.GetEpoch() != 9 || len(held) != 2 || !held["p0-1"] || !held["p0-2"] {
				t.Errorf("begun %v", begun)
			}
			if busy := next[*belfryv1.Busy](t, got); !refs(busy.GetDeliveries()...)["p0-3"] {
				t.Errorf("busy %v", busy)
			}
		}
		w.tell(w.owners[0], &belfryv1.Dispatch{Epoch: 9, Confirm: true, Deliveries: batch(0, 7, 1)})
		next[*belfryv1.Busy](t, got) // nothing was begun, and that says so
		nothing(t, got)
		close(release)
		next[*belfryv1.Results](t, got)
		w.close()
	})
}

// elsewhere gives an owner of this system an address of another node.
func (w *world) elsewhere(pid *actor.PID) *actor.PID {
	w.f.System().ProcessRegistry.RegisterAddressResolver(func(far *actor.PID) (actor.Process, bool) {
		return w.f.System().ProcessRegistry.GetLocal(far.GetId())
	})
	return actor.NewPID("elsewhere:1", pid.GetId())
}

// What sat in buffers for longer than the TTL may have been sent again to
// another worker.
func TestAStampIsLookedAtWhenItIsTaken(t *testing.T) {
	const now = 1_000_000
	for name, c := range map[string]struct {
		stamp int64
		far   bool
		begun bool
	}{
		"within one process":            {0, false, true},
		"new":                           {now, true, true},
		"as old as allowed":             {now - 3000, true, true},
		"too old":                       {now - 3001, true, false},
		"too old, within one process":   {now - 3001, false, false},
		"ahead of the clock":            {now + 1, true, false},
		"of no clock":                   {-5, true, false},
		"of no clock at all":            {math.MinInt64, true, false},
		"from another node, without it": {0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cfg := config(4, delivererFunc(success))
				cfg.Stamp = func() int64 { return now }
				w, got := stage(t, cfg)
				from := w.owners[0]
				if c.far {
					from = w.elsewhere(from)
				}
				w.tell(from, &belfryv1.Dispatch{Epoch: 9, Stamp: c.stamp, Deliveries: batch(0, 1, 1)})
				if c.begun {
					w.acknowledge(next[*belfryv1.Results](t, got))
				} else {
					next[*belfryv1.Busy](t, got)
					w.tell(from, &belfryv1.Dispatch{Epoch: 9, Stamp: now, Offer: next[*belfryv1.Offer](t, got).GetId()}) // it may try again at once
				}
				nothing(t, got)
				w.close()
			})
		})
	}
}

// A Dispatch that a later one has overtaken may name what its owner has sent to
// another worker since, so that it is as if it were lost.
func TestAnOvertakenDispatchIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		made := &calls{}
		w, got := stage(t, config(4, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
			made.enter(d)
			return success(ctx, d, 0, nil)
		})))
		after := w.play(10)
		send := func(from int, epoch, number int64, n int) {
			w.tell(w.owners[from], &belfryv1.Dispatch{Epoch: epoch, Number: number, Confirm: true, Deliveries: batch(0, n, 1)})
		}
		taken := func(got inbox) {
			t.Helper()
			next[*belfryv1.Begun](t, got)
			w.acknowledge(next[*belfryv1.Results](t, got))
			nothing(t, got)
		}
		send(0, 9, 2, 1)
		taken(got)
		send(0, 9, 1, 2) // overtaken
		send(0, 9, 2, 1) // a repeat
		nothing(t, got)
		send(0, 9, 3, 3)
		taken(got)
		send(0, 9, 0, 4) // not numbered
		taken(got)
		send(0, 9, 3, 5)
		nothing(t, got)
		send(1, 10, 1, 6) // each epoch counts anew
		taken(after)
		if len(made.of) != 4 || made.of[ref{"p0-1", 1}] != 1 {
			t.Errorf("made %v", made.of)
		}
		w.close()
	})
}

// What is given back is given back under the newest Dispatch that named it: the
// owner ignores a Busy of an earlier one. To an owner that never sent it, it is
// given back under no number.
func TestGivenBackUnderTheNewestNumber(t *testing.T) {
	for name, c := range map[string]struct {
		then   any
		from   int
		number int64
	}{
		"as sent":          {then: nil, from: 0, number: 5},
		"sent again":       {then: &belfryv1.Dispatch{Epoch: 9, Number: 6, Deliveries: batch(0, 1, 1)}, from: 0, number: 6},
		"adopted":          {then: &belfryv1.Inquire{Epoch: 10}, from: 1, number: 0},
		"sent by the next": {then: &belfryv1.Dispatch{Epoch: 10, Number: 2, Deliveries: batch(0, 1, 1)}, from: 1, number: 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				refuse := make(chan struct{})
				w, old := stage(t, config(4, delivererFunc(func(context.Context, *belfryv1.Delivery, int64, func() bool) *belfryv1.Result {
					<-refuse
					return nil
				})))
				inboxes := []inbox{old, w.play(10)}
				w.tell(w.owners[0], &belfryv1.Dispatch{Epoch: 9, Number: 5, Deliveries: batch(0, 1, 1)})
				if c.then != nil {
					w.tell(w.owners[c.from], c.then)
				}
				synctest.Wait()
				if _, ok := c.then.(*belfryv1.Inquire); ok {
					next[*belfryv1.Holds](t, inboxes[c.from])
				}
				close(refuse)
				if busy := next[*belfryv1.Busy](t, inboxes[c.from]); busy.GetNumber() != c.number || busy.GetEpoch() != int64(9+c.from) || len(busy.GetDeliveries()) != 1 {
					t.Errorf("busy %v", busy)
				}
				w.close()
			})
		})
	}
}

func TestTheClockOfStampsMoves(t *testing.T) {
	stamp := DefaultConfig().Stamp
	if now := stamp(); now <= 0 || !fresh(now, stamp(), 3000) {
		t.Errorf("%d ms", now)
	}
}

// beats is a Lease that a test breaks and renews.
type beats struct {
	off    atomic.Bool
	breaks atomic.Int32
}

func (b *beats) stop()  { b.off.Store(true) }
func (b *beats) start() { b.breaks.Add(1); b.off.Store(false) }

func (b *beats) lease() func() bool {
	since := b.breaks.Load()
	return func() bool { return !b.off.Load() && b.breaks.Load() == since }
}

// A process that was stopped for longer than the TTL, and goes on, is alive
// again before the calls that it was about to make notice anything.
func TestWhatWasTakenBeforeABreakIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		alive, dialled, made := &beats{}, make(chan struct{}), &calls{}
		cfg := config(4, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, may func() bool) *belfryv1.Result {
			<-dialled
			if !may() {
				return nil
			}
			made.enter(d)
			return success(ctx, d, 0, nil)
		}))
		cfg.Lease = alive.lease
		w, got := stage(t, cfg)
		w.dispatch(0, batch(0, 1, 1)...)
		synctest.Wait()
		alive.stop()
		alive.start()
		w.dispatch(0, batch(0, 2, 1)...)
		synctest.Wait()
		close(dialled)
		held := map[string]bool{}
		for len(held) < 2 {
			switch m := (<-got).(type) {
			case *belfryv1.Busy:
				held[m.GetDeliveries()[0].GetExecutionId()+" back"] = true
			case *belfryv1.Results:
				held[m.GetResults()[0].GetExecutionId()+" made"] = true
				w.acknowledge(m)
			}
		}
		if !held["p0-1 back"] || !held["p0-2 made"] || len(made.of) != 1 {
			t.Errorf("%v, made %v", held, made.of)
		}
		w.close()
	})
}

// A node whose beats stand still begins nothing, gives back what it has begun
// and not sent, and offers nothing until it may send again.
func TestAFencedWorkerSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		alive := &beats{}
		dialled, made := make(chan struct{}), &calls{}
		first := true
		cfg := config(4, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, may func() bool) *belfryv1.Result {
			if first {
				<-dialled
				first = false
			}
			if !may() {
				return nil
			}
			made.enter(d)
			return success(ctx, d, 0, nil)
		}))
		cfg.Lease = alive.lease
		w, got := stage(t, cfg)
		w.tell(w.owners[0], &belfryv1.Dispatch{Epoch: 9, Confirm: true, Deliveries: batch(0, 1, 1)})
		next[*belfryv1.Begun](t, got)
		nothing(t, got)
		alive.stop()
		close(dialled)
		if busy := next[*belfryv1.Busy](t, got); busy.GetEpoch() != 9 || !refs(busy.GetDeliveries()...)["p0-1"] {
			t.Errorf("busy %v", busy)
		}
		w.tell(w.owners[0], &belfryv1.Dispatch{Epoch: 9, Confirm: true, Deliveries: batch(0, 1, 3)})
		if busy := next[*belfryv1.Busy](t, got); len(busy.GetDeliveries()) != 3 { // and no Begun
			t.Errorf("busy %v", busy)
		}
		w.tell(w.owners[0], &belfryv1.Inquire{Epoch: 9})
		if holds := next[*belfryv1.Holds](t, got); len(holds.GetDeliveries()) != 0 {
			t.Errorf("holds %v", holds)
		}
		time.Sleep(time.Minute) // of the bubble's clock
		nothing(t, got)
		alive.start()
		again := time.Now()
		w.dispatch(next[*belfryv1.Offer](t, got).GetId(), batch(0, 1, 3)...)
		if d := time.Since(again); d > cfg.OfferFor {
			t.Errorf("offered only after %v", d)
		}
		for n := 0; n < 3; {
			rs := next[*belfryv1.Results](t, got)
			w.acknowledge(rs)
			n += len(rs.GetResults())
		}
		nothing(t, got)
		if len(made.of) != 3 || made.of[ref{"p0-1", 1}] != 1 {
			t.Errorf("made %v", made.of)
		}
		w.close()
	})
}

// dropped is how many messages a worker has found impossible.
func dropped(m *Metrics) int { return int(testutil.ToFloat64(m.dropped)) }

func TestWhatNoOwnerSendsIsDropped(t *testing.T) {
	long := strings.Repeat("x", 300)
	one := func(change func(d *belfryv1.Delivery)) *belfryv1.Dispatch {
		d := numbered(0, 1)
		change(d)
		return &belfryv1.Dispatch{Epoch: 9, Deliveries: []*belfryv1.Delivery{d}}
	}
	for name, m := range map[string]proto.Message{
		"no such partition":        &belfryv1.Dispatch{Partition: job.MaxPartitions, Epoch: 9, Deliveries: batch(0, 1, 1)},
		"no partition at all":      &belfryv1.Dispatch{Partition: math.MinInt32, Epoch: 9},
		"no epoch":                 &belfryv1.Dispatch{Epoch: -1},
		"no delivery":              &belfryv1.Dispatch{Epoch: 9, Deliveries: []*belfryv1.Delivery{nil}},
		"no execution":             one(func(d *belfryv1.Delivery) { d.ExecutionId = "" }),
		"an endless execution":     one(func(d *belfryv1.Delivery) { d.ExecutionId = long }),
		"an endless job":           one(func(d *belfryv1.Delivery) { d.JobId = long }),
		"no attempt":               one(func(d *belfryv1.Delivery) { d.Attempt = 0 }),
		"an attempt before all":    one(func(d *belfryv1.Delivery) { d.Attempt = math.MinInt32 }),
		"inquire of no partition":  &belfryv1.Inquire{Partition: -2, Epoch: 9},
		"inquire under no epoch":   &belfryv1.Inquire{Epoch: math.MinInt64},
		"a good one, from no one":  &belfryv1.Dispatch{Epoch: 9, Deliveries: batch(0, 1, 1)},
		"an inquire, from no one":  &belfryv1.Inquire{Epoch: 9},
		"from one without address": &belfryv1.Inquire{Epoch: 9},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				made := &calls{}
				w, got := stage(t, config(4, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, _ int64, _ func() bool) *belfryv1.Result {
					made.enter(d)
					return success(ctx, d, 0, nil)
				})))
				switch {
				case strings.HasSuffix(name, "from no one"):
					w.f.System().Root.Send(w.worker, m)
				case strings.HasSuffix(name, "without address"):
					w.tell(actor.NewPID("", "x"), m)
				default:
					w.tell(w.owners[0], m)
				}
				nothing(t, got)
				if n := dropped(w.metrics); n != 1 || len(made.of) != 0 {
					t.Errorf("%d dropped, made %v", n, made.of)
				}
				w.close()
			})
		})
	}
}

// A delivery that cannot be is no reason to lose those beside it, and one
// without a target that this node knows has a result like any other.
func TestTheOthersOfADispatchAreTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(4, target(t)))
		w.dispatch(0, nil, numbered(0, 1), &belfryv1.Delivery{})
		r := next[*belfryv1.Results](t, got).GetResults()[0]
		if r.GetExecutionId() != "p0-1" || r.GetOutcome() != failedOutcome || !r.GetFinal() || dropped(w.metrics) != 1 {
			t.Errorf("%v, %d dropped", r, dropped(w.metrics))
		}
		w.close()
	})
}

// panics is how often any actor has panicked.
func (w *world) panics() (n float64) {
	all, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == "belfry_actor_panics_total" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// FuzzMessages: whatever another node sends, the worker answers the next owner.
func FuzzMessages(f *testing.F) {
	add := func(kind byte, m proto.Message, sender string) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(kind, b, sender)
	}
	actorTarget := &belfryv1.Target{Kind: &belfryv1.Target_Actor{Actor: &belfryv1.ActorTarget{}}}
	add(0, &belfryv1.Dispatch{Partition: 5, Epoch: math.MaxInt64, Offer: -1, Confirm: true, Deliveries: []*belfryv1.Delivery{
		{}, {ExecutionId: "a", Attempt: 1, TimeoutMs: math.MaxInt64}, {ExecutionId: "a", Attempt: 1, Target: &belfryv1.Target{}},
		{ExecutionId: "b", Attempt: 2, TimeoutMs: -1, Target: actorTarget, ScheduledFor: math.MinInt64},
	}}, "p5-e1")
	add(0, &belfryv1.Dispatch{Partition: -7, Stamp: math.MinInt64}, "")
	add(1, &belfryv1.Inquire{Partition: -1, Epoch: 1}, "x")
	add(2, &belfryv1.Acks{Deliveries: []*belfryv1.DeliveryRef{{}}}, "")
	add(3, &actor.DeadLetterResponse{}, "")
	f.Fuzz(func(t *testing.T, kind byte, data []byte, sender string) {
		m := []proto.Message{&belfryv1.Dispatch{}, &belfryv1.Inquire{}, &belfryv1.Acks{}, &actor.DeadLetterResponse{}}[kind%4]
		if proto.Unmarshal(data, m) != nil {
			return
		}
		http := target(t)
		cfg := config(8, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, epoch int64, may func() bool) *belfryv1.Result {
			if d.GetTarget().GetHttp() != nil {
				return success(ctx, d, epoch, may) // nothing leaves this machine
			}
			return http.Deliver(ctx, d, epoch, may)
		}))
		cfg.Perform = func(context.Context, *belfryv1.Perform) (*belfryv1.Performed, error) { return nil, nil }
		w := newWorld(t, 1, math.MaxInt, cfg)
		owner := w.play(10)
		w.tell(actor.NewPID(w.f.System().Address(), sender), m)
		w.tell(w.owners[1], &belfryv1.Inquire{Epoch: math.MaxInt64})
		for {
			if holds, ok := (<-owner).(*belfryv1.Holds); ok {
				if holds.GetEpoch() != math.MaxInt64 {
					t.Errorf("holds %v", holds)
				}
				break
			}
		}
		w.close()
		if n := w.panics(); n != 0 {
			t.Errorf("%v panics", n)
		}
	})
}
