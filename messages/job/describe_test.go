package job

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		timing Timing
		want   string
	}{
		{Timing{Expr: "* * * * *"}, "Every minute, UTC."},
		{Timing{Expr: "*/15 * * * *"}, "Every 15 minutes, UTC."},
		{Timing{Expr: "5/15 * * * *"}, "Every 15 minutes, beginning with minute 5, UTC."},
		{Timing{Expr: "*/35 * * * *"}, "At minutes 0 and 35 of every hour, UTC."},
		{Timing{Expr: "@hourly"}, "At minute 0 of every hour, UTC."},
		{Timing{Expr: "@weekly"}, "At 00:00 on Sunday, UTC."},
		{Timing{Expr: "@yearly", Zone: "Asia/Tokyo"}, "At 00:00 on day 1 of the month in January, Asia/Tokyo time."},
		{Timing{Expr: "0 6 * * 1-5", Zone: "Europe/Berlin"}, "At 06:00 on Monday to Friday, Europe/Berlin time."},
		{Timing{Expr: "15,45 8,20 * * *"}, "At 08:15, 08:45, 20:15 and 20:45 every day, UTC."},
		{Timing{Expr: "* 0 * * *"}, "Every minute from 00:00 through 00:59 every day, UTC."},
		{Timing{Expr: "*/15 9-17 * * mon-fri"}, "Every 15 minutes from 09:00 through 17:45 on Monday to Friday, UTC."},
		{Timing{Expr: "0 */2 * * *"}, "At minute 0 of hours 0 to 22 in steps of 2 every day, UTC."},
		{Timing{Expr: "0 0-23 * * *"}, "At minute 0 of hours 0 to 23, UTC."},
		{Timing{Expr: "*/20 8,20 * * *"}, "At 08:00, 08:20, 08:40, 20:00, 20:20 and 20:40 every day, UTC."},
		{Timing{Expr: "*/10 8,20 * * *"}, "Every 10 minutes of hours 8 and 20 every day, UTC."},
		{Timing{Expr: "0 9 13 * 5"}, "At 09:00 on day 13 of the month and also on Friday, UTC."},
		{Timing{Expr: "0 9 */1 * 5"}, "At 09:00 every day, UTC."},
		{Timing{Expr: "0 0 1,15 1-3,12 *"}, "At 00:00 on days 1 and 15 of the month in January to March and December, UTC."},
		{Timing{Expr: "0 0 * * */2"}, "At 00:00 on Sunday, Tuesday, Thursday and Saturday, UTC."},
		{Timing{Expr: "*/10 * * * * *", Seconds: true}, "Every 10 seconds, UTC."},
		{Timing{Expr: "* 30 2 * * *", Seconds: true}, "At every second of minute 30 of hour 2 every day, UTC."},
		{Timing{Expr: "0,30 */7 * * * *", Seconds: true}, "At seconds 0 and 30 of minutes 0 to 56 in steps of 7 of every hour, UTC."},
		{Timing{Expr: "5 0 6 * * *", Seconds: true}, "At 06:00:05 every day, UTC."},
		{Timing{Expr: "1,7,9,14,20,22,25,28,31,36,40,44,50,55 * * * *"}, ""},
		{Timing{Expr: "@every 90m"}, "Every 1 hour 30 minutes."},
		{Timing{Expr: "@every 1h", StartsAt: date(2026, 1, 1)}, "Every hour, starting at 2026-01-01T00:00:00Z."},
		{Timing{Expr: "@every 48h", Anchor: date(2026, 1, 1)}, "Every 2 days, counted from 2026-01-01T00:00:00Z."},
		{Timing{Expr: "@daily", StartsAt: date(2026, 1, 1), EndsAt: date(2027, 1, 1)}, "At 00:00 every day, UTC, starting at 2026-01-01T00:00:00Z, ending before 2027-01-01T00:00:00Z."},
		{Timing{Expr: "2026-01-31T07:00:00.5+01:00"}, "Once, at 2026-01-31T06:00:00.5Z."},
		{Timing{Expr: "0 0 L * *"}, "At 00:00 on the last day of the month, UTC."},
		{Timing{Expr: "0 0 L-1,L-3 * *"}, "At 00:00 on the day before the last day of the month and on the day 3 days before the last day of the month, UTC."},
		{Timing{Expr: "0 0 1,LW * *"}, "At 00:00 on day 1 of the month and on the last day from Monday to Friday of the month, UTC."},
		{Timing{Expr: "0 0 15W 2 *"}, "At 00:00 on the day from Monday to Friday nearest to day 15 of the month in February, UTC."},
		{Timing{Expr: "0 0 * * 5L"}, "At 00:00 on the last Friday of the month, UTC."},
		{Timing{Expr: "0 0 * * 1,5#2,6#2,0#1"}, "At 00:00 on Monday and on the first Sunday of the month and on the second Friday and Saturday of the month, UTC."},
		{Timing{Expr: "0 0 13 * 5#2"}, "At 00:00 on day 13 of the month and also on the second Friday of the month, UTC."},
		{Timing{Expr: "0 0 1 1 * 2027,2030-2033"}, "At 00:00 on day 1 of the month in January, in 2027 and 2030 to 2033, UTC."},
		{Timing{Expr: "0 6 * * *", Exprs: []string{"30 18 * * 5"}, Zone: "Asia/Tokyo"}, "At 06:00 every day; and also at 18:30 on Friday, Asia/Tokyo time."},
		{Timing{Expr: "0 6 * * *", Exprs: []string{"2026-01-31T06:00:00Z"}}, "At 06:00 every day; and also once, at 2026-01-31T06:00:00Z, UTC."},
		{Timing{Expr: "0 6 * * *", Exclude: []Day{DayOf(date(2026, 12, 26)), DayOf(date(2026, 12, 25))}}, "At 06:00 every day, UTC, except on 2026-12-25 and 2026-12-26."},
		{Timing{Expr: "0 6 * * *", Jitter: 90 * time.Second}, "At 06:00 every day, UTC, each less than 1m30s later."},
		{Timing{Expr: "H H * * *", Job: "daily-report"}, "At 08:24 every day, UTC."},
		{Timing{Expr: "H H * * *"}, ""},
	} {
		if got := Describe(c.timing); got != c.want {
			t.Errorf("%q: %q\nwant %q", c.timing.Expr, got, c.want)
		}
	}
}

