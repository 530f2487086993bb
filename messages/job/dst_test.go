package job

import (
	"testing"
	"time"
)

// The two options change what a fixed time does in a gap and in a fold, and
// leave a rhythm alone.
func TestGapAndFoldOptions(t *testing.T) {
	for _, c := range []struct {
		name, expr, zone string
		gap              GapRule
		fold             FoldRule
		from             string
		want             []string
	}{
		{"gap, default", "30 2 * * *", "America/New_York", "", "", "2026-03-07T12:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"}},
		{"gap, run_after", "30 2 * * *", "America/New_York", GapRunAfter, "", "2026-03-07T12:00:00Z", []string{"2026-03-08T07:00:00Z"}},
		{"gap, skip", "30 2 * * *", "America/New_York", GapSkip, "", "2026-03-07T12:00:00Z", []string{"2026-03-09T06:30:00Z"}},
		{"gap, skip, yearly", "30 2 8 3 *", "America/New_York", GapSkip, "", "2026-01-01T00:00:00Z", []string{"2027-03-08T07:30:00Z"}},
		{"gap, several collapse", "0,15,30,45 2 * * *", "America/New_York", "", "", "2026-03-07T12:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"}},
		{"gap, the end is due anyway", "30 2,3 * * *", "America/New_York", "", "", "2026-03-07T12:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z", "2026-03-09T06:30:00Z"}},
		{"gap, one firing with the regular one", "0 2,3 * * *", "America/New_York", "", "", "2026-03-07T12:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z", "2026-03-09T07:00:00Z"}},
		{"gap, wild", "*/30 2 * * *", "America/New_York", "", "", "2026-03-07T12:00:00Z", []string{"2026-03-09T06:00:00Z"}},
		{"gap at midnight, the day before is no match", "30 0 * * 5", "Africa/Cairo", "", "", "2025-04-24T12:00:00Z", []string{"2025-04-24T22:00:00Z", "2025-05-01T21:30:00Z"}},
		{"gap at midnight, weekday of the missing time", "30 0 * * 4", "Africa/Cairo", "", "", "2025-04-24T12:00:00Z", []string{"2025-04-30T21:30:00Z"}},
		{"fold, default", "30 1 * * *", "America/New_York", "", "", "2026-10-31T12:00:00Z", []string{"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"}},
		{"fold, both", "30 1 * * *", "America/New_York", "", FoldBoth, "2026-10-31T12:00:00Z", []string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"}},
		{"fold, asked inside the second pass", "30 1 * * *", "America/New_York", "", "", "2026-11-01T06:10:00Z", []string{"2026-11-02T06:30:00Z"}},
		{"fold, both, asked inside the second pass", "30 1 * * *", "America/New_York", "", FoldBoth, "2026-11-01T06:10:00Z", []string{"2026-11-01T06:30:00Z"}},
		{"fold, its end is not repeated", "0 2 * * *", "America/New_York", "", "", "2026-10-31T12:00:00Z", []string{"2026-11-01T07:00:00Z"}},
		{"fold, wild ignores first", "*/30 1 * * *", "America/New_York", "", FoldFirst, "2026-11-01T04:30:00Z", []string{"2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z"}},
		{"fold over midnight", "30 23 * * *", "Africa/Cairo", "", "", "2025-10-30T12:00:00Z", []string{"2025-10-30T20:30:00Z", "2025-10-31T21:30:00Z"}},
		{"fold over midnight, both, the day comes twice", "30 23 30 10 *", "Africa/Cairo", "", FoldBoth, "2025-10-30T12:00:00Z", []string{"2025-10-30T20:30:00Z", "2025-10-30T21:30:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []time.Time
			for _, w := range c.want {
				want = append(want, instant(t, w))
			}
			s := compile(t, Timing{Expr: c.expr, Zone: c.zone, Gap: c.gap, Fold: c.fold})
			checkSeries(t, s, instant(t, c.from), want)
		})
	}
}

