package job

import (
	"strings"
	"testing"
	"time"
)

// What other schedulers write, what it becomes, and when it is due after the
// beginning of 2026.
func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		text, zone string
		expr       string
		runs       int64
		want       string // the first slots, UTC
	}{
		{"rate(5 minutes)", "", "@every 5m", 0, "01-01T00:05 01-01T00:10"},
		{"rate(1 hour)", "", "@every 1h", 0, "01-01T01:00"},
		{"RATE(2 days)", "", "@every 48h", 0, "01-03T00:00"},
		{"cron(0 10 * * ? *)", "", "0 10 * * ?", 0, "01-01T10:00 01-02T10:00"},
		{"cron(15 12 ? * MON-FRI *)", "", "15 12 ? * mon-fri", 0, "01-01T12:15 01-02T12:15 01-05T12:15"},
		{"cron(0 8 ? * 2-6 *)", "", "0 8 ? * 1-5", 0, "01-01T08:00 01-02T08:00 01-05T08:00"},
		{"cron(0 8 ? * 1,7 *)", "", "0 8 ? * 0,6", 0, "01-03T08:00 01-04T08:00 01-10T08:00"},
		{"cron(0 8 ? * 2/2 *)", "", "0 8 ? * 1/2", 0, "01-02T08:00 01-05T08:00 01-07T08:00"},
		{"cron(0 8 ? * 6L *)", "", "0 8 ? * 5L", 0, "01-30T08:00 02-27T08:00"},
		{"cron(0 8 ? * 3#1 *)", "", "0 8 ? * 2#1", 0, "01-06T08:00 02-03T08:00"},
		{"cron(0 8 ? * FRI#2 *)", "", "0 8 ? * fri#2", 0, "01-09T08:00"},
		{"cron(0 8 ? * L *)", "", "0 8 ? * 6", 0, "01-03T08:00 01-10T08:00"},
		{"cron(0 8 L * ? *)", "", "0 8 l * ?", 0, "01-31T08:00 02-28T08:00"},
		{"cron(0 8 15W * ? 2026-2027)", "", "0 8 15w * ? 2026-2027", 0, "01-15T08:00 02-16T08:00"},
		{"cron(0/15 8 1 1 ? */2)", "", "0/15 8 1 1 ? 1970-2199/2", 0, "01-01T08:00 01-01T08:15"},
		{"cron(0 0 1 1 ? 2025/1)", "", "0 0 1 1 ? 2025-2199/1", 0, ""},
		{"cron(30 2 * * ? *)", "America/New_York", "30 2 * * ?", 0, ""},
		{"at(2026-11-20T13:00:00)", "", "2026-11-20T13:00:00Z", 0, "11-20T13:00"},
		{"at(2026-11-20T13:00:00)", "America/New_York", "2026-11-20T18:00:00Z", 0, "11-20T18:00"},
		{"R/2026-01-01T00:00:00Z/PT5M", "", "@every 5m", 0, "01-01T00:00 01-01T00:05"},
		{"R3/2026-01-02T06:00:00Z/P1D", "", "@every 24h", 3, "01-02T06:00 01-03T06:00 01-04T06:00 ."},
		{"R2/2026-01-02T06:00:00+01:00/P1DT12H", "", "@every 36h", 2, "01-02T05:00 01-03T17:00 ."},
		{"r1/2026-01-02T06:00:00Z/p1w", "", "@every 168h", 1, "01-02T06:00 ."},
		{"R/2026-01-01T00:00:00Z/2026-01-01T00:20:00Z", "", "@every 20m", 0, "01-01T00:00 01-01T00:20"},
		{"R/PT90S", "", "@every 1m30s", 0, "01-01T00:01"},
		{"R/2026-01-15T06:30:00Z/P1M", "", "30 6 15 * *", 0, "01-15T06:30 02-15T06:30 03-15T06:30"},
		{"R4/2026-02-01T00:00:05Z/P3M", "", "5 0 0 1 2,5,8,11 *", 4, "02-01T00:00 05-01T00:00 08-01T00:00 11-01T00:00 ."},
		{"R/2026-05-31T00:00:00Z/P1Y", "", "0 0 31 5 *", 0, "05-31T00:00"},
		{"R2/2026-05-31T00:00:00Z/P24M", "", "0 0 31 5 * 2026-2499/2", 2, "05-31T00:00 05-31T00:00 ."},
	} {
		s := Spec{Schedule: Timing{Expr: c.text, Zone: c.zone}}
		notes, bad := s.Translate()
		if bad != nil {
			t.Errorf("%s: %v", c.text, bad)
			continue
		}
		if s.Schedule.Expr != c.expr || s.MaxRuns != c.runs || len(notes) != 1 || !strings.Contains(notes[0], c.text+" became ") || !strings.Contains(notes[0], c.expr) {
			t.Errorf("%s became %q, max_runs %d: %q", c.text, s.Schedule.Expr, s.MaxRuns, notes)
		}
		timing, at := s.Normalize().Schedule, date(2026, 1, 1)
		if timing.Anchor = timing.StartsAt; timing.StartsAt.IsZero() {
			timing.Anchor = at
		}
		schedule := compile(t, timing).First(s.MaxRuns, timing.RunsFrom(at))
		at = at.Add(-time.Millisecond)
		for _, want := range strings.Fields(c.want) {
			next, ok := schedule.Next(at)
			if got := next.Format("01-02T15:04"); ok && got != want || !ok && want != "." {
				t.Errorf("%s: after %v comes %v, want %s", c.text, at, next, want)
			}
			at = next
		}
		if again, bad := s.Translate(); bad != nil || again != nil {
			t.Errorf("what %s became is translated again: %v, %v", c.text, again, bad)
		}
	}
}