// Words are true when they leave no choice: expressions that share a
// description share every wall time.
func TestDescribeIsExact(t *testing.T) {
	t.Parallel()
	type due struct {
		fields cronFields
		years  yearSet
		expr   string
	}
	seen := map[string]due{}
	rapid.Check(t, func(t *rapid.T) {
		e := drawExpr(t, rapid.Bool().Draw(t, "seconds"))
		timing := Timing{Expr: e.text(), Seconds: e.seconds}
		s, err := Compile(timing)
		text := Describe(timing)
		if err != nil || text == "" {
			return
		}
		now := due{fields: sameDays(s.cron), expr: timing.Expr}
		if years := now.fields.years; years != nil {
			now.years, now.fields.years = *years, nil
		}
		if before, ok := seen[text]; ok && (before.fields != now.fields || before.years != now.years) {
			t.Fatalf("%q and %q are both %q", before.expr, now.expr, text)
		}
		seen[text] = now
	})
}

// sameDays writes two ways to name the same days alike.
func sameDays(f cronFields) cronFields {
	if f.either && (f.dom == everyDom || f.dow == everyDow) {
		f.dom, f.dow = everyDom, everyDow
		f.marks, f.marked = dayMarks{}, false
	}
	if f.dow == everyDow {
		f.marks.nth = [6]uint8{}
	}
	if f.dom == everyDom {
		f.marks.last, f.marks.near = 0, 0
	}
	f.marked = f.marks != dayMarks{}
	if f.dom == everyDom || f.dow == everyDow {
		f.either = false
	}
	f.fixed = false
	return f
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		timing Timing
		want   []string // words of each warning, in order
	}{
		{Timing{Expr: "0 6 * * 1-5", Zone: "Europe/Berlin"}, nil},
		{Timing{Expr: "*/15 * * * *", Zone: "Europe/Berlin"}, nil},
		{Timing{Expr: "5/15 * * * *"}, nil},
		{Timing{Expr: "0 9 13 * *"}, nil},
		{Timing{Expr: "@daily"}, nil},
		{Timing{Expr: "@every 10m"}, nil},
		{Timing{Expr: "*/35 * * * *"}, []string{"step of 35 in the minute field restarts with every hour"}},
		{Timing{Expr: "0-59/35 * * * *"}, []string{"step of 35 in the minute field restarts with every hour"}},
		{Timing{Expr: "10-50/35 * * * *"}, nil},
		{Timing{Expr: "20/15 * * * *"}, []string{"step of 15 in the minute field restarts"}},
		{Timing{Expr: "0 */7 * * *"}, []string{"step of 7 in the hour field restarts with every day"}},
		{Timing{Expr: "0 0 */2 * *"}, []string{"step of 2 in the day of month field restarts with every month"}},
		{Timing{Expr: "0 0 1 */5 *"}, []string{"restarts with every year"}},
		{Timing{Expr: "0 0 * * */2"}, []string{"restarts with every week"}},
		{Timing{Expr: "50/15 * * * *"}, []string{"matches only 50"}},
		{Timing{Expr: "0 9 13 * 5"}, []string{"matches when either does: on day 13 of the month and also on Friday"}},
		{Timing{Expr: "0 9 */1 * 5"}, []string{"the other restricts nothing"}},
		{Timing{Expr: "0 0 31 * *"}, []string{"a month without a day 31 is skipped"}},
		{Timing{Expr: "0 0 31 1,3 *"}, nil},
		{Timing{Expr: "0 0 29 2 *"}, []string{"a month without a day 29 is skipped"}},
		{Timing{Expr: "* 8-9 * * *"}, []string{"120 times a day"}},
		{Timing{Expr: "* 30 2 * * *", Seconds: true}, []string{"every second of each matching minute"}},
		{Timing{Expr: "30 2 * * *", Zone: "America/New_York"}, []string{"02:30 does not exist in America/New_York when clocks go forward; such a run is made at the first instant after"}},
		{Timing{Expr: "30 2 * * *", Zone: "America/New_York", Gap: GapSkip}, []string{"is left out"}},
		{Timing{Expr: "30 2 * * 1-5", Zone: "America/New_York"}, nil},
		{Timing{Expr: "30 1 * * *", Zone: "America/New_York"}, []string{"01:30 comes twice in America/New_York when clocks go back; it runs the first time only"}},
		{Timing{Expr: "30 1 * * *", Zone: "America/New_York", Fold: FoldBoth}, []string{"both times (dst.fold is both)"}},
		{Timing{Expr: "*/30 1 * * *", Zone: "America/New_York"}, []string{"both times, because the minute or hour field begins with *"}},
		{Timing{Expr: "0 */2 * * *", Zone: "America/New_York"}, []string{"has no instant, because the minute or hour field begins with *"}},
		{Timing{Expr: "0 0-23 * * *", Zone: "America/New_York"}, []string{"02:00 does not exist", "01:00 comes twice"}},
		{Timing{Expr: "30 2 * * *", Zone: "Asia/Tokyo"}, nil},
		{Timing{Expr: "@every 10m", Zone: "Asia/Tokyo"}, []string{"only changes how times are shown"}},
		{Timing{Expr: "2026-01-01T00:00:00Z", Zone: "Asia/Tokyo", Seconds: true}, []string{"no effect", "only changes how times are shown"}},
		{Timing{Expr: "@daily", Seconds: true}, []string{"no effect on a shorthand"}},
		{Timing{Expr: "0 0 L * *"}, nil},
		{Timing{Expr: "0 0 31W * *"}, []string{"a month without a day 31 is skipped by 31W"}},
		{Timing{Expr: "0 0 * * 5#5"}, []string{"a month without a fifth Friday is skipped"}},
		{Timing{Expr: "0 0 L-29 * *"}, []string{"a month of 29 days or less is skipped by L-29"}},
		{Timing{Expr: "H 6 * * *", Job: "x"}, nil},
		{Timing{Expr: "H 6 * * *"}, []string{"made from the job's id, and none is given"}},
		{Timing{Expr: "*/35 * * * *", Exprs: []string{"*/35 1 * * *", "* 2 * * *"}}, []string{"step of 35", "60 times a day"}},
	} {
		got := Warnings(c.timing)
		if len(got) != len(c.want) {
			t.Errorf("%q %s: %q\nwant %q", c.timing.Expr, c.timing.Zone, got, c.want)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], c.want[i]) {
				t.Errorf("%q %s: %q\nwant %q", c.timing.Expr, c.timing.Zone, got[i], c.want[i])
			}
		}
	}
}

func TestDescribeLastSecond(t *testing.T) {
	if got := Describe(Timing{Expr: "59 59 23 * * *", Seconds: true}); got != "At 23:59:59 every day, UTC." {
		t.Error(got)
	}
}
