package job

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The oracle of L, W and #: each is judged for one day, by looking at the days of
// its month.

func lastOfMonth(w time.Time) int {
	return time.Date(w.Year(), w.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// isNearest tells whether a day is, of the days from Monday to Friday of its
// month, the one nearest to another day of that month.
func isNearest(w time.Time, day int) bool {
	if day > lastOfMonth(w) {
		return false
	}
	best, distance := 0, 99
	for d := 1; d <= lastOfMonth(w); d++ {
		switch time.Date(w.Year(), w.Month(), d, 0, 0, 0, 0, time.UTC).Weekday() {
		case time.Saturday, time.Sunday:
			continue
		}
		if off := max(d-day, day-d); off < distance {
			best, distance = d, off
		}
	}
	return w.Day() == best
}

func drawMarks(t *rapid.T, name string, f *oracleField, draw func(*rapid.T) (string, func(time.Time) bool)) {
	if rapid.IntRange(0, 3).Draw(t, name+" marked") > 0 {
		return
	}
	if f.text == "*" {
		f.text, f.set = "", map[int]bool{}
	}
	for range rapid.IntRange(1, 2).Draw(t, name+" marks") {
		text, is := draw(t)
		f.text = strings.TrimPrefix(f.text+","+text, ",")
		f.marks = append(f.marks, is)
	}
}

func drawDateMark(t *rapid.T) (string, func(time.Time) bool) {
	n := rapid.IntRange(1, 31).Draw(t, "n")
	switch rapid.SampledFrom([]string{"L", "L-", "W", "LW"}).Draw(t, "date mark") {
	case "L":
		return "L", func(w time.Time) bool { return w.Day() == lastOfMonth(w) }
	case "L-":
		n = min(n, 30)
		return fmt.Sprintf("l-%d", n), func(w time.Time) bool { return w.Day()+n == lastOfMonth(w) }
	case "W":
		return fmt.Sprintf("%dW", n), func(w time.Time) bool { return isNearest(w, n) }
	}
	return "LW", func(w time.Time) bool { return isNearest(w, lastOfMonth(w)) }
}

func drawWeekdayMark(t *rapid.T) (string, func(time.Time) bool) {
	weekday, n := rapid.IntRange(0, 7).Draw(t, "weekday"), rapid.IntRange(1, 5).Draw(t, "nth")
	word := fmt.Sprint(weekday)
	if rapid.Bool().Draw(t, "named") {
		word = oracleNames["dow"][weekday%7]
	}
	is := func(w time.Time) bool { return int(w.Weekday()) == weekday%7 }
	if rapid.Bool().Draw(t, "last") {
		return word + "L", func(w time.Time) bool { return is(w) && w.Day()+7 > lastOfMonth(w) }
	}
	return fmt.Sprintf("%s#%d", word, n), func(w time.Time) bool { return is(w) && (w.Day()+6)/7 == n }
}

// Months around which windows of hours would rarely come: whole years, day by
// day.
func TestMarksAgreeWithEveryDay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := drawExpr(t, false)
		e.minute, e.hour = oracleField{text: "30", set: map[int]bool{30: true}}, oracleField{text: "12", set: map[int]bool{12: true}}
		s, err := Compile(Timing{Expr: e.text()})
		if err != nil {
			if strings.Contains(err.Error(), "can never fire") && e.neverMatches() {
				return
			}
			t.Fatalf("%q: %v", e.text(), err)
		}
		from := date(rapid.IntRange(2012, 2036).Draw(t, "year"), 1, 1)
		to := from.AddDate(3, 0, 0)
		var want []time.Time
		for at := from.Add(12*time.Hour + 30*time.Minute); at.Before(to); at = at.AddDate(0, 0, 1) {
			if e.matches(at) {
				want = append(want, at)
			}
		}
		at := from
		for i, w := range want {
			next, ok := s.Next(at)
			if !ok || !next.Equal(w) {
				t.Fatalf("%q: slot %d is %v, want %v", e.text(), i, next, w)
			}
			at = next
		}
		checkMissed(t, s, from, to, want)
	})
}

