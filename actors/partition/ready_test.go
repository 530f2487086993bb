package partition

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

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
	if got := len(w.state.ready.flights); got != n {
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

// TestDeliveryLargerThanAMessage goes alone.
func TestDeliveryLargerThanAMessage(t *testing.T) {
	f := &flight{bytes: 2 * sendBytes, phase: queued, id: "a"}
	r := readyList{added: []*flight{f, {bytes: 1, phase: queued, id: "b"}}}
	for _, want := range []string{"a", "b"} {
		if got := r.take(sendChunk); len(got) != 1 || got[0].id != want {
			t.Fatalf("%d flights", len(got))
		}
	}
}

// TestReadyList: whatever is added, removed and taken, the oldest that are wanted
// come first.
func TestReadyList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r readyList
		var model []*flight
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
			case what == 0 && len(model) > 0:
				k := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				r.remove(model[k])
				model = slices.Delete(model, k, k+1)
			case what == 1 && len(model) > 0: // decided meanwhile
				k := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				model[k].phase = judged
				model = slices.Delete(model, k, k+1)
			case what == 2:
				slices.SortFunc(model, inDueOrder)
				n := min(rapid.IntRange(0, 5).Draw(t, "n"), len(model))
				if got := r.take(n); !slices.Equal(got, model[:n]) {
					t.Fatalf("took %v, want %v", got, model[:n])
				}
				model = model[n:]
			case what == 3:
				r.order()
			default:
				f := &flight{id: fmt.Sprint(i), due: int64(rapid.IntRange(0, 9).Draw(t, "due")), bytes: 1, phase: queued}
				r.push(f)
				model = append(model, f)
			}
		}
	})
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
		w.step(Busied{"r1", e.Dispatch.GetNumber(), refsOf(e.Dispatch)})
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
	if ids := inDispatches(*w.sends); len(*w.sends) != 3 || len(ids) != 3*sendChunk || !slices.IsSorted(dues(w, ids)) {
		t.Errorf("%d messages with %d deliveries", len(*w.sends), len(ids))
	}
}

func dues(w *world, ids []string) (at []int64) {
	for _, id := range ids {
		at = append(at, w.state.running[id].sendAt())
	}
	return at
}
