package partition

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// newReady is a world without a worker in which n executions wait, with so many
// bytes in their bodies.
func newReady(t *testing.T, n, bytes int) *world {
	w := newWorld(t)
	w.sends = &[]Send{}
	w.step(Workers{})
	w.unchecked = true // for speed
	for i, id := range idsOf(w, n/perJob+1) {
		w.register(id, "0 0 1 1 *", func(s *job.Spec) {
			s.MaxOutstanding = perJob + 1
			s.Target.HTTP.Method, s.Target.HTTP.Body = "POST", make([]byte, bytes)
		})
		for range min(n-i*perJob, perJob) {
			w.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
			w.advance(time.Millisecond)
		}
	}
	w.unchecked = false
	if got := w.state.lanes.n; got != n {
		t.Fatalf("%d executions wait", got)
	}
	return w
}

const perJob = 50

// idsOf are jobs of the world's partition, "a" the first.
func idsOf(w *world, n int) []string {
	ids := []string{"a"}
	for i := 0; len(ids) < n; i++ {
		if id := fmt.Sprint("j", i); job.PartitionOf(id, w.cfg.Partitions) == w.cfg.Partition {
			ids = append(ids, id)
		}
	}
	return ids
}

// inDispatches are the executions of messages, in order.
func inDispatches(sends []Send) (ids []string) {
	for _, e := range sends {
		for _, x := range e.Dispatch.GetDeliveries() {
			ids = append(ids, x.GetExecutionId())
		}
	}
	return ids
}

func refsOf(d *belfryv1.Dispatch) (refs []*belfryv1.DeliveryRef) {
	for _, x := range d.GetDeliveries() {
		refs = append(refs, &belfryv1.DeliveryRef{ExecutionId: x.GetExecutionId(), Attempt: x.GetAttempt()})
	}
	return refs
}

// TestDispatchesFitATransport: the first time, repeated, and in answer to an
// offer.
func TestDispatchesFitATransport(t *testing.T) {
	const n = 100
	w := newReady(t, n, job.MaxBody)
	check := func(what string) {
		t.Helper()
		for _, e := range *w.sends {
			if size := proto.Size(e.Dispatch); size > sendBytes*11/10 {
				t.Errorf("%s: %d deliveries in %d bytes", what, len(e.Dispatch.GetDeliveries()), size)
			}
		}
		if got := len(inDispatches(*w.sends)); got != n {
			t.Errorf("%s: %d deliveries", what, got)
		}
		if most := n*job.MaxBody/sendBytes + 2; len(*w.sends) > most {
			t.Errorf("%s: %d messages", what, len(*w.sends))
		}
		*w.sends = nil
	}
	w.step(Workers{List: []Worker{{ID: "r1", Remote: true}}})
	check("sent")
	w.advance(w.cfg.Confirm)
	check("repeated")
	w.step(Workers{List: []Worker{{ID: "r2", Draining: true}}})
	w.step(Workers{List: []Worker{{ID: "r2"}}})
	check("offered to another")

	w = newReady(t, n, job.MaxBody)
	w.step(Workers{List: []Worker{{ID: "r1", Draining: true}}})
	w.state.workers[0].Draining = false
	w.step(Offered{From: "r1", ID: 1, Slots: n})
	check("in answer to an offer")
}

// TestGivenBackInDueOrder: chunk after chunk comes back, the first one first.
func TestGivenBackInDueOrder(t *testing.T) {
	w := newReady(t, 2*sendChunk+100, 0)
	w.step(Workers{List: []Worker{{ID: "r1"}}})
	first := *w.sends
	*w.sends = nil
	if len(first) != 3 {
		t.Fatalf("%d messages", len(first))
	}
	for _, e := range first {
		w.step(Busied{From: "r1", Number: e.Dispatch.GetNumber(), Deliveries: refsOf(e.Dispatch)})
	}
	w.trigger()
	w.advance(time.Duration(offerWait) * time.Millisecond)
	if got, want := inDispatches(*w.sends), inDispatches(first); !slices.Equal(got[:len(got)-1], want) {
		t.Errorf("sent again %v, and at first %v", got, want)
	}
}

// TestOneMessageTriesAfterALapse: while the node is not sure that it owns the
// partition not all that waits is taken, built and withheld every time.
func TestOneMessageTriesAfterALapse(t *testing.T) {
	w := newReady(t, 3*sendChunk, 0)
	w.step(Workers{List: []Worker{{ID: "r1"}}})
	for _, want := range []int{3, 1, 1} {
		sends := *w.sends
		if len(sends) != want {
			t.Fatalf("%d messages, not %d", len(sends), want)
		}
		*w.sends = nil
		for _, e := range sends {
			w.step(Withheld(e))
		}
		if len(*w.sends) > 0 {
			t.Fatal("sent again at once")
		}
		w.advance(time.Duration(withheldPause) * time.Millisecond)
	}
	if len(*w.sends) != 1 {
		t.Fatalf("%d messages", len(*w.sends))
	}
	w.advance(time.Duration(withheldPause) * time.Millisecond)
	if ids := inDispatches(*w.sends); len(*w.sends) != 3 || len(ids) != 3*sendChunk {
		t.Errorf("%d messages with %d deliveries", len(*w.sends), len(ids))
	}
}
