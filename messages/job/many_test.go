package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Several schedules, with dates left out, against every minute that passes: each
// expression is judged by itself, the slots are put together, and those on an
// excluded date of the wall clock are taken away.
func TestManyAgreeWithEveryMinute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		loc := oracleLocation(t)
		from := drawInstant(t, loc, 40*time.Hour)
		checkMany(t, loc, from, from.Add(80*time.Hour), time.Minute, 30*time.Hour, false)
	})
}

func TestManyAgreeWithEverySecond(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		loc := oracleLocation(t)
		from := drawInstant(t, loc, 90*time.Minute)
		checkMany(t, loc, from, from.Add(100*time.Minute), time.Second, 4*time.Hour, true)
	})
}

func checkMany(t *rapid.T, loc *time.Location, from, to time.Time, step, lead time.Duration, seconds bool) {
	gap := rapid.SampledFrom([]GapRule{GapRunAfter, GapSkip}).Draw(t, "gap")
	fold := rapid.SampledFrom([]FoldRule{FoldFirst, FoldBoth}).Draw(t, "fold")
	timing := Timing{Seconds: seconds, Zone: loc.String(), Gap: gap, Fold: fold}
	due, text := map[time.Time]bool{}, ""
	for i := range rapid.IntRange(1, 3).Draw(t, "expressions") {
		switch expr := drawExpr(t, seconds); {
		case i == 0 || rapid.IntRange(0, 3).Draw(t, "kind") > 0:
			if expr.neverMatches() {
				return
			}
			text = expr.text()
			for _, at := range expr.slots(loc, gap, fold, from, to, step, lead) {
				due[at.UTC()] = true
			}
		default:
			at := from.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(to.Sub(from))).Draw(t, "instant"))).Truncate(step).UTC()
			text = at.Format(time.RFC3339)
			if at.After(from) && !at.After(to) {
				due[at] = true
			}
		}
		if i == 0 {
			timing.Expr = text
		} else {
			timing.Exprs = append(timing.Exprs, text)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "excluded") {
		day := from.Add(time.Duration(rapid.IntRange(-1, 4).Draw(t, "day")) * 24 * time.Hour).In(loc)
		timing.Exclude = append(timing.Exclude, DayOf(date(day.Year(), int(day.Month()), day.Day())))
	}
	s, err := Compile(timing)
	if err != nil {
		t.Fatalf("%+v: %v", timing, err)
	}
	var want []time.Time
	for at := range due {
		l := at.In(loc)
		if !slices.Contains(timing.Exclude, DayOf(date(l.Year(), int(l.Month()), l.Day()))) {
			want = append(want, at)
		}
	}
	slices.SortFunc(want, time.Time.Compare)
	at := from
	for i, w := range want {
		next, ok := s.Next(at)
		if !ok || !next.Equal(w) {
			t.Fatalf("%+v: slot %d after %v is %v, want %v", timing, i, at, next, w)
		}
		at = next
	}
	if next, ok := s.Next(at); ok && !next.After(to) {
		t.Fatalf("%+v: %v is due as well", timing, next)
	}
	checkMissed(t, s, from, to, want)
	checkNth(t, s, from, want)
}

// checkNth: the n-th slot, and a schedule that ends with it.
func checkNth(t *rapid.T, s *Schedule, from time.Time, want []time.Time) {
	if len(want) == 0 {
		return
	}
	n := rapid.IntRange(1, len(want)).Draw(t, "n")
	last := s.Nth(from, int64(n))
	if !last.Equal(want[n-1]) {
		t.Fatalf("slot %d is %v, want %v", n, last, want[n-1])
	}
	ends := s.Until(last)
	if got := ends.Count(from, want[len(want)-1]); got != int64(n) {
		t.Fatalf("%d slots until the %d-th", got, n)
	}
	if next, ok := ends.Next(last); ok {
		t.Fatalf("after the last slot %v comes %v", last, next)
	}
}

