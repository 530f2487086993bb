package job

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The phase of @every is its anchor: restarts, failover and the instant of
// the question do not move it.
func TestEveryAnchor(t *testing.T) {
	anchor := instant(t, "2026-01-01T00:00:07.250Z")
	s := compile(t, Timing{Expr: "@every 10m", Anchor: anchor})
	checkSeries(t, s, date(2020, 1, 1), []time.Time{anchor.Add(10 * time.Minute), anchor.Add(20 * time.Minute)})
	checkSeries(t, s, anchor, []time.Time{anchor.Add(10 * time.Minute)})
	checkSeries(t, s, instant(t, "2026-06-01T00:00:00Z"), []time.Time{instant(t, "2026-06-01T00:00:07.250Z")})

	// A starts_at of its own is a bound, not a phase.
	s = compile(t, Timing{Expr: "@every 10m", Anchor: anchor, StartsAt: instant(t, "2026-01-01T00:15:00Z")})
	checkSeries(t, s, date(2020, 1, 1), []time.Time{anchor.Add(20 * time.Minute)})

	// "Every hour from nine" includes nine.
	nine := instant(t, "2026-01-01T09:00:00Z")
	for _, timing := range []Timing{{Expr: "@every 1h", StartsAt: nine}, {Expr: "@every 1h", StartsAt: nine, Anchor: nine}} {
		checkSeries(t, compile(t, timing), date(2020, 1, 1), []time.Time{nine, nine.Add(time.Hour)})
	}

	// A preview has no anchor yet.
	checkSeries(t, compile(t, Timing{Expr: "@every 45s"}), date(2026, 1, 1), []time.Time{date(2026, 1, 1).Add(45 * time.Second)})
}

// A slot that is known gives the phase.
func TestEveryThroughASlot(t *testing.T) {
	slot := instant(t, "2026-01-01T00:07:03Z")
	s := compile(t, Timing{Expr: "@every 10m"}.Through(slot))
	checkSeries(t, s, slot.Add(-time.Second), []time.Time{slot, slot.Add(10 * time.Minute)})
	if daily := (Timing{Expr: "@daily"}).Through(slot); !daily.Anchor.IsZero() {
		t.Errorf("a cron expression has the anchor %v", daily.Anchor)
	}
}

// The anchor is an instant, so a change of the clock does not touch @every.
func TestEveryIgnoresTheZone(t *testing.T) {
	s := compile(t, Timing{Expr: "@every 24h", Anchor: instant(t, "2026-03-07T07:30:00Z"), Zone: "America/New_York"})
	checkSeries(t, s, date(2026, 3, 7), []time.Time{instant(t, "2026-03-08T07:30:00Z"), instant(t, "2026-03-09T07:30:00Z")})
}

func TestEveryMissedAgreesWithNext(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		anchor := time.UnixMilli(rapid.Int64Range(1, 4e12).Draw(t, "anchor"))
		every := time.Duration(rapid.IntRange(1, 200).Draw(t, "every")) * time.Second
		timing := Timing{Expr: "@every " + every.String(), Anchor: anchor}
		if rapid.Bool().Draw(t, "starts at the anchor") {
			timing.StartsAt = anchor
		}
		s := compile(t, timing)
		from := anchor.Add(time.Duration(rapid.Int64Range(-1e12, 1e13).Draw(t, "from")))
		to := from.Add(time.Duration(rapid.Int64Range(0, 2e12).Draw(t, "window")))
		var want []time.Time
		for at, ok := s.Next(from); ok && !at.After(to); at, ok = s.Next(at) {
			if off := at.Sub(anchor); off < 0 || off%every != 0 {
				t.Fatalf("%v is off the grid of %v from %v", at, every, anchor)
			}
			want = append(want, at)
		}
		checkMissed(t, s, from, to, want)
	})
}

func TestOnce(t *testing.T) {
	s := compile(t, Timing{Expr: " 2026-01-31T07:00:00.125+01:00 ", Zone: "America/New_York", Seconds: true})
	at := instant(t, "2026-01-31T06:00:00.125Z")
	checkSeries(t, s, date(2020, 1, 1), []time.Time{at})
	if next, ok := s.Next(at); ok {
		t.Errorf("due twice: %v", next)
	}
	if !s.Once() || compile(t, Timing{Expr: "@daily"}).Once() || compile(t, Timing{Expr: "@every 1h"}).Once() {
		t.Error("Once")
	}
	if m := s.Missed(date(2026, 1, 1), date(2027, 1, 1), 5); m.Count != 1 || len(m.Newest) != 1 || !m.First.Equal(at) || !m.Last.Equal(at) {
		t.Errorf("%+v", m)
	}
	if m := s.Missed(at, date(2027, 1, 1), 5); m.Count != 0 {
		t.Errorf("%+v", m)
	}
}

func TestHas(t *testing.T) {
	s := compile(t, Timing{Expr: "0 6 * * *"})
	for at, want := range map[string]bool{
		"2026-01-01T06:00:00Z": true, "2026-01-01T07:00:00+01:00": true,
		"2026-01-01T06:00:00.001Z": false, "2026-01-01T06:00:00.000000001Z": false, "2026-01-01T05:59:59.999Z": false, "2026-01-01T06:01:00Z": false,
	} {
		if s.Has(instant(t, at)) != want {
			t.Errorf("Has(%s) = %v", at, !want)
		}
	}
}
