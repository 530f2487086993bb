package check

import (
	"slices"
	"testing"
	"time"
)

// TestQuietOnCleanHistories: where nothing is wrong nothing is found, whatever
// faults there were.
func TestQuietOnCleanHistories(t *testing.T) {
	repeats := 0
	for seed := range uint64(200) {
		h := tell(seed)
		if found := h.Check(); len(found) > 0 {
			t.Fatalf("seed %d: %s", seed, Text(found))
		}
		repeats += h.Repeats()
	}
	if repeats < 200 {
		t.Errorf("%d repeats in 200 histories: they are too clean", repeats)
	}
}

// TestFastOwner: what an owner sends whose clock is fast, and not yet wrong, may be
// early by that.
func TestFastOwner(t *testing.T) {
	for seed := range uint64(20) {
		h := tell(seed)
		i := slices.IndexFunc(h.Receipts, calm)
		x := &h.Receipts[i]
		h.Faults = append(h.Faults, Fault{Kind: Skewed, Node: newChecker(h).ownerOf(*x), At: x.Received.Add(-time.Second), End: x.Received.Add(time.Second), Ahead: 500 * time.Millisecond})
		x.Received = x.ScheduledFor.Add(-400 * time.Millisecond)
		if found := h.Check(); len(found) > 0 {
			t.Errorf("seed %d: %s", seed, Text(found))
		}
	}
}

// TestChanges: a change of owner costs what it kept waiting the longest, not what
// came first. Repeats, what was due later, and what follows a kill are not its.
func TestChanges(t *testing.T) {
	h := History{Recovery: 8 * time.Second, Faults: []Fault{
		{Kind: Restarted, Node: "n1", At: at(1), End: at(6)},
		{Kind: Killed, Node: "n2", At: at(30), End: at(30)},
	}}
	receive := func(execution string, epoch int64, due, came float64) {
		h.Receipts = append(h.Receipts, Receipt{Execution: execution, Job: "j", Epoch: epoch, ScheduledFor: at(due), Received: at(came)})
	}
	receive("a", 1, 1, 1.001)
	receive("b", 2, 2.4, 2.5)
	receive("c", 2, 2.1, 2.6)
	receive("a", 2, 1, 2.65)
	receive("d", 2, 2.55, 3)
	receive("e", 4, 20, 20.002)
	receive("f", 5, 31, 33)
	receive("g", 5, 32.9, 34)
	receive("h", 6, 40, 40.3)
	want := []time.Duration{500 * time.Millisecond, 2 * time.Millisecond, 300 * time.Millisecond}
	if got := h.Changes(); !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestResumedWithCatchUp: slots of a pause run when it ends with a catch-up, and
// not else.
func TestResumedWithCatchUp(t *testing.T) {
	for _, catchUp := range []bool{true, false} {
		h := History{Records: map[string][]Record{}, Jobs: []Job{{ID: "j", Until: at(9), Ops: []Op{
			{Verb: Register, Schedule: Interval{First: at(0), Every: 2 * time.Second}},
			{Verb: Pause, Call: at(3), Return: at(3.1)},
			{Verb: Resume, Call: at(7), Return: at(7.1), CatchUp: catchUp},
		}}}}
		for _, slot := range []float64{0, 2, 4, 6, 8} {
			id := idOf("j", "1", at(slot))
			came := max(slot, 7.2)
			h.Records["j"] = append(h.Records["j"], Record{ExecutionID: id, ScheduledFor: at(slot), Status: "succeeded", AttemptCount: 1})
			h.Receipts = append(h.Receipts, Receipt{Execution: id, Job: "j", Key: id, ScheduledFor: at(slot), Attempt: 1, Received: at(came), Answered: at(came), Status: 200})
		}
		found := h.Check()
		ruled := slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == "C7" })
		if catchUp && len(found) > 0 || !catchUp && !ruled {
			t.Errorf("catch-up %t: %s", catchUp, Text(found))
		}
	}
}
