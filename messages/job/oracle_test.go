package job

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The oracle says when a schedule is due by looking at every minute (or
// second) that really passes, reading the wall clock there, and applying the
// rules of gap and fold word for word. It shares no code with the package:
// even the expressions are made together with their meaning, not parsed.

type oracleField struct {
	text  string
	set   map[int]bool
	marks []func(time.Time) bool // of L, W and #: whether a day is meant
}

func (f oracleField) hasDay(v int, w time.Time) bool {
	for _, is := range f.marks {
		if is(w) {
			return true
		}
	}
	return f.set[v]
}

type oracleExpr struct {
	second, minute, hour, dom, month, dow, year oracleField
	seconds                                     bool
}

func (e oracleExpr) text() string {
	fields := []string{e.minute.text, e.hour.text, e.dom.text, e.month.text, e.dow.text}
	if e.seconds {
		fields = append([]string{e.second.text}, fields...)
	}
	if e.year.text != "" {
		fields = append(fields, e.year.text)
	}
	return strings.Join(fields, " ")
}

func (e oracleExpr) fixed() bool {
	return !strings.HasPrefix(e.minute.text, "*") && !strings.HasPrefix(e.hour.text, "*")
}

// matches judges a wall time, given as the same reading in UTC.
func (e oracleExpr) matches(w time.Time) bool {
	if !e.second.set[w.Second()] || !e.minute.set[w.Minute()] || !e.hour.set[w.Hour()] || !e.month.set[int(w.Month())] {
		return false
	}
	if e.year.text != "" && !e.year.set[w.Year()] {
		return false
	}
	dom, dow := e.dom.hasDay(w.Day(), w), e.dow.hasDay(int(w.Weekday()), w)
	unrestricted := func(text string) bool { return text == "*" || text == "?" }
	if unrestricted(e.dom.text) || unrestricted(e.dow.text) {
		return dom && dow
	}
	return dom || dow
}

// slots lists what is due in (from, to]. lead is how far back a repeated wall
// time may have been.
func (e oracleExpr) slots(loc *time.Location, gap GapRule, fold FoldRule, from, to time.Time, step, lead time.Duration) []time.Time {
	wall := func(t time.Time) time.Time {
		l := t.In(loc)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
	}
	seen := map[time.Time]bool{}
	var due []time.Time
	at := from.Truncate(step).Add(-lead)
	before := wall(at.Add(-step))
	for ; !at.After(to); at = at.Add(step) {
		now := wall(at)
		hit := e.matches(now) && !(e.fixed() && fold == FoldFirst && seen[now])
		if e.fixed() && gap == GapRunAfter {
			for missing := before.Add(step); missing.Before(now); missing = missing.Add(step) {
				hit = hit || e.matches(missing)
			}
		}
		if hit && at.After(from) {
			due = append(due, at)
		}
		seen[now] = true
		before = now
	}
	return due
}

var oracleNames = map[string][]string{
	"month": {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"},
	"dow":   {"sun", "mon", "tue", "wed", "thu", "fri", "sat"},
}

// drawField makes one field: a star, or a list of elements.
func drawField(t *rapid.T, name string, lo, hi int, starry int) oracleField {
	f := oracleField{set: map[int]bool{}}
	if rapid.IntRange(0, 9).Draw(t, name+" star") < starry {
		f.text = "*"
		for v := lo; v <= hi; v++ {
			f.set[v] = true
		}
		return f
	}
	var parts []string
	for range rapid.IntRange(1, 3).Draw(t, name+" elements") {
		parts = append(parts, f.drawElement(t, name, lo, hi))
	}
	f.text = strings.Join(parts, ",")
	return f
}

func (f *oracleField) drawElement(t *rapid.T, name string, lo, hi int) string {
	add := func(from, to, step int) {
		for v := from; v <= to; v += step {
			f.set[v%map[bool]int{true: 7, false: 1000}[name == "dow"]] = true
		}
	}
	word := func(v int) string {
		if names := oracleNames[name]; names != nil && rapid.Bool().Draw(t, name+" named") {
			return names[(v-lo)%len(names)]
		}
		return fmt.Sprint(v)
	}
	a := rapid.IntRange(lo, hi).Draw(t, name+" from")
	switch rapid.SampledFrom([]string{"value", "value", "range", "range step", "star step", "open step"}).Draw(t, name+" shape") {
	case "range":
		b := rapid.IntRange(a, hi+map[bool]int{true: 1}[name == "dow"]).Draw(t, name+" to")
		add(a, b, 1)
		return word(a) + "-" + fmt.Sprint(b)
	case "range step":
		b := rapid.IntRange(a, hi).Draw(t, name+" to")
		step := rapid.IntRange(1, max(1, b-a)).Draw(t, name+" step")
		add(a, b, step)
		return fmt.Sprintf("%d-%d/%d", a, b, step)
	case "star step":
		step := rapid.IntRange(1, hi-lo).Draw(t, name+" step")
		add(lo, hi, step)
		return fmt.Sprintf("*/%d", step)
	case "open step":
		step := rapid.IntRange(1, hi-lo).Draw(t, name+" step")
		add(a, hi, step)
		return fmt.Sprintf("%d/%d", a, step)
	}
	add(a, a, 1)
	return word(a)
}

func drawExpr(t *rapid.T, seconds bool) oracleExpr {
	e := oracleExpr{seconds: seconds, second: oracleField{text: "0", set: map[int]bool{0: true}}}
	if seconds {
		e.second = drawField(t, "second", 0, 59, 3)
	}
	e.minute = drawField(t, "minute", 0, 59, 3)
	e.hour = drawField(t, "hour", 0, 23, 3)
	e.dom = drawField(t, "dom", 1, 31, 7)
	e.month = drawField(t, "month", 1, 12, 8)
	e.dow = drawField(t, "dow", 0, 6, 6)
	drawMarks(t, "dom", &e.dom, drawDateMark)
	drawMarks(t, "dow", &e.dow, drawWeekdayMark)
	if rapid.IntRange(0, 9).Draw(t, "years") == 0 {
		from := rapid.IntRange(2015, 2035).Draw(t, "year from")
		to := rapid.IntRange(from, 2036).Draw(t, "year to")
		e.year = oracleField{text: fmt.Sprintf("%d-%d", from, to), set: map[int]bool{}}
		for v := from; v <= to; v++ {
			e.year.set[v] = true
		}
	}
	return e
}

var oracleZones = []string{
	"UTC", "America/New_York", "Europe/Berlin", "Europe/Dublin", "Australia/Lord_Howe", "Antarctica/Troll",
	"Africa/Cairo", "America/Santiago", "Pacific/Apia", "America/Caracas", "Asia/Pyongyang", "Antarctica/Casey",
	"Africa/Casablanca", "Asia/Tehran", "Asia/Kathmandu", "America/St_Johns", "Pacific/Norfolk", "Pacific/Chatham",
	"Europe/Moscow", "America/Havana", "Asia/Gaza", "Atlantic/Azores", "America/Nuuk", "Pacific/Kiritimati",
}

func oracleLocation(t *rapid.T) *time.Location {
	loc, err := time.LoadLocation(rapid.SampledFrom(oracleZones).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// drawInstant is an instant of 2015 to 2035, most of the time a little before
// a change of the zone's clock.
func drawInstant(t *rapid.T, loc *time.Location, near time.Duration) time.Time {
	const first, last = 1420070400, 2051222400 // 2015, 2035
	at := time.Unix(rapid.Int64Range(first, last).Draw(t, "instant"), 0)
	if rapid.IntRange(0, 9).Draw(t, "anywhere") == 0 {
		return at
	}
	offset := func(t time.Time) int { _, o := t.In(loc).Zone(); return o }
	for range 400 {
		if offset(at) != offset(at.Add(24*time.Hour)) {
			for offset(at) == offset(at.Add(time.Minute)) {
				at = at.Add(time.Minute)
			}
			return at.Add(-time.Duration(rapid.Int64Range(0, int64(near)).Draw(t, "before")))
		}
		at = at.Add(24 * time.Hour)
	}
	return at
}

func TestAgreesWithEveryMinute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		loc := oracleLocation(t)
		from := drawInstant(t, loc, 30*time.Hour)
		compareWithOracle(t, drawExpr(t, false), loc, from, from.Add(50*time.Hour), time.Minute, 30*time.Hour)
	})
}

func TestAgreesWithEverySecond(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		loc := oracleLocation(t)
		from := drawInstant(t, loc, 90*time.Minute)
		compareWithOracle(t, drawExpr(t, true), loc, from, from.Add(3*time.Hour), time.Second, 4*time.Hour)
	})
}

