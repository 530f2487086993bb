package wheel

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func drain[T any](w *Wheel[T], now int64) []T {
	var out []T
	for t := w.Pop(now); t != nil; t = w.Pop(now) {
		out = append(out, t.Value)
	}
	return out
}

func add(w *Wheel[string], name string, at int64) *Timer[string] {
	t := &Timer[string]{Value: name}
	w.Schedule(t, at)
	return t
}

func TestOrderOfDatesThenOfInsertion(t *testing.T) {
	w := New[string](0)
	add(w, "late", 70_000)
	add(w, "first of 5", 5)
	add(w, "zero", 0)
	add(w, "second of 5", 5)
	add(w, "middle", 4096)
	w.Schedule(add(w, "third of 5", 1), 5)
	want := []string{"zero", "first of 5", "second of 5", "third of 5", "middle", "late"}
	if diff := cmp.Diff(want, drain(w, 70_000)); diff != "" {
		t.Error(diff)
	}
	w.check(t)
}

func TestNothingIsEarlyAtAnyDistance(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()
	for shift := range 62 {
		at := now + int64(1)<<shift
		w := New[string](now)
		add(w, "x", at)
		if got := w.Pop(at - 1); got != nil {
			t.Fatalf("a timer in 2^%d ms fired 1 ms early", shift)
		}
		if next, _ := w.Next(); next > at {
			t.Fatalf("Next = %d is after the timer at %d", next, at)
		}
		if got := w.Pop(at); got == nil || got.At() != at {
			t.Fatalf("a timer in 2^%d ms did not fire at its time", shift)
		}
		w.check(t)
	}
}

func TestFarDates(t *testing.T) {
	year9999 := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMilli()
	w := New[string](time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	add(w, "end of time", math.MaxInt64)
	add(w, "year 9999", year9999)
	add(w, "before 1970", -1)
	add(w, "beginning", math.MinInt64)
	steps := []struct {
		now  int64
		want []string
	}{
		{math.MinInt64, []string{"beginning"}},
		{-2, nil},
		{0, []string{"before 1970"}},
		{year9999 - 1, nil},
		{year9999, []string{"year 9999"}},
		{math.MaxInt64 - 1, nil},
		{math.MaxInt64, []string{"end of time"}},
	}
	for _, s := range steps {
		if diff := cmp.Diff(s.want, drain(w, s.now)); diff != "" {
			t.Errorf("at %d: %s", s.now, diff)
		}
		w.check(t)
	}
}

func TestClockSteppedBack(t *testing.T) {
	const now = 1_000_000
	w := New[string](now)
	add(w, "reached", now+100_000)
	add(w, "in the wheel", now+200_000)
	if got := drain(w, now+100_000); len(got) != 1 {
		t.Fatalf("popped %q", got)
	}
	add(w, "behind b", now+50)
	add(w, "behind a", now+40)
	gone := add(w, "behind and cancelled", now+45)
	w.Cancel(gone)
	for _, s := range []struct {
		now  int64
		want []string
	}{
		{now, nil}, {now + 39, nil}, {now + 40, []string{"behind a"}}, {now + 49, nil},
		{now + 300_000, []string{"behind b", "in the wheel"}},
	} {
		if diff := cmp.Diff(s.want, drain(w, s.now)); diff != "" {
			t.Errorf("at %d: %s", s.now, diff)
		}
		w.check(t)
	}
}

// The heap is for clocks that step back: otherwise it stays empty, and the
// wheel does not run ahead of the clock.
func TestNothingIsBehindWhileTheClockRuns(t *testing.T) {
	w := New[string](0)
	for now := int64(0); now < 100_000; now += 37 {
		for w.Pop(now) != nil {
		}
		for _, in := range []int64{0, 1, 63, 64, 5000, 1 << 30} {
			add(w, "x", now+in)
		}
		if n := len(w.behind.entries); n != 0 {
			t.Fatalf("at %d there are %d timers behind", now, n)
		}
	}
}

func TestScheduleAndCancelBetweenPops(t *testing.T) {
	w := New[string](0)
	a, b, c := add(w, "a", 10), add(w, "b", 10), add(w, "c", 10)
	if got := w.Pop(10); got != a || a.Scheduled() {
		t.Fatal("a is not first, or still scheduled")
	}
	w.Cancel(b)
	w.Schedule(a, 10) // once more, now behind c
	if diff := cmp.Diff([]string{"c", "a"}, drain(w, 10)); diff != "" {
		t.Error(diff)
	}
	w.Cancel(c) // not scheduled: nothing happens
	if w.Len() != 0 {
		t.Errorf("Len = %d", w.Len())
	}
	if _, ok := w.Next(); ok {
		t.Error("an empty wheel has a next timer")
	}
	w.check(t)
}

func TestATimerIsAFieldOfItsOwner(t *testing.T) {
	type job struct {
		name  string
		timer Timer[*job]
	}
	w := New[*job](0)
	j := &job{name: "j"}
	j.timer.Value = j
	w.Schedule(&j.timer, 3)
	if allocs := testing.AllocsPerRun(100, func() {
		w.Schedule(&j.timer, 3)
		w.Schedule(w.Pop(3), 1<<40)
		w.Cancel(&j.timer)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// check holds the wheel against its invariants.
func (w *Wheel[T]) check(t interface{ Fatalf(string, ...any) }) {
	count := 0
	for level := range w.slot {
		for digit, first := range w.slot[level] {
			if (first != nil) != (w.used[level]>>digit&1 == 1) {
				t.Fatalf("bitmap and slot %d/%d disagree", level, digit)
			}
			if first == nil {
				continue
			}
			for timer := first; ; {
				count++
				l, d := place(key(timer.at), w.pos)
				if key(timer.at) < w.pos || l != level || d != digit {
					t.Fatalf("timer at %d lies in %d/%d, pos %d", timer.at, level, digit, w.pos)
				}
				if timer.next.prev != timer {
					t.Fatalf("broken ring at %d", timer.at)
				}
				if timer = timer.next; timer == first {
					break
				}
			}
		}
	}
	for i, e := range w.behind.entries {
		count++
		if e.timer.place != i+1 || e.at != e.timer.at || key(e.at) >= w.pos {
			t.Fatalf("heap entry %d is wrong", i)
		}
	}
	if count != w.len {
		t.Fatalf("Len is %d and %d are held", w.len, count)
	}
}
