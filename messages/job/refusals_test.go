package job

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// refusals is what must not become a job: for each the field that is named,
// and words that tell what to do.
var refusals = []struct {
	cases  string
	timing Timing
	field  string
	says   string
}{
	{"", Timing{Expr: ""}, "schedule_expr", "write a cron expression"},
	{"", Timing{Expr: " \t "}, "schedule_expr", "write a cron expression"},

	{"C01", Timing{Expr: "TZ=0"}, "schedule_expr", `"time_zone"`},
	{"C01", Timing{Expr: "TZ="}, "schedule_expr", `"time_zone"`},
	{"C01", Timing{Expr: "CRON_TZ="}, "schedule_expr", `"time_zone"`},
	{"C01", Timing{Expr: "CRON_TZ=UTC"}, "schedule_expr", `"time_zone"`},
	{"C01", Timing{Expr: "TZ=UTC"}, "schedule_expr", `"time_zone"`},
	{"C01", Timing{Expr: "TZ=Europe/Rome"}, "schedule_expr", `"time_zone"`},
	{"C01", Timing{Expr: "TZ=TZ=TZ="}, "schedule_expr", `"time_zone"`},
	{"C01", Timing{Expr: "TZ= * * * * *"}, "schedule_expr", `"time_zone"`},
	{"C01", Timing{Expr: "tz=UTC * * * * *"}, "schedule_expr", `"time_zone"`},
	{"C01", Timing{Expr: "TZ=../../etc/passwd * * * * *"}, "schedule_expr", `"time_zone"`},
	{"C01", Timing{Expr: "CRON_TZ=Europe/Rome 0 2 * * *", Zone: "UTC"}, "schedule_expr", "one zone only"},

	{"C02", Timing{Expr: "0 0 30 2 *"}, "schedule_expr", "can never fire"},
	{"C02", Timing{Expr: "0 0 31 4 *"}, "schedule_expr", "can never fire"},
	{"C02", Timing{Expr: "0 0 31 4,6,9,11 *"}, "schedule_expr", "can never fire"},
	{"C02", Timing{Expr: "0 0 31 2,4,6,9,11 *"}, "schedule_expr", "choose a day that exists"},
	{"C02", Timing{Expr: "0 0 31 apr ?"}, "schedule_expr", "can never fire"},
	{"C02", Timing{Expr: "0 0 0 30 2 *", Seconds: true}, "schedule_expr", "can never fire"},

	{"C09", Timing{Expr: "*/90 * * * *"}, "schedule_expr", `the step 90, which is larger than its range 0-59, so that only 0 would match; for an interval use "@every 1h30m"`},
	{"C09", Timing{Expr: "*/60 * * * *"}, "schedule_expr", `"@every 1h"`},
	{"C09", Timing{Expr: "0/60 * * * *"}, "schedule_expr", "range 0-59"},
	{"C09", Timing{Expr: "0 */25 * * *"}, "schedule_expr", "range 0-23"},
	{"C09", Timing{Expr: "0 */24 * * *"}, "schedule_expr", `"@every 24h"`},
	{"C09", Timing{Expr: "0 0 */32 * *"}, "schedule_expr", "range 1-31"},
	{"C09", Timing{Expr: "0 0 1 */13 *"}, "schedule_expr", "write 1"},
	{"C09", Timing{Expr: "0 0 * * */7"}, "schedule_expr", "range 0-6"},
	{"C09", Timing{Expr: "10-20/15 * * * *"}, "schedule_expr", "range 10-20"},
	{"C09", Timing{Expr: "*/99999999999999999999 * * * *"}, "schedule_expr", "use @every"},
	{"C09", Timing{Expr: "*/90 * * * * *", Seconds: true}, "schedule_expr", `"@every 1m30s"`},
	{"C09", Timing{Expr: "*/0 * * * *"}, "schedule_expr", "at least 1"},
	{"C09", Timing{Expr: "0 0 1-31/0 * *"}, "schedule_expr", "at least 1"},
	{"C09", Timing{Expr: "5/0 * * * *"}, "schedule_expr", "at least 1"},

	{"C12", Timing{Expr: "0 0 * * 7-1/2"}, "schedule_expr", "write the list 0-1"},
	{"C12", Timing{Expr: "0 0 * * 7/2"}, "schedule_expr", "write 7 or 0/2"},
	{"C12", Timing{Expr: "0 0 * * 8"}, "schedule_expr", "outside 0-7"},
	{"C13", Timing{Expr: "15 10 * nov-feb mon-tue"}, "schedule_expr", "write the list 11-12,1-2"},
	{"C13", Timing{Expr: "0 0 * * fri-mon"}, "schedule_expr", "write the list 5-6,0-1"},
	{"C13", Timing{Expr: "0 0 * * 5-2"}, "schedule_expr", "write the list 5-6,0-2"},
	{"C13", Timing{Expr: "0 22-2 * * *"}, "schedule_expr", "write the list 22-23,0-2"},
	{"C13", Timing{Expr: "1-0 * * * *"}, "schedule_expr", "write the list 1-59,0"},

	{"C17", Timing{Expr: "0 0 L-31 * *"}, "schedule_expr", "L-3 (three days before it)"},
	{"C17", Timing{Expr: "0 0 L-0 * *"}, "schedule_expr", "L-3 (three days before it)"},
	{"C17", Timing{Expr: "0 0 L-3W * *"}, "schedule_expr", "15W"},
	{"C17", Timing{Expr: "0 0 32W * *"}, "schedule_expr", "15W"},
	{"C17", Timing{Expr: "0 0 5L * *"}, "schedule_expr", "L (the last day)"},
	{"C17", Timing{Expr: "0 0 5#2 * *"}, "schedule_expr", "L (the last day)"},
	{"C17", Timing{Expr: "0 0 L/2 * *"}, "schedule_expr", `has "l"`},
	{"C17", Timing{Expr: "0 0 1-L * *"}, "schedule_expr", "1-31"},
	{"C17", Timing{Expr: "0 0 * * L"}, "schedule_expr", "write 6 for every Saturday"},
	{"C17", Timing{Expr: "0 0 * * 5W"}, "schedule_expr", "5#2 (the second Friday"},
	{"C17", Timing{Expr: "0 0 * * 5#6"}, "schedule_expr", "at most #5"},
	{"C17", Timing{Expr: "0 0 * * 5#0"}, "schedule_expr", "at most #5"},
	{"C17", Timing{Expr: "0 0 * * 8#2"}, "schedule_expr", "5#2 (the second Friday"},
	{"C17", Timing{Expr: "0 0 * * 1-5#2"}, "schedule_expr", "5#2 (the second Friday"},
	{"C17", Timing{Expr: "0 0 * * 5#2L"}, "schedule_expr", "5#2 (the second Friday"},
	{"C17", Timing{Expr: "5L * * * *"}, "schedule_expr", "are for the two day fields"},
	{"C17", Timing{Expr: "0 0 * 3#2 *"}, "schedule_expr", "are for the two day fields"},
	{"C17", Timing{Expr: "0 0 L-30 2 *"}, "schedule_expr", "can never fire"},
	{"C17", Timing{Expr: "0 0 30W 2 *"}, "schedule_expr", "can never fire"},
	{"C17", Timing{Expr: "H(0-60) * * * *"}, "schedule_expr", "outside 0-59"},
	{"C17", Timing{Expr: "H(5) * * * *"}, "schedule_expr", "H(0-59)"},
	{"C17", Timing{Expr: "H(9-5) * * * *"}, "schedule_expr", "ends before it begins"},
	{"C17", Timing{Expr: "H/60 * * * *"}, "schedule_expr", "larger than its range"},
	{"C17", Timing{Expr: "H/0 * * * *"}, "schedule_expr", "at least 1"},
	{"C17", Timing{Expr: "0 0 * * H(0-7)"}, "schedule_expr", "outside 0-6"},
	{"C17", Timing{Expr: "H5 * * * *"}, "schedule_expr", "H(0-59)"},
	{"C17", Timing{Expr: "5H * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C17", Timing{Expr: "0 0 1 H(13-14) *"}, "schedule_expr", "outside 1-12"},

	{"C19", Timing{Expr: "@every 1ms"}, "schedule_expr", "minimum of 1s"},
	{"C19", Timing{Expr: "@every 1ns"}, "schedule_expr", "minimum of 1s"},
	{"C19", Timing{Expr: "@every 1.5s"}, "schedule_expr", "whole number of seconds"},
	{"C19", Timing{Expr: "@every 1s999ms"}, "schedule_expr", "whole number of seconds"},
	{"C19", Timing{Expr: "@every 1.0000000001s"}, "schedule_expr", "is not rounded"},
	{"C19", Timing{Expr: "@every 5m0.9999999999999s"}, "schedule_expr", "is not rounded"},
	{"C19", Timing{Expr: "@every 0s"}, "schedule_expr", "minimum of 1s"},
	{"C19", Timing{Expr: "@every -5m"}, "schedule_expr", "minimum of 1s"},
	{"C19", Timing{Expr: "@every 9999999h"}, "schedule_expr", "ten years"},
	{"C19", Timing{Expr: "@every 99999999h"}, "schedule_expr", `such as "@every 90s"`},
	{"C19", Timing{Expr: "@every"}, "schedule_expr", "no duration"},
	{"C19", Timing{Expr: "@every 10"}, "schedule_expr", "units are h, m and s"},
	{"C19", Timing{Expr: "@every 1d"}, "schedule_expr", "a day is 24h"},
	{"C19", Timing{Expr: "@every5m"}, "schedule_expr", "use @hourly"},
	{"C19", Timing{Expr: "@reboot"}, "schedule_expr", "use @hourly"},
	{"C19", Timing{Expr: "@daily 5"}, "schedule_expr", "use @hourly"},
	{"C19", Timing{Expr: "@"}, "schedule_expr", "use @hourly"},

	{"C22", Timing{Expr: "every 7 minuts"}, "schedule_expr", "write minute, hour"},
	{"C22", Timing{Expr: "61 * * * *"}, "schedule_expr", "the minute field"},
	{"C22", Timing{Expr: "60 * * * *"}, "schedule_expr", "outside 0-59"},
	{"C22", Timing{Expr: "* 24 * * *"}, "schedule_expr", "the hour field"},
	{"C22", Timing{Expr: "* * 0 * *"}, "schedule_expr", "the day of month field"},
	{"C22", Timing{Expr: "* * 32 * *"}, "schedule_expr", "outside 1-31"},
	{"C22", Timing{Expr: "* * * 13 *"}, "schedule_expr", "the month field"},
	{"C22", Timing{Expr: "* * * 0 *"}, "schedule_expr", "outside 1-12"},
	{"C22", Timing{Expr: "1-2-3 * * * *"}, "schedule_expr", `more than one "-"`},
	{"C22", Timing{Expr: "* * * * MON-SUN-TUE"}, "schedule_expr", `more than one "-"`},
	{"C22", Timing{Expr: "*/2/3 * * * *"}, "schedule_expr", `more than one "/"`},
	{"C22", Timing{Expr: "０ ０ * * *"}, "schedule_expr", "U+FF10"},
	{"C22", Timing{Expr: "0 0 * * *\x00"}, "schedule_expr", "U+0000"},
	{"C22", Timing{Expr: "0 0\u200f * * *"}, "schedule_expr", "U+200F"},
	{"C22", Timing{Expr: "0 0 * * *\n0 1 * * *"}, "schedule_expr", "on one line"},
	{"C22", Timing{Expr: "0\u00a00 * * *"}, "schedule_expr", "plain ASCII"},
	{"C22", Timing{Expr: "\xff\xfe * * * *"}, "schedule_expr", "UTF-8"},
	{"C22", Timing{Expr: "0" + strings.Repeat(",0", 10_000) + " * * * *"}, "schedule_expr", "use ranges and steps"},
	{"C22", Timing{Expr: strings.Repeat(",", 10_000)}, "schedule_expr", "at most 1024"},
	{"C22", Timing{Expr: ", * * * *"}, "schedule_expr", "one value between two commas"},
	{"C22", Timing{Expr: "1,,2 * * * *"}, "schedule_expr", "one value between two commas"},
	{"C22", Timing{Expr: "1, * * * *"}, "schedule_expr", "one value between two commas"},
	{"C22", Timing{Expr: "- * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "-5 * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "5- * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "+5 * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "*-5 * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "*5 * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "** * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "*/ * * * *"}, "schedule_expr", "a step is a whole number"},
	{"C22", Timing{Expr: "/5 * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "*/x * * * *"}, "schedule_expr", "a step is a whole number"},
	{"C22", Timing{Expr: "*/-5 * * * *"}, "schedule_expr", "a step is a whole number"},
	{"C22", Timing{Expr: "0x10 * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "1.5 * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "18446744073709551616 * * * *"}, "schedule_expr", "outside 0-59"},
	{"C22", Timing{Expr: "jan * * * *"}, "schedule_expr", "a number 0-59 is wanted"},
	{"C22", Timing{Expr: "0 0 * january *"}, "schedule_expr", "write jan"},
	{"C22", Timing{Expr: "0 0 * * mondays"}, "schedule_expr", "write mon"},
	{"C22", Timing{Expr: "0 0 * * mo"}, "schedule_expr", "a name such as mon"},
	{"C22", Timing{Expr: "? * * * *"}, "schedule_expr", `write "*"`},
	{"C22", Timing{Expr: "0 0 ?/2 * *"}, "schedule_expr", `write "*"`},
	{"C22", Timing{Expr: "0 0 * * ?,1"}, "schedule_expr", `write "*"`},

	{"", Timing{Expr: "0 0 0 * * *"}, "schedule_expr", `set "seconds": true`},
	{"", Timing{Expr: "0 0 * * *", Seconds: true}, "schedule_expr", "a field for seconds in front"},
	{"", Timing{Expr: "0 0 0 1 1 * 2026"}, "schedule_expr", `set "seconds": true`},
	{"", Timing{Expr: "*/5 * * * * *"}, "schedule_expr", `set "seconds": true`},
	{"", Timing{Expr: "0 0 1 1 * 99"}, "schedule_expr", "name one, such as 2027"},
	{"", Timing{Expr: "0 0 1 1 * 1969"}, "schedule_expr", "outside 1970-2499"},
	{"", Timing{Expr: "0 0 1 1 * 2500"}, "schedule_expr", "outside 1970-2499"},
	{"", Timing{Expr: "0 0 1 1 * 2027-2026"}, "schedule_expr", "ends before it begins"},
	{"", Timing{Expr: "0 0 0 1 1 * x", Seconds: true}, "schedule_expr", "a number 1970-2499 is wanted"},
	{"C02", Timing{Expr: "0 0 29 2 * 2026-2027"}, "schedule_expr", "can never fire"},
	{"", Timing{Expr: "0 0 1 1 * 2026", StartsAt: date(2027, 1, 1)}, "schedule_expr", "can never fire"},

	{"", Timing{Expr: "@daily", Exprs: []string{"@every 1h"}}, "schedule_exprs[1]", "is an interval"},
	{"", Timing{Expr: "0 0 * * *", Exprs: []string{"61 * * * *"}}, "schedule_exprs[1]", "outside 0-59"},
	{"", Timing{Expr: "@daily", Exprs: make([]string, 10)}, "schedule_exprs", "at most 10"},
	{"", Timing{Expr: "@daily", Exprs: []string{"@hourly"}, StartsAt: date(2499, 12, 31).Add(23*time.Hour + time.Minute)}, "schedule_exprs", "can never fire"},

	{"", Timing{Expr: "0 0 25 12 * 2026", Exclude: []Day{DayOf(date(2026, 12, 25))}}, "exclude", "leave out fewer"},
	{"", Timing{Expr: "@daily", Exclude: make([]Day, 367)}, "exclude", "at most 366"},
	{"", Timing{Expr: "@daily", Exclude: []Day{-1}}, "exclude", "1969-12-31 lies outside"},

	{"", Timing{Expr: "@hourly", Jitter: 30 * time.Minute}, "jitter", "write less than 30m0s"},
	{"", Timing{Expr: "@daily", Exprs: []string{"5 0 * * *"}, Jitter: 3 * time.Minute}, "jitter", "less than half of 5m0s"},
	{"", Timing{Expr: "@daily", Jitter: -1}, "jitter", "not from 0s"},
	{"", Timing{Expr: "0 0 1 1 *", Jitter: 25 * time.Hour}, "jitter", "to 24h0m0s"},
	{"", Timing{Expr: "@daily", Jitter: time.Microsecond}, "jitter", "whole milliseconds"},

	{"", Timing{Expr: "* * * *"}, "schedule_expr", "write minute, hour"},
	{"", Timing{Expr: "* *", Seconds: true}, "schedule_expr", "asks for 6"},
	{"", Timing{Expr: "* * * * * * * *"}, "schedule_expr", "write minute, hour"},
	{"", Timing{Expr: "60 * * * * *", Seconds: true}, "schedule_expr", "the second field"},

	{"", Timing{Expr: "2026-01-01"}, "schedule_expr", "such as \"2026-01-31T06:00:00Z\""},
	{"", Timing{Expr: "2026-01-01 00:00:00"}, "schedule_expr", "RFC 3339"},
	{"", Timing{Expr: "2026-01-01T00:00:00"}, "schedule_expr", "an offset"},
	{"", Timing{Expr: "2026-01-01T1:00:00Z"}, "schedule_expr", "RFC 3339"},
	{"", Timing{Expr: "2026-01-01T00:00:00,5Z"}, "schedule_expr", "RFC 3339"},
	{"", Timing{Expr: "2026-01-01T00:00:00.Z"}, "schedule_expr", "RFC 3339"},
	{"", Timing{Expr: "2026-01-01T00:00:00.0000000001Z"}, "schedule_expr", "RFC 3339"},
	{"", Timing{Expr: "2026-01-01t00:00:00z"}, "schedule_expr", "RFC 3339"},
	{"", Timing{Expr: "2026-01-01T00:00:00+24:00"}, "schedule_expr", "RFC 3339"},
	{"", Timing{Expr: "2026-02-30T00:00:00Z"}, "schedule_expr", "RFC 3339"},
	{"", Timing{Expr: "2026-01-01T23:59:60Z"}, "schedule_expr", "RFC 3339"},
	{"", Timing{Expr: "2026-01-01T00:00:00+99:00"}, "schedule_expr", "RFC 3339"},
	{"", Timing{Expr: "2026-01-01T00:00:00.0001Z"}, "schedule_expr", "at most three decimals"},
	{"", Timing{Expr: "9999-12-31T23:59:59Z"}, "schedule_expr", "1970 to 2499"},
	{"", Timing{Expr: "1970-01-01T00:00:00Z"}, "schedule_expr", "write a later one"},
	{"", Timing{Expr: "@daily", StartsAt: time.Unix(0, 0)}, "starts_at", "stands for no instant"},
	{"", Timing{Expr: "@daily", EndsAt: time.Unix(0, 0).UTC()}, "ends_at", "stands for no instant"},
	{"", Timing{Expr: "0001-01-01T00:00:00Z"}, "schedule_expr", "1970 to 2499"},

	{"C52", Timing{Expr: "@daily", Zone: "Local"}, "time_zone", "another zone on each machine"},
	{"C52", Timing{Expr: "@daily", Zone: "local"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: "utc"}, "time_zone", `written "UTC"`},
	{"C52", Timing{Expr: "@daily", Zone: "america/new_york"}, "time_zone", `written "America/New_York"`},
	{"C52", Timing{Expr: "@daily", Zone: "UTC+3"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: "+03:00"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: "../etc/passwd"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: "/usr/share/zoneinfo/UTC"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: "Europe/./Berlin"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: "Europe//Berlin"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: "Europe"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: "posixrules"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: " "}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: "UTC\x00"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: "EST5EDT,M3.2.0,M11.1.0"}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "@daily", Zone: strings.Repeat("x", 10_000)}, "time_zone", "IANA name"},
	{"C52", Timing{Expr: "2026-01-01T00:00:00Z", Zone: "Mars/Olympus"}, "time_zone", "IANA name"},

	{"", Timing{Expr: "@daily", Gap: "run_before"}, "dst.gap", `"run_after" or "skip"`},
	{"", Timing{Expr: "@daily", Fold: "last"}, "dst.fold", `"first" or "both"`},

	{"", Timing{Expr: "@daily", StartsAt: date(2026, 2, 1), EndsAt: date(2026, 1, 1)}, "ends_at", "move one of the two"},
	{"", Timing{Expr: "@daily", StartsAt: date(2026, 1, 1), EndsAt: date(2026, 1, 1)}, "ends_at", "not later than starts_at"},
	{"", Timing{Expr: "0 0 29 2 *", StartsAt: date(2026, 1, 1), EndsAt: date(2028, 2, 29)}, "schedule_expr", "can never fire"},
	{"", Timing{Expr: "@every 1h", StartsAt: date(2026, 1, 1).Add(time.Minute), Anchor: date(2026, 1, 1), EndsAt: date(2026, 1, 1).Add(time.Hour)}, "schedule_expr", "can never fire"},
	{"", Timing{Expr: "2026-01-01T00:00:00Z", EndsAt: date(2026, 1, 1)}, "schedule_expr", "widen the two"},
	{"", Timing{Expr: "2026-01-01T00:00:00Z", StartsAt: date(2026, 1, 2)}, "schedule_expr", "can never fire"},
	{"", Timing{Expr: "@daily", StartsAt: date(9000, 1, 1)}, "starts_at", "outside the calendar"},
	{"", Timing{Expr: "@daily", StartsAt: date(1900, 1, 1)}, "starts_at", "outside the calendar"},
	{"", Timing{Expr: "@daily", EndsAt: date(9000, 1, 1)}, "ends_at", "outside the calendar"},
	{"", Timing{Expr: "@daily", EndsAt: date(2026, 1, 1).Add(time.Microsecond)}, "ends_at", "at most three decimals"},
	{"", Timing{Expr: "@daily", StartsAt: date(2026, 1, 1).Add(1)}, "starts_at", "at most three decimals"},
	{"", Timing{Expr: "0 0 1 1 *", StartsAt: date(2499, 6, 1)}, "schedule_expr", "can never fire"},
}

func TestRefusals(t *testing.T) {
	for _, c := range refusals {
		name := c.timing.Expr + " " + c.timing.Zone
		if len(name) > 80 {
			name = name[:80]
		}
		t.Run(c.cases+" "+name, func(t *testing.T) {
			s, err := Compile(c.timing)
			var bad *Invalid
			if s != nil || !errors.As(err, &bad) || len(bad.Problems) != 1 {
				t.Fatalf("got %v, %v; want one problem", s, err)
			}
			p := bad.Problems[0]
			if p.Field != c.field || !strings.Contains(p.Message, c.says) {
				t.Errorf("refused with %s: %s\nwant %s and the words %q", p.Field, p.Message, c.field, c.says)
			}
			if len(p.Message) > 500 {
				t.Errorf("a message of %d bytes", len(p.Message))
			}
			if Describe(c.timing) != "" || Warnings(c.timing) != nil {
				t.Errorf("a refused timing is described: %q %q", Describe(c.timing), Warnings(c.timing))
			}
		})
	}
}

// A form with several mistakes is answered once, with all of them.
func TestRefusalNamesEveryField(t *testing.T) {
	_, err := Compile(Timing{Expr: "61 * * * *", Zone: "utc", Gap: "x", Fold: "y", StartsAt: date(2026, 1, 2), EndsAt: date(2026, 1, 1)})
	var bad *Invalid
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	var fields []string
	for _, p := range bad.Problems {
		fields = append(fields, p.Field)
	}
	if got := strings.Join(fields, " "); got != "schedule_expr time_zone dst.gap dst.fold ends_at" {
		t.Errorf("fields %q", got)
	}
}

// The library is asked only for what was checked, and a panic of it would
// still be an answer.
func TestParserPanicIsAnError(t *testing.T) {
	if _, err := callParser("TZ=0"); err == nil || !strings.Contains(err.Error(), "gave up") {
		t.Errorf("got %v", err)
	}
	if _, err := callParser("x"); err == nil {
		t.Error("accepted")
	}
}

func date(y, m, d int) time.Time { return time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC) }
