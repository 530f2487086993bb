package job

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Describe says in plain English when a Timing is due, by the clock of its
// zone. It is exact: two Timings share a description only when they are due
// at the same wall times. What a change of the clock does to them is said by
// Warnings. When the words would be many, or the Timing is refused, or is one of
// an H without a job, it is "".
func Describe(t Timing) string {
	es, bad := parseAll(t)
	if bad != nil || t.Triggered || t.Spread() && t.Job == "" {
		return ""
	}
	s, err := Compile(t)
	if err != nil {
		return ""
	}
	except, some := excludeWords(t.Exclude)
	if !some {
		return ""
	}
	rest := boundWords(t) + except + jitterWords(t) + "."
	switch s.kind {
	case kindOnce:
		return "Once, at " + es[0].at.Format(time.RFC3339Nano) + rest
	case kindEvery:
		return "Every " + durationWords(es[0].every) + everyFrom(t) + rest
	}
	text := manyWords(es)
	if text == "" {
		return ""
	}
	return text + ", " + zoneWords(s) + rest
}

// manyWords joins the words of several expressions; "" when one has none.
func manyWords(es []expression) string {
	var parts []string
	for _, e := range es {
		text := e.cron.words()
		if e.kind == kindOnce {
			text = "Once, at " + e.at.Format(time.RFC3339Nano)
		}
		if text == "" {
			return ""
		}
		if len(parts) > 0 {
			text = strings.ToLower(text[:1]) + text[1:]
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; and also ")
}

func everyFrom(t Timing) string {
	if t.Anchor.IsZero() || t.Anchor.Equal(t.StartsAt) {
		return ""
	}
	return ", counted from " + t.Anchor.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
}

func boundWords(t Timing) string {
	text := ""
	if !t.StartsAt.IsZero() {
		text += ", starting at " + t.StartsAt.UTC().Format(time.RFC3339Nano)
	}
	if !t.EndsAt.IsZero() {
		text += ", ending before " + t.EndsAt.UTC().Format(time.RFC3339Nano)
	}
	return text
}

func zoneWords(s *Schedule) string {
	if s.zone == utc {
		return "UTC"
	}
	return s.zone.loc.String() + " time"
}

const (
	everyHour   = 1<<24 - 1
	everyMinute = 1<<60 - 1 // and every second
	everyDom    = 1<<32 - 2
	everyMonth  = 1<<13 - 2
)

// words is the time of day followed by the days, or "".
func (f *cronFields) words() string {
	of, days := f.timeWords(), f.dayWords()
	if of == "" || days == "" {
		return ""
	}
	if days == "every day" && f.hour == everyHour {
		return of
	}
	return of + " " + days
}

// timeWords says the times of day.
func (f *cronFields) timeWords() string {
	h, m, s := uint64(f.hour), f.minute, f.second
	if times := bits.OnesCount64(h) * bits.OnesCount64(m) * bits.OnesCount64(s); times <= 6 {
		return "At " + f.clockTimes()
	}
	if s == 1 {
		return f.minuteWords("")
	}
	if m == everyMinute {
		if start, step, ok := rhythm(s); ok {
			return f.rhythmWords("second", start, step)
		}
	}
	if s == everyMinute {
		return f.minuteWords("every second")
	}
	list := listWords(s)
	if list == "" {
		return ""
	}
	return f.minuteWords(plural("second", s, list))
}

// clockTimes lists the times of day one by one.
func (f *cronFields) clockTimes() string {
	var times []string
	for sod, ok := f.nextTime(0); ok; sod, ok = f.nextTime(sod + 1) {
		times = append(times, clock(sod, f.second != 1))
	}
	return joinWords(times)
}

func clock(sod int, seconds bool) string {
	if seconds {
		return fmt.Sprintf("%02d:%02d:%02d", sod/3600, sod/60%60, sod%60)
	}
	return fmt.Sprintf("%02d:%02d", sod/3600, sod/60%60)
}

// minuteWords says minutes and hours, after the words for seconds if any.
func (f *cronFields) minuteWords(seconds string) string {
	if start, step, ok := rhythm(f.minute); ok && seconds == "" {
		if text := f.rhythmWords("minute", start, step); text != "" {
			return text
		}
	}
	hours := f.hourWords()
	minutes := listWords(f.minute)
	switch {
	case hours == "" || minutes == "":
		return ""
	case f.minute == everyMinute:
		minutes = "every minute"
	default:
		minutes = plural("minute", f.minute, minutes)
	}
	if seconds != "" {
		minutes = seconds + " of " + minutes
	}
	return "At " + minutes + " of " + hours
}

// rhythmWords says "every n minutes" (or seconds) of the wall clock. A fixed
// schedule names hours and does not run in a repeated one, so it says so.
func (f *cronFields) rhythmWords(unit string, start, step int) string {
	text := "Every " + unit
	if step > 1 {
		text = fmt.Sprintf("Every %d %ss", step, unit)
	}
	if start > 0 {
		text += fmt.Sprintf(", beginning with %s %d", unit, start)
	}
	switch lo, hi, ok := contiguous(uint64(f.hour)); {
	case f.hour == everyHour && f.fixed:
		return text + " of hours 0 to 23"
	case f.hour == everyHour:
		return text
	case ok && start == 0:
		last := 3600*(hi+1) - step
		if unit == "minute" {
			last = 3600*(hi+1) - 60*step
		}
		return text + " from " + clock(lo*3600, unit == "second") + " through " + clock(last, unit == "second")
	}
	hours := f.hourWords()
	if hours == "" {
		return ""
	}
	return text + " of " + hours
}

// hourWords says the hours. "Every hour" includes one that comes twice;
// "hours 0 to 23" are names on the clock, and a fixed schedule has only those.
func (f *cronFields) hourWords() string {
	if f.hour == everyHour && !f.fixed {
		return "every hour"
	}
	list := listWords(uint64(f.hour))
	if list == "" {
		return ""
	}
	return plural("hour", uint64(f.hour), list)
}

// dayWords says the days, months and years.
func (f *cronFields) dayWords() string {
	text := "every day"
	anyDom, anyDow := f.dom == everyDom, f.dow == everyDow
	dates, some := f.dateWords()
	if !some {
		return ""
	}
	weekdays := f.weekWords()
	switch {
	case f.either && !anyDom && !anyDow:
		text = dates + " and also " + weekdays
	case f.either: // one of the two is every day, so the other adds nothing
	case !anyDom:
		text = dates
	case !anyDow:
		text = weekdays
	}
	if f.month != everyMonth {
		text += " in " + namedWords(uint64(f.month), monthWord)
	}
	if f.years == nil {
		return text
	}
	years := f.years.words()
	if years == "" {
		return ""
	}
	return text + ", in " + years
}

// dateWords says the days of the month; false when that takes too many words.
func (f *cronFields) dateWords() (string, bool) {
	parts := f.marks.dateWords()
	if f.dom != 0 {
		list := listWords(uint64(f.dom))
		if list == "" {
			return "", false
		}
		parts = append([]string{"on " + plural("day", uint64(f.dom), list) + " of the month"}, parts...)
	}
	return strings.Join(parts, " and "), len(parts) <= mostParts
}

func (f *cronFields) weekWords() string {
	parts := f.marks.weekWords()
	if f.dow != 0 {
		parts = append([]string{"on " + namedWords(uint64(f.dow), weekdayWord)}, parts...)
	}
	return strings.Join(parts, " and ")
}
