package job

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

// Every answer is later than the question, is a slot, and skips none.
func checkStep(t *testing.T, s *Schedule, at time.Time) time.Time {
	next, ok := s.Next(at)
	if !ok {
		return calendarEnd
	}
	if !next.After(at) || next.Nanosecond()%1e6 != 0 || next.Location() != time.UTC {
		t.Fatalf("Next(%v) = %v", at, next)
	}
	if !s.Has(next) {
		t.Fatalf("%v is no slot", next)
	}
	if m := s.Missed(at, next, 2); m.Count != 1 || len(m.Newest) != 1 || !m.First.Equal(next) {
		t.Fatalf("between %v and its next %v: %+v", at, next, m)
	}
	return next
}

func FuzzCompile(f *testing.F) {
	for _, c := range refusals {
		if len(c.timing.Expr) < 100 {
			f.Add(c.timing.Expr, c.timing.Zone, c.timing.Seconds)
		}
	}
	for _, expr := range []string{"*/15 9-17 * jan-mar,dec mon-fri", "0 0 29 2 *", "@every 1h30m", "2026-01-01T00:00:00+05:30", "0 0 1,15 * ?", "0 0 L,15W,LW,L-3 * ?", "0 12 ? * mon#1,5L", "H(0-29)/10 H * * *", "0 0 29 2 * 2028-2040/4"} {
		f.Add(expr, "Europe/Berlin", false)
	}
	f.Add("*/10 0 0 1 1 sun", "Pacific/Apia", true)
	fields := []string{"schedule_expr", "time_zone"}
	f.Fuzz(func(t *testing.T, expr, zone string, seconds bool) {
		timing := Timing{Expr: expr, Zone: zone, Seconds: seconds}
		s, err := Compile(timing)
		_, _ = Describe(timing), Warnings(timing)
		if err != nil {
			var bad *Invalid
			if !errors.As(err, &bad) || len(bad.Problems) == 0 {
				t.Fatalf("%q: %v", expr, err)
			}
			for _, p := range bad.Problems {
				if !slices.Contains(fields, p.Field) || p.Message == "" || len(p.Message) > 600 {
					t.Fatalf("%q: %+v", expr, p)
				}
			}
			return
		}
		at := date(2026, 1, 1)
		if s.Once() {
			at = date(1969, 1, 1)
		}
		for range 5 {
			at = checkStep(t, s, at)
		}
	})
}

func FuzzNext(f *testing.F) {
	f.Add("30 2 * * *", uint16(0), int64(1_772_000_000_000), false, false)
	f.Add("0 0 * * *", uint16(7), int64(1_788_600_000_000), true, false)
	f.Add("*/15 2 * * *", uint16(4), int64(4_102_444_799_999), false, true)
	f.Add("0 0 29 2 *", uint16(8), int64(-62_135_596_800_000), true, true)
	f.Add("@every 7s", uint16(2), int64(1<<62), true, true)
	f.Add("59 23 31 12 *", uint16(11), int64(-1<<63), false, false)
	f.Fuzz(func(t *testing.T, expr string, zone uint16, ms int64, skip, both bool) {
		names := zoneList()
		timing := Timing{Expr: expr, Zone: names[int(zone)%len(names)]}
		if skip {
			timing.Gap = GapSkip
		}
		if both {
			timing.Fold = FoldBoth
		}
		s, err := Compile(timing)
		if err != nil {
			return
		}
		at := time.UnixMilli(ms)
		for range 8 {
			if at = checkStep(t, s, at); !at.Before(calendarEnd) {
				return
			}
		}
	})
}

// Shared by many jobs, a Schedule is asked by many goroutines and costs no
// memory.
func TestNextAllocatesNothing(t *testing.T) {
	at := date(2026, 3, 1)
	for _, timing := range []Timing{{Expr: "*/5 * * * *"}, {Expr: "30 2 * * 1-5", Zone: "America/New_York"}, {Expr: "@every 10s"}, {Expr: "0 0 29 2 *"}} {
		s := compile(t, timing)
		if n := testing.AllocsPerRun(100, func() { at, _ = s.Next(at) }); n > 0 {
			t.Errorf("%q: %v allocations", timing.Expr, n)
		}
	}
}

// Where the clock never changes the library and we agree, so what it reads is
// what we run.
func TestAgreesWithLibraryInUTC(t *testing.T) {
	for _, expr := range []string{"*/7 3-9 * * *", "5/13 */5 1-10/3 * *", "0 12 * feb-may/2 tue,thu", "1,2,50 0 13 * fri", "0 0 31 * *", "59 23 29 2 *"} {
		lib, err := cron.ParseStandard(expr)
		if err != nil {
			t.Fatal(err)
		}
		s, at := compile(t, Timing{Expr: expr}), date(2026, 1, 1)
		for range 300 {
			next, _ := s.Next(at)
			if want := lib.Next(at); !next.Equal(want) {
				t.Fatalf("%q after %v: %v, the library says %v", expr, at, next, want)
			}
			if at = next; at.Year() > 2090 {
				break
			}
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for name, timing := range map[string]Timing{
		"utc minutely": {Expr: "*/5 * * * *"},
		"utc weekdays": {Expr: "0 6 * * 1-5"},
		"utc leap day": {Expr: "0 0 29 2 *"},
		"zone":         {Expr: "30 2 * * *", Zone: "America/New_York"},
		"every":        {Expr: "@every 10m"},
	} {
		b.Run(name, func(b *testing.B) {
			s, start := compile(b, timing), date(2026, 1, 1)
			at := start
			b.ReportAllocs()
			for b.Loop() {
				var ok bool
				if at, ok = s.Next(at); !ok || at.Year() > 2100 {
					at = start
				}
			}
		})
	}
}

func BenchmarkMissed(b *testing.B) {
	for name, timing := range map[string]Timing{
		"cron seconds": {Expr: "*/5 * * * * *", Seconds: true},
		"cron zone":    {Expr: "*/5 * * * * *", Seconds: true, Zone: "America/New_York"},
		"every":        {Expr: "@every 5s"},
	} {
		b.Run(name, func(b *testing.B) {
			s, from := compile(b, timing), date(2026, 3, 1)
			to := from.AddDate(0, 0, 14)
			b.ReportAllocs()
			for b.Loop() {
				if m := s.Missed(from, to, 100); m.Count != 241_920 {
					b.Fatal(m.Count)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		compile(b, Timing{Expr: "*/15 9-17 * * mon-fri", Zone: "Europe/Berlin"})
	}
}
