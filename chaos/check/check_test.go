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
