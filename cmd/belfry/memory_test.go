package main

import "testing"

func TestHeapGrowsByHalfOrAFixedAmount(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 10 << 20: 400, 128 << 20: 200, 256 << 20: 100, 512 << 20: 50, 8 << 30: 50} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MB live: %d %%, not %d %%", live>>20, got, want)
		}
	}
	if liveHeap() > 1<<40 {
		t.Error("the live heap cannot be read")
	}
}
