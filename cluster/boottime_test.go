package cluster

import (
	"testing"
	"time"
)

func TestBoottimeRuns(t *testing.T) {
	last := Boottime()
	if last <= 0 {
		t.Fatalf("it is %s, want more than 0", last)
	}
	first, begun := last, time.Now()
	for time.Since(begun) < 2*time.Millisecond {
		now := Boottime()
		if now < last {
			t.Fatalf("it went back from %s to %s", last, now)
		}
		last = now
	}
	if ran := Boottime() - first; ran < 2*time.Millisecond {
		t.Errorf("it ran %s in more than 2 ms", ran)
	}
}

func BenchmarkBoottime(b *testing.B) {
	for b.Loop() {
		Boottime()
	}
}