func compareWithOracle(t *rapid.T, e oracleExpr, loc *time.Location, from, to time.Time, step, lead time.Duration) {
	gap := rapid.SampledFrom([]GapRule{GapRunAfter, GapSkip}).Draw(t, "gap")
	fold := rapid.SampledFrom([]FoldRule{FoldFirst, FoldBoth}).Draw(t, "fold")
	s, err := Compile(Timing{Expr: e.text(), Seconds: e.seconds, Zone: loc.String(), Gap: gap, Fold: fold})
	if err != nil {
		if strings.Contains(err.Error(), "can never fire") && e.neverMatches() {
			return
		}
		t.Fatalf("%q: %v", e.text(), err)
	}
	want := e.slots(loc, gap, fold, from, to, step, lead)
	var got []time.Time
	for at, ok := s.Next(from); ok && !at.After(to); at, ok = s.Next(at) {
		got = append(got, at)
		if len(got) > len(want) {
			break
		}
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !got[i].Equal(want[i]) {
			t.Fatalf("%q in %s, gap %s, fold %s, (%v, %v]\ngot  %v\nwant %v", e.text(), loc, gap, fold, from, to, got[max(0, i-2):min(i+3, len(got))], want[max(0, i-2):min(i+3, len(want))])
		}
	}
	checkMissed(t, s, from, to, want)
}

