package job

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Jitter is stable, less than what was asked for, and leaves the order of a job's
// slots alone, also at changes of the clock.
func TestJitterKeepsTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		loc := oracleLocation(t)
		at := drawInstant(t, loc, 30*time.Hour)
		timing := Timing{Expr: drawExpr(t, false).text(), Zone: loc.String(), Jitter: time.Duration(rapid.Int64Range(1, 86_400_000).Draw(t, "ms")) * time.Millisecond}
		s, err := Compile(timing)
		if err != nil {
			return
		}
		id, before := rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "id"), time.Time{}
		for range 50 {
			slot, ok := s.Next(at)
			if !ok {
				return
			}
			due := s.Due(id, slot)
			if due.Before(slot) || due.Sub(slot) >= timing.Jitter || !due.Equal(s.Due(id, slot)) || !due.After(before) {
				t.Fatalf("%+v: the slot %v is due at %v, after %v", timing, slot, due, before)
			}
			if next, ok := s.Next(slot); ok && !due.Before(next) {
				t.Fatalf("%+v: the slot %v is due at %v, and the next slot is %v", timing, slot, due, next)
			}
			at, before = slot, due
		}
	})
}

func TestJitterSpreads(t *testing.T) {
	s := compile(t, Timing{Expr: "@daily", Jitter: time.Hour})
	minutes := map[int]int{}
	for n := range 6000 {
		minutes[int(s.Due(fmt.Sprintf("job-%d", n), date(2026, 1, 1)).Sub(date(2026, 1, 1))/time.Minute)]++
	}
	for m := range 60 {
		if n := minutes[m]; n < 50 || n > 160 {
			t.Errorf("minute %d has %d of 6000 jobs", m, n)
		}
	}
	if plain := compile(t, Timing{Expr: "@daily"}); !plain.Due("x", date(2026, 1, 1)).Equal(date(2026, 1, 1)) {
		t.Error("a slot is moved without a jitter")
	}
}