// A second field that begins with a star does not make a rhythm of a time of
// day: the skipped minute is one firing, the repeated one runs once.
func TestSecondsInGapAndFold(t *testing.T) {
	s := compile(t, Timing{Expr: "* 30 2 * * *", Seconds: true, Zone: "America/New_York"})
	checkSeries(t, s, instant(t, "2026-03-08T06:00:00Z"), []time.Time{instant(t, "2026-03-08T07:00:00Z"), instant(t, "2026-03-09T06:30:00Z"), instant(t, "2026-03-09T06:30:01Z")})

	s = compile(t, Timing{Expr: "*/20 30 1 * * *", Seconds: true, Zone: "America/New_York"})
	m := s.Missed(instant(t, "2026-11-01T04:00:00Z"), instant(t, "2026-11-01T12:00:00Z"), 10)
	if m.Count != 3 || !m.Last.Equal(instant(t, "2026-11-01T05:30:40Z")) {
		t.Errorf("%+v", m)
	}
}

func TestSixFields(t *testing.T) {
	s := compile(t, Timing{Expr: "5/20 59 23 31 12 *", Seconds: true})
	checkSeries(t, s, date(2026, 1, 1), []time.Time{
		instant(t, "2026-12-31T23:59:05Z"), instant(t, "2026-12-31T23:59:25Z"), instant(t, "2026-12-31T23:59:45Z"), instant(t, "2027-12-31T23:59:05Z")})
	s = compile(t, Timing{Expr: "* * * * * *", Seconds: true})
	checkSeries(t, s, instant(t, "2026-12-31T23:59:58.5Z"), []time.Time{instant(t, "2026-12-31T23:59:59Z"), date(2027, 1, 1)})
}

// starts_at is the first instant that may be due, ends_at the first that may not.
func TestBounds(t *testing.T) {
	s := compile(t, Timing{Expr: "@hourly", StartsAt: instant(t, "2026-01-01T10:00:00Z"), EndsAt: instant(t, "2026-01-01T12:00:00Z")})
	checkSeries(t, s, date(2020, 1, 1), []time.Time{instant(t, "2026-01-01T10:00:00Z"), instant(t, "2026-01-01T11:00:00Z")})
	if at, ok := s.Next(instant(t, "2026-01-01T11:00:00Z")); ok {
		t.Errorf("due at ends_at: %v", at)
	}
	if m := s.Missed(date(2020, 1, 1), date(2030, 1, 1), 9); m.Count != 2 || len(m.Newest) != 2 {
		t.Errorf("%+v", m)
	}
	s = compile(t, Timing{Expr: "@hourly", StartsAt: instant(t, "2026-01-01T10:00:00.001Z")})
	checkSeries(t, s, date(2020, 1, 1), []time.Time{instant(t, "2026-01-01T11:00:00Z")})
}

// Instants far outside the calendar are answered, quickly and without a panic.
func TestEdgesOfTheCalendar(t *testing.T) {
	for _, expr := range []string{"* * * * *", "0 0 29 2 *", "@every 1s", "2026-01-01T00:00:00Z"} {
		for _, zone := range []string{"UTC", "Europe/Berlin", "Pacific/Apia"} {
			s := compile(t, Timing{Expr: expr, Zone: zone})
			for _, at := range []time.Time{{}, time.Unix(-1<<62, 0), date(-5000, 1, 1), date(1, 1, 1), date(1582, 10, 10)} {
				if next, ok := s.Next(at); !ok || !next.After(at) {
					t.Errorf("%s: Next(%v) = %v, %v", expr, at, next, ok)
				}
			}
			for _, at := range []time.Time{time.Unix(1<<62, 0), date(2500, 1, 1), date(9999, 12, 31), calendarEnd.Add(-1)} {
				if next, ok := s.Next(at); ok {
					t.Errorf("%s: Next(%v) = %v", expr, at, next)
				}
			}
			if m := s.Missed(time.Unix(-1<<62, 0), time.Unix(1<<62, 0), 3); m.Count == 0 || len(m.Newest) == 0 || !m.Last.Equal(m.Newest[len(m.Newest)-1]) {
				t.Errorf("%s: %+v", expr, m)
			}
			if m := s.Missed(date(2026, 1, 2), date(2026, 1, 1), 3); m.Count != 0 {
				t.Errorf("%s: counted backwards: %+v", expr, m)
			}
		}
	}
}