// AWS leaves out a wall time that the clock skips; our own default runs it after.
func TestTranslateKeepsAWSRulesOfTheClock(t *testing.T) {
	s := Spec{Schedule: Timing{Expr: "cron(30 2 * * ? *)", Zone: "America/New_York"}}
	notes, bad := s.Translate()
	if bad != nil || !strings.Contains(notes[0], "dst.gap skip") {
		t.Fatalf("%v, %v", notes, bad)
	}
	checkSeries(t, compile(t, s.Schedule), instant(t, "2026-03-07T12:00:00Z"), []time.Time{instant(t, "2026-03-09T06:30:00Z")})
	s = Spec{Schedule: Timing{Expr: "cron(30 2 * * ? *)", Zone: "America/New_York", Gap: GapRunAfter}}
	if _, bad := s.Translate(); bad != nil || s.Schedule.Gap != GapRunAfter {
		t.Error("what was asked for is overruled")
	}
}

func TestTranslateRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"rate(5)":                                     "write rate(5 minutes)",
		"rate(5 weeks)":                               "write rate(5 minutes)",
		"rate(-5 minutes)":                            "write rate(5 minutes)",
		"rate(1.5 hours)":                             "write rate(5 minutes)",
		"cron(0 10 * * ?)":                            "5 fields of 6",
		"cron(0 10 * * * *)":                          "exactly one of its two day fields",
		"cron(0 10 ? * ? *)":                          "exactly one of its two day fields",
		"cron(0 10 ? * 0 *)":                          "from 1 (Sunday) to 7",
		"cron(0 10 ? * 8 *)":                          "from 1 (Sunday) to 7",
		"cron(0 10 * * ? 26)":                         "has the year",
		"at(2026-11-20)":                              "write at(",
		"at(2026-11-20T13:00:00Z)":                    "write at(",
		"at(2026-11-20T13:00:00.5)":                   "in whole seconds",
		"at(2026-11-20T13:00:00,5)":                   "in whole seconds",
		"at(2026-11-20T3:00:00)":                      "write at(",
		"at(9999-12-31T23:59:59)":                     "the years 1970 to 2499",
		"R0/2026-01-01T00:00:00Z/PT5M":                "repeats 0 times",
		"R1000000001/PT5M":                            "not from 1 to",
		"R99999999999999999999/PT5M":                  "not from 1 to",
		"R/PT5M/2026-01-01T00:00:00Z":                 "does not begin with an instant",
		"R/2026-01-01T00:00:00Z/PT5M/PT5M":            "too many parts",
		"R/2026-01-01/P1D":                            "does not begin with an instant",
		"R/2026-01-01T00:00:00Z/P":                    "no duration",
		"R/2026-01-01T00:00:00Z/P1DT":                 "no duration",
		"R/2026-01-01T00:00:00Z/PT0S":                 "not whole seconds",
		"R/2026-01-01T00:00:00Z/PT0.5S":               "no duration",
		"R/2026-01-01T00:00:00Z/P999999W":             "not whole seconds",
		"R/2026-01-02T00:00:00Z/2026-01-01T00:00:00Z": "not whole seconds",
		"R/P1M":                           "write a start",
		"R/2026-01-01T00:00:00+01:00/P1M": "only a start in UTC",
		"R/2026-01-31T00:00:00Z/P1M":      "write L for the last day",
		"R/2026-01-01T00:00:00Z/P5M":      "use 1, 2, 3, 4 or 6 months",
		"R/2026-01-01T00:00:00Z/P1M1D":    "mixes months",
		"R/2028-02-29T00:00:00Z/P1Y":      "day 29",
	} {
		s := Spec{Schedule: Timing{Expr: text}}
		if _, bad := s.Translate(); bad == nil || bad.Problems[0].Field != "schedule_expr" || !strings.Contains(bad.Problems[0].Message, says) {
			t.Errorf("%s: %v, want the words %q", text, bad, says)
		}
	}
	for _, s := range []Spec{
		{Schedule: Timing{Expr: "at(2026-03-08T02:30:00)", Zone: "America/New_York"}},
		{Schedule: Timing{Expr: "at(2026-11-01T01:30:00)", Zone: "America/New_York"}},
		{Schedule: Timing{Expr: "cron(0 10 * * ? *)", Seconds: true}},
		{Schedule: Timing{Expr: "R/2026-01-01T00:00:00Z/P1M", Zone: "Asia/Tokyo"}},
		{Schedule: Timing{Expr: "R/2026-01-01T00:00:00Z/PT5M", StartsAt: date(2027, 1, 1)}},
		{Schedule: Timing{Expr: "R5/2026-01-01T00:00:00Z/PT5M"}, MaxRuns: 6},
		{Schedule: Timing{Expr: "@daily", Exprs: []string{"R/PT5M"}}},
	} {
		if _, bad := s.Translate(); bad == nil {
			t.Errorf("%+v: accepted", s.Schedule)
		}
	}
	several := Spec{Schedule: Timing{Expr: "cron(0 10 * * ? *)", Exprs: []string{"@daily", "at(2026-11-20T13:00:00)"}}}
	if notes, bad := several.Translate(); bad != nil || len(notes) != 2 || compile(t, several.Schedule) == nil {
		t.Errorf("%v, %v, %+v", notes, bad, several)
	}
}

// Whatever is translated is ours, or is refused as such.
func FuzzTranslate(f *testing.F) {
	for _, text := range []string{"rate(5 minutes)", "cron(0 10 ? * 2-6,6L,3#2 2026/2)", "at(2026-11-20T13:00:00)", "R5/2026-01-01T00:00:00Z/P3M", "R/PT1H30M", "r/2026-01-01T00:00:00Z/2026-02-01T00:00:00Z", "cron(", "R/", ")("} {
		f.Add(text, "America/New_York")
	}
	f.Fuzz(func(t *testing.T, text, zone string) {
		s := Spec{Schedule: Timing{Expr: text, Zone: zone}}
		notes, bad := s.Translate()
		if bad != nil && (len(bad.Problems) != 1 || len(bad.Problems[0].Message) > 600) {
			t.Fatalf("%q: %+v", text, bad)
		}
		if bad != nil || notes == nil {
			return
		}
		if again, bad := s.Translate(); bad != nil || again != nil {
			t.Fatalf("%q became %q, which is translated again", text, s.Schedule.Expr)
		}
	})
}
