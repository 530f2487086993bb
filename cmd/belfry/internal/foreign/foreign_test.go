package foreign

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfry-scheduler/belfry/messages/job"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func times(f Fires, from, to time.Time) string {
	var out []string
	for at := range f(from, to) {
		out = append(out, at.UTC().Format("02T15:04"))
	}
	return strings.Join(out, " ")
}

// What cron does at changes of the clock and with two day fields.
func TestVixie(t *testing.T) {
	for _, c := range []struct{ expr, zone, from, to, want string }{
		{"30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "2026-03-10T12:00:00Z", "08T07:00 09T06:30 10T06:30"},
		{"0,30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-09T00:00:00Z", "08T07:00 08T07:00"}, // one after another
		{"30 2,3 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-09T00:00:00Z", "08T07:00 08T07:30"},
		{"*/30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-09T07:00:00Z", "09T06:00 09T06:30"},
		{"30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", "2026-11-02T12:00:00Z", "01T05:30 02T06:30"},
		{"30 * * * *", "America/New_York", "2026-11-01T05:00:00Z", "2026-11-01T08:00:00Z", "01T05:30 01T06:30 01T07:30"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-31T12:00:00Z", "29T22:00 30T22:00"}, // a day is too far
		{"0 9 13 * 5", "UTC", "2026-01-01T00:00:00Z", "2026-01-14T00:00:00Z", "02T09:00 09T09:00 13T09:00"},
		{"0 9 */2 * 1", "UTC", "2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z", "05T09:00 19T09:00"}, // both
		{"0 9 1-31 * 1", "UTC", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", "01T09:00 02T09:00"},
		{"0 0 * * sun,7", "UTC", "2026-01-01T00:00:00Z", "2026-01-12T00:00:00Z", "04T00:00 11T00:00"},
		{"@daily", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:01Z", "01T00:00 02T00:00"},
	} {
		f, err := Vixie(c.expr, location(t, c.zone))
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		if got := times(f, at(t, c.from), at(t, c.to)); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.expr, c.zone, got, c.want)
		}
	}
	for _, bad := range []string{"", "* * * *", "5/15 * * * *", "60 * * * *", "* * * * fri-mon", "*/0 * * * *", "0 0 L * *", "@every 5m", "0 0 * january *"} {
		if _, err := Vixie(bad, time.UTC); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// The library's own answers, as cases/vectors record them.
func TestRobfig(t *testing.T) {
	for _, c := range []struct{ expr, zone, from, to, want string }{
		{"30 2 * * *", "America/New_York", "2026-03-08T06:30:00Z", "2026-03-10T12:00:00Z", "09T06:30 10T06:30"},
		{"30 1 * * *", "America/New_York", "2026-11-01T04:58:00Z", "2026-11-02T12:00:00Z", "01T05:30 01T06:30 02T06:30"},
		{"0 9 */1 * 5", "UTC", "2026-01-01T00:00:00Z", "2026-01-10T00:00:00Z", "02T09:00 09T09:00"},
		{"*/90 * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z", "01T00:00 01T01:00"},
	} {
		f, err := Robfig(c.expr, location(t, c.zone), false)
		if err != nil {
			t.Fatal(err)
		}
		if got := times(f, at(t, c.from), at(t, c.to)); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.expr, c.zone, got, c.want)
		}
	}
	if f, err := Robfig("@every 5m", time.UTC, true); f != nil || err != nil {
		t.Errorf("an interval: %v", err)
	}
	for _, bad := range []string{"TZ=0", "TZ=", "* * * * *", "0 0 0 * * 7"} {
		if _, err := Robfig(bad, time.UTC, true); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if zone, fields := CutZone("CRON_TZ=Asia/Tokyo 0 0 * * *"); zone != "Asia/Tokyo" || fields != "0 0 * * *" {
		t.Errorf("%s, %s", zone, fields)
	}
}

// In UTC, with one day field, all three are one: written apart, they agree.
func TestAllAgreeInUTC(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		field := func(name string, lo, hi int) string {
			a := rapid.IntRange(lo, hi-1).Draw(t, name)
			b := rapid.IntRange(a+1, hi).Draw(t, name+" to")
			return rapid.SampledFrom([]string{"*", fmt.Sprint(a), fmt.Sprintf("%d-%d", a, b), fmt.Sprintf("%d,%d", a, b), fmt.Sprintf("*/%d", max(1, min(a, hi-lo)))}).Draw(t, name+" form")
		}
		expr := field("minute", 0, 59) + " " + field("hour", 0, 23) + " " + field("dom", 1, 28) + " " + field("month", 1, 12) + " *"
		if rapid.Bool().Draw(t, "by week") {
			expr = field("minute", 0, 59) + " " + field("hour", 0, 23) + " * " + field("month", 1, 12) + " " + field("dow", 0, 6)
		}
		from := time.Unix(rapid.Int64Range(1.6e9, 2e9).Draw(t, "from"), 0)
		to := from.AddDate(0, 0, 40)
		ours, err := job.Compile(job.Timing{Expr: expr})
		if err != nil {
			return // a step that we refuse and they read
		}
		cron, err := Vixie(expr, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		library, err := Robfig(expr, time.UTC, false)
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range map[string]Fires{"cron": cron, "the library": library} {
			for d := range Compare(f, ours, from, to) {
				t.Fatalf("%s: %s and we differ: %+v", expr, name, d)
			}
		}
	})
}

func TestCompare(t *testing.T) {
	zone := location(t, "America/New_York")
	ours, err := job.Compile(job.Timing{Expr: "0,30 2 * * *", Zone: "America/New_York"})
	if err != nil {
		t.Fatal(err)
	}
	from, to := at(t, "2026-03-01T00:00:00Z"), at(t, "2026-12-01T00:00:00Z")
	cron, _ := Vixie("0,30 2 * * *", zone)
	library, _ := Robfig("0,30 2 * * *", zone, false)
	gap := at(t, "2026-03-08T07:00:00Z")
	if got := slices.Collect(Compare(cron, ours, from, to)); !slices.EqualFunc(got, []Difference{{gap, 2, 1}}, same) {
		t.Errorf("cron: %+v", got)
	}
	if got := slices.Collect(Compare(library, ours, from, to)); !slices.EqualFunc(got, []Difference{{gap, 0, 1}}, same) {
		t.Errorf("the library: %+v", got)
	}
	if !Changes(zone, gap) || Changes(zone, gap.Add(24*time.Hour)) {
		t.Error("when the clock changes")
	}
	for range Compare(library, ours, from, to) {
		break // whoever has seen enough may stop
	}
}

func same(a, b Difference) bool { return a.At.Equal(b.At) && a.There == b.There && a.Here == b.Here }