// neverMatches looks at every day of 28 years, in which every date has met every
// weekday.
func (e oracleExpr) neverMatches() bool {
	for day := date(2012, 1, 1); day.Year() < 2040; day = day.AddDate(0, 0, 1) {
		probe := e
		probe.second.set, probe.minute.set, probe.hour.set = map[int]bool{0: true}, map[int]bool{0: true}, map[int]bool{0: true}
		if probe.matches(day) {
			return false
		}
	}
	return true
}

func checkMissed(t *rapid.T, s *Schedule, from, to time.Time, want []time.Time) {
	keep := rapid.IntRange(0, 7).Draw(t, "keep")
	m := s.Missed(from, to, keep)
	if m.Count != int64(len(want)) {
		t.Fatalf("Missed counts %d, want %d", m.Count, len(want))
	}
	if len(want) == 0 {
		if !m.First.IsZero() || !m.Last.IsZero() || m.Newest != nil {
			t.Fatalf("nothing missed, and yet %+v", m)
		}
		return
	}
	if !m.First.Equal(want[0]) || !m.Last.Equal(want[len(want)-1]) {
		t.Fatalf("Missed from %v to %v, want %v to %v", m.First, m.Last, want[0], want[len(want)-1])
	}
	newest := want[max(0, len(want)-keep):]
	if len(m.Newest) != len(newest) {
		t.Fatalf("%d newest, want %d", len(m.Newest), len(newest))
	}
	for i := range newest {
		if !m.Newest[i].Equal(newest[i]) {
			t.Fatalf("newest %d is %v, want %v", i, m.Newest[i], newest[i])
		}
	}
}
