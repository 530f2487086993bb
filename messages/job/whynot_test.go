package job

import (
	"strings"
	"testing"
	"time"
)

func TestWhyNot(t *testing.T) {
	berlin := Timing{Expr: "30 2 * * *", Zone: "Europe/Berlin"}
	with := func(t Timing, change func(*Timing)) Timing { change(&t); return t }
	day, _ := ParseDay("2026-12-25")
	cases := []struct {
		name   string
		t      Timing
		at     string
		reason string // a part of it; "": it is a slot
	}{
		{"a slot", berlin, "2026-03-28T01:30:00Z", ""},
		{"after the gap", berlin, "2026-03-29T01:00:00Z", ""},
		{"in the gap", berlin, "2026-03-29T01:30:00Z", "the wall time 02:30:00 does not exist on that day: clocks go from 02:00:00 to 03:00:00"},
		{"after the gap, skipped", with(berlin, func(t *Timing) { t.Gap = GapSkip }), "2026-03-29T01:00:00Z", "dst.gap: skip"},
		{"the second of two", berlin, "2026-10-25T01:30:00Z", "clocks show 02:30:00 twice on that day"},
		{"another time", berlin, "2026-03-28T01:31:00Z", "not one of the instants"},
		{"a millisecond later", berlin, "2026-03-28T01:30:00.001Z", "not one of the instants"},
		{"an excluded date", with(berlin, func(t *Timing) { t.Exclude = []Day{day} }), "2026-12-25T01:30:00Z", "2026-12-25 is one of the dates that it excludes"},
		{"before starts_at", with(berlin, func(t *Timing) { t.StartsAt = date(2026, 4, 1) }), "2026-03-28T01:30:00Z", "before starts_at, 2026-04-01T00:00:00Z"},
		{"after ends_at", with(berlin, func(t *Timing) { t.EndsAt = date(2026, 3, 1) }), "2026-03-28T01:30:00Z", "not before ends_at, 2026-03-01T00:00:00Z"},
		{"an interval", Timing{Expr: "@every 7m", Anchor: date(2026, 1, 1)}, "2026-01-01T00:08:00Z", "not one of the instants"},
		{"once", Timing{Expr: "2026-01-01T00:00:00Z"}, "2026-01-01T00:00:01Z", "it is due once, at 2026-01-01T00:00:00Z"},
		{"of several, in the gap", Timing{Expr: "0 1 * * *", Exprs: []string{"30 2 * * *"}, Zone: "Europe/Berlin"}, "2026-03-29T01:30:00Z", "does not exist"},
		{"triggered", Timing{Triggered: true}, "2026-01-01T00:00:00Z", "the jobs that it depends on"},
		{"unreadable", Timing{Expr: "61 * * * *"}, "2026-01-01T00:00:00Z", "cannot be read"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339Nano, c.at)
			if err != nil {
				t.Fatal(err)
			}
			if got := WhyNot(c.t, at); (got == "") != (c.reason == "") || !strings.Contains(got, c.reason) {
				t.Errorf("%q, want %q in it", got, c.reason)
			}
		})
	}
}

func TestPrevious(t *testing.T) {
	daily := compile(t, Timing{Expr: "30 2 * * *", Zone: "Europe/Berlin"})
	from := compile(t, Timing{Expr: "@hourly", StartsAt: date(2026, 3, 1)})
	for _, c := range []struct {
		s        *Schedule
		at, want string
	}{
		{daily, "2026-03-29T01:00:00Z", "2026-03-28T01:30:00Z"},
		{daily, "2026-03-29T01:00:00.000000001Z", "2026-03-29T01:00:00Z"},
		{compile(t, Timing{Expr: "0 0 29 2 *"}), "2026-01-01T00:00:00Z", "2024-02-29T00:00:00Z"},
		{from, "2026-03-01T00:30:00Z", "2026-03-01T00:00:00Z"},
		{from, "2026-03-01T00:00:00Z", ""},
		{from, "2020-01-01T00:00:00Z", ""},
	} {
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if p := c.s.Previous(at); !p.IsZero() {
			got = p.Format(time.RFC3339Nano)
		}
		if got != c.want {
			t.Errorf("before %s it is %q, want %q", c.at, got, c.want)
		}
	}
}
