package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/messages/job"
)

func TestOwnersNoteTheFirstDeliveryOfEach(t *testing.T) {
	t.Parallel()
	o := newOwners(16)
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	arrive := func(epoch int64, due, received int) {
		o.record(Receipt{JobID: "a", ScheduledFor: at(due).Format(time.RFC3339Nano), Epoch: epoch, At: at(received)})
	}
	arrive(4, 0, 1)
	arrive(4, 100, 101)
	arrive(5, 200, 350)
	arrive(5, 300, 351)
	arrive(4, 150, 352) // accepted before
	arrive(7, 400, 401)
	p := job.PartitionOf("a", 16)
	of := map[int32]bool{p: true}
	same := cmp.AllowUnexported(change{})
	if diff := cmp.Diff(map[int32]change{p: {p, at(350), 150 * time.Millisecond}}, o.since(at(200), of), same); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[int32]change{p: {p, at(401), time.Millisecond}}, o.since(at(350), of), same); diff != "" {
		t.Error(diff)
	}
	if got := o.since(at(0), map[int32]bool{p + 1: true}); len(got) > 0 {
		t.Errorf("another partition: %v", got)
	}
}