// C17 taichino/croniter PR#49, Hexagon/croner#253: the last day, and the others.
func TestCaseC17Marks(t *testing.T) {
	for _, c := range []struct {
		expr, from string
		want       string // dates, at midnight
	}{
		{"0 0 L * *", "2026-01-31T00:00:00Z", "2026-02-28 2026-03-31 2026-04-30"},
		{"0 0 L 2 *", "2026-01-31T00:00:00Z", "2026-02-28 2027-02-28 2028-02-29"},
		{"0 0 L-3 * *", "2026-01-31T00:00:00Z", "2026-02-25 2026-03-28 2026-04-27"},
		{"0 0 l,15 * *", "2026-01-31T00:00:00Z", "2026-02-15 2026-02-28 2026-03-15"},
		{"0 0 L-30 * *", "2026-01-31T00:00:00Z", "2026-03-01 2026-05-01 2026-07-01"},
		{"0 0 * * 5L", "2026-01-01T00:00:00Z", "2026-01-30 2026-02-27 2026-03-27"},
		{"0 0 * * FRIL", "2026-01-01T00:00:00Z", "2026-01-30 2026-02-27 2026-03-27"},
		{"0 0 * * 7L", "2026-01-01T00:00:00Z", "2026-01-25 2026-02-22 2026-03-29"},
		{"0 0 * * 5#2", "2026-01-01T00:00:00Z", "2026-01-09 2026-02-13 2026-03-13"},
		{"0 0 * * mon#1,mon#3", "2026-01-01T00:00:00Z", "2026-01-05 2026-01-19 2026-02-02"},
		{"0 0 * * 5#5", "2026-01-01T00:00:00Z", "2026-01-30 2026-05-29 2026-07-31"},
		{"0 0 15W * *", "2026-02-01T00:00:00Z", "2026-02-16 2026-03-16 2026-04-15"},  // Sunday, Sunday, Wednesday
		{"0 0 1W * *", "2026-07-15T00:00:00Z", "2026-08-03 2026-09-01 2026-10-01"},   // the 1st of August is a Saturday
		{"0 0 31W * *", "2026-01-31T00:00:00Z", "2026-03-31 2026-05-29 2026-07-31"},  // the 31st of May is a Sunday
		{"0 0 LW * *", "2026-01-15T00:00:00Z", "2026-01-30 2026-02-27 2026-03-31"},   // Saturday, Saturday, Tuesday
		{"0 0 13 * 5#2", "2026-01-01T00:00:00Z", "2026-01-09 2026-01-13 2026-02-13"}, // either (P-DAY)
		{"0 0 L * ?", "2026-01-01T00:00:00Z", "2026-01-31 2026-02-28 2026-03-31"},
		{"0 0 29 2 * 2026-2040", "2026-01-01T00:00:00Z", "2028-02-29 2032-02-29 2036-02-29"},
		{"0 0 1 1 * 2027,2031-2400/200", "2026-06-01T00:00:00Z", "2027-01-01 2031-01-01 2231-01-01"},
	} {
		var want []time.Time
		for _, day := range strings.Fields(c.want) {
			want = append(want, instant(t, day+"T00:00:00Z"))
		}
		checkSeries(t, compile(t, Timing{Expr: c.expr}), instant(t, c.from), want)
	}
	s := compile(t, Timing{Expr: "5 0 0 1 1 * 2026", Seconds: true})
	if at, ok := s.Next(date(2025, 1, 1)); !ok || !at.Equal(instant(t, "2026-01-01T00:00:05Z")) {
		t.Errorf("%v, %v", at, ok)
	}
	if at, ok := s.Next(date(2026, 1, 2)); ok {
		t.Errorf("after the last year: %v", at)
	}
}
