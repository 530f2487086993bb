package job

import (
	"archive/zip"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every listed name loads, its spans ascend, and two changes of a clock are
// never so close that a wall time could fall into both: walltime.go looks one
// seam back only.
func TestEveryZone(t *testing.T) {
	t.Parallel()
	for _, name := range zoneList() {
		z, bad := loadZone(name)
		if bad != nil {
			t.Errorf("%s: %v", name, bad)
			continue
		}
		for i := 1; i < len(z.spans); i++ {
			a, b := z.spans[i-1], z.spans[i]
			if b.from <= a.from || b.offset == a.offset {
				t.Fatalf("%s: span %d: %v after %v", name, i, b, a)
			}
			if i > 1 && b.from-a.from < 48*3600 {
				t.Errorf("%s: two changes within two days of %v", name, time.Unix(b.from, 0).UTC())
			}
		}
	}
}

// The table agrees with the standard library at any instant of the calendar,
// the last days of leap years included.
func TestSpansAgreeWithLocation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zoneList()).Draw(t, "zone")
		z, bad := loadZone(name)
		if bad != nil {
			t.Fatal(bad)
		}
		at := time.Unix(rapid.Int64Range(-5_000_000_000, calendarEnd.Unix()-1).Draw(t, "instant"), 0)
		if rapid.Bool().Draw(t, "leap day's year end") {
			year := 4 * rapid.IntRange(475, 624).Draw(t, "year")
			at = date(year, 12, 30).Add(time.Duration(rapid.Int64Range(0, int64(72*time.Hour)).Draw(t, "hour")))
		}
		i := z.find(at.Unix())
		if _, want := at.In(z.loc).Zone(); z.spans[i].offset != int64(want) {
			t.Fatalf("%s at %v: offset %d, want %d", name, at.UTC(), z.spans[i].offset, want)
		}
		if z.spans[i].from > at.Unix() || z.until(i) <= at.Unix() {
			t.Fatalf("%s: %v is not in span %d", name, at.UTC(), i)
		}
	})
}

// The list is the one of the toolchain that is linked in. When a new Go
// brings new names this fails: add them to zones.txt.
func TestZoneListIsCurrent(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var names []string
	for _, f := range archive.File {
		if !strings.HasSuffix(f.Name, "/") && f.Name != "Factory" { // Factory: "no zone was chosen"
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, zoneList()) {
		t.Errorf("zones.txt has %d names, the toolchain %d", len(zoneList()), len(names))
	}
}

// C52: without the embedded database a machine with no zone files knows UTC only.
func TestZoneDatabaseIsEmbedded(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "zone.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range f.Imports {
		if imp.Path.Value == `"time/tzdata"` {
			return
		}
	}
	t.Error("zone.go does not import time/tzdata")
}

func TestZoneIsShared(t *testing.T) {
	a, _ := loadZone("Europe/Berlin")
	b, _ := loadZone("Europe/Berlin")
	if a != b {
		t.Error("two tables for one zone")
	}
	for _, name := range []string{"", "UTC"} {
		if z, bad := loadZone(name); bad != nil || z != utc {
			t.Errorf("%q is not UTC", name)
		}
	}
}

func TestIn(t *testing.T) {
	s := compile(t, Timing{Expr: "0 6 * * *", Zone: "Europe/Berlin"})
	if got := s.In(instant(t, "2026-07-01T04:00:00Z")).Format(time.RFC3339); got != "2026-07-01T06:00:00+02:00" {
		t.Error(got)
	}
}

func TestCivil(t *testing.T) {
	t.Parallel()
	for day := dayNumber(1890, 1, 1); day < dayNumber(2501, 1, 1); day++ {
		y, m, d := civil(day)
		at := time.Unix(day*secondsPerDay, 0).UTC()
		if at.Year() != y || int(at.Month()) != m || at.Day() != d || int(at.Weekday()) != weekdayOf(day) || dayNumber(y, m, d) != day {
			t.Fatalf("day %d is %d-%d-%d, weekday %d; want %v", day, y, m, d, weekdayOf(day), at)
		}
		if d == daysIn(y, m) != (at.AddDate(0, 0, 1).Day() == 1) {
			t.Fatalf("%v: %d days in the month", at, daysIn(y, m))
		}
	}
	if y, m, d := civil(dayNumber(1, 1, 1)); y != 1 || m != 1 || d != 1 {
		t.Errorf("year 1 begins on %d-%d-%d", y, m, d)
	}
}
