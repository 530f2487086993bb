package execution

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestAHangingHostKeepsHalfOfTheSlots: the other half is there for other hosts,
// and what the first takes is offered when one of its calls ends.
func TestAHangingHostKeepsHalfOfTheSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hang := make(chan struct{})
		w, got := stage(t, config(8, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, epoch int64, may func() bool) *belfryv1.Result {
			if strings.Contains(d.GetTarget().GetHttp().GetUrl(), "hangs") {
				<-hang
			}
			return success(ctx, d, epoch, may)
		})))
		var ds []*belfryv1.Delivery
		for n := range 10 {
			ds = append(ds, at(numbered(0, n), "hangs"))
		}
		w.dispatch(0, append(ds, at(numbered(0, 10), "fine"), at(numbered(0, 11), "fine"))...)
		busy := next[*belfryv1.Busy](t, got)
		if busy.GetHost() != "hangs" || busy.GetReason() != concurrency || len(busy.GetDeliveries()) != 6 {
			t.Fatalf("busy %v", busy)
		}
		for ended := 0; ended < 2; {
			r := next[*belfryv1.Results](t, got)
			ended += len(r.GetResults())
			w.acknowledge(r)
		}
		nothing(t, got)
		hang <- struct{}{}
		w.acknowledge(next[*belfryv1.Results](t, got))
		offer := next[*belfryv1.Offer](t, got)
		if offer.GetHost() != "hangs" || offer.GetSlots() != 1 {
			t.Fatalf("offer %v", offer)
		}
		w.dispatch(offer.GetId(), ds[4])
		nothing(t, got)
		w.dispatch(0, ds[5]) // unasked
		if busy := next[*belfryv1.Busy](t, got); len(busy.GetDeliveries()) != 1 || busy.GetHost() != "hangs" {
			t.Errorf("busy %v", busy)
		}
		close(hang)
		w.close()
	})
}

// TestACircuitOpensAndCloses: what comes meanwhile is given back with the reason,
// one partition is offered the probes, and whoever watches is told.
func TestACircuitOpensAndCloses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []string
		down := true
		cfg := config(64, delivererFunc(func(ctx context.Context, d *belfryv1.Delivery, epoch int64, may func() bool) *belfryv1.Result {
			if down {
				return &belfryv1.Result{Outcome: failedOutcome, Error: "connection refused", Unavailable: true}
			}
			return success(ctx, d, epoch, may)
		}))
		cfg.Publish = func(e *belfryv1.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e.GetType()+" "+e.GetHost())
		}
		w, got := stage(t, cfg)
		var ds []*belfryv1.Delivery
		for n := range 30 {
			ds = append(ds, at(numbered(0, n), "h"))
		}
		for ended := 0; ended < 10; {
			w.dispatch(0, ds[ended])
			r := next[*belfryv1.Results](t, got)
			ended += len(r.GetResults())
			w.acknowledge(r)
		}
		opened := time.Now()
		w.dispatch(0, ds[10:]...)
		busy := next[*belfryv1.Busy](t, got)
		if busy.GetReason() != circuitOpen || busy.GetSince() != opened.UnixMilli() || busy.GetRetryInMs() < 10_000 || len(busy.GetDeliveries()) != 20 {
			t.Fatalf("busy %v", busy)
		}
		down = false
		offer := next[*belfryv1.Offer](t, got)
		if since := time.Since(opened); since < 10*time.Second || since > 11*time.Second || offer.GetSlots() != probes || offer.GetHost() != "h" {
			t.Fatalf("after %v: %v", since, offer)
		}
		w.dispatch(offer.GetId(), ds[10:10+probes]...)
		begun, left := probes, 20-probes
		for left > 0 {
			switch m := (<-got).(type) {
			case *belfryv1.Results:
				w.acknowledge(m)
			case *belfryv1.Offer:
				n := min(int(m.GetSlots()), left)
				w.dispatch(m.GetId(), ds[30-left:30-left+n]...)
				begun, left = begun+n, left-n
			}
		}
		if took := time.Since(opened.Add(10 * time.Second)); took < time.Second || took > 3*time.Second {
			t.Errorf("%d deliveries began within %v", begun, took)
		}
		w.close()
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(events, ", "); got != "circuit.open h, circuit.half_open h, circuit.closed h" {
			t.Error(got)
		}
	})
}

// TestWhatWasNotSentSaysNothing: a call that this node may not make is given back,
// leaves no call counted, and does not open the circuit.
func TestWhatWasNotSentSaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, got := stage(t, config(64, delivererFunc(func(context.Context, *belfryv1.Delivery, int64, func() bool) *belfryv1.Result { return nil })))
		for n := range 40 {
			w.dispatch(0, at(numbered(0, n), "h"))
			back := 0
			for back == 0 {
				if busy, given := (<-got).(*belfryv1.Busy); given {
					if busy.GetHost() != "" {
						t.Fatalf("busy %v", busy)
					}
					back += len(busy.GetDeliveries())
				}
			}
		}
		synctest.Wait()
		w.close()
	})
}