// A date that a change of the clock begins again is left out both times.
func TestExcludeAtAChangeOfTheClock(t *testing.T) {
	day := func(text string) Day {
		d, ok := ParseDay(text)
		if !ok {
			t.Fatal(text)
		}
		return d
	}
	// In St. John's clocks went back from 00:01 to 23:01 until 2011.
	s := compile(t, Timing{Expr: "*/30 * * * *", Zone: "America/St_Johns", Exclude: []Day{day("2010-11-06")}})
	checkSeries(t, s, instant(t, "2010-11-06T02:00:00Z"), []time.Time{
		instant(t, "2010-11-06T02:30:00Z").Add(24 * time.Hour), // 00:00 on the 7th, the first time
		instant(t, "2010-11-07T03:30:00Z"),                     // 00:00 on the 7th again
	})
	// Samoa had no 30 December 2011.
	s = compile(t, Timing{Expr: "0 12 * * *", Zone: "Pacific/Apia", Exclude: []Day{day("2011-12-30")}})
	checkSeries(t, s, instant(t, "2011-12-29T00:00:00Z"), []time.Time{instant(t, "2011-12-29T22:00:00Z"), instant(t, "2011-12-30T10:00:00Z")})
	// An interval is left out on a date of the zone as well.
	s = compile(t, Timing{Expr: "@every 12h", Zone: "Asia/Tokyo", StartsAt: date(2026, 1, 1), Exclude: []Day{day("2026-01-01")}})
	checkSeries(t, s, date(2025, 1, 1), []time.Time{date(2026, 1, 2), date(2026, 1, 2).Add(12 * time.Hour)})
	for _, bad := range []string{"", "2026-13-01", "2026-1-1", "2026-02-30", "20260101", "2026-01-01T00:00:00Z", " 2026-01-01"} {
		if d, ok := ParseDay(bad); ok {
			t.Errorf("%q is %v", bad, d)
		}
	}
}

// A year of ten expressions is counted and not walked.
func BenchmarkMissedMany(b *testing.B) {
	timing := Timing{Expr: "* * * * * *", Seconds: true, Zone: "America/New_York"}
	for n := range 9 {
		timing.Exprs = append(timing.Exprs, fmt.Sprintf("*/%d %d * * * *", n+2, n))
	}
	s, from := compile(b, timing), date(2026, 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if m := s.Missed(from, from.AddDate(1, 0, 0), 10); m.Count != 365*86_400 {
			b.Fatal(m.Count)
		}
	}
}

// Around every change of the clock of a year, what is counted is what a walk
// finds, from every quarter of an hour to every other.
func TestManyAreCountedAcrossChangesOfTheClock(t *testing.T) {
	t.Parallel()
	for _, exprs := range [][]string{
		{"30 1 * * *", "45 1,2 * * *"}, {"*/30 * * * *", "30 0-3 * * *"}, {"0 0 * * *", "15 * * * *", "30 2 * * *"}, {"45 23 * * *", "0 1 L * *", "0 0 1 * *"},
	} {
		for _, zone := range []string{"America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo", "America/Santiago"} {
			for _, fold := range []FoldRule{FoldFirst, FoldBoth} {
				s := compile(t, Timing{Expr: exprs[0], Exprs: exprs[1:], Zone: zone, Fold: fold})
				for i := 1; i < len(s.zone.spans); i++ {
					change := time.Unix(s.zone.spans[i].from, 0)
					if change.Year() != 2026 {
						continue
					}
					start, end := change.Add(-5*time.Hour), change.Add(5*time.Hour)
					for from := start; from.Before(end); from = from.Add(15 * time.Minute) {
						n := int64(0)
						for to := from; to.Before(end); to = to.Add(15 * time.Minute) {
							if s.Has(to) && to.After(from) {
								n++
							}
							if got := s.Count(from, to); got != n {
								t.Fatalf("%q in %s, fold %s: %d slots in (%v, %v], want %d", exprs, zone, fold, got, from.UTC(), to.UTC(), n)
							}
						}
					}
				}
			}
		}
	}
}
