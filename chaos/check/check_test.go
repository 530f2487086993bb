package check

import (
	"testing"
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
