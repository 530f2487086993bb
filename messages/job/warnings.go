package job

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Warnings names what is right by the rules of cron and yet surprises people.
// A Timing that Compile refuses has none.
func Warnings(t Timing) []string {
	es, bad := parseAll(t)
	if bad != nil || t.Triggered {
		return nil
	}
	s, err := Compile(t)
	if err != nil {
		return nil
	}
	var w []string
	if s.kind == kindEvery || s.kind == kindOnce {
		return unused(w, t, s)
	}
	if t.Seconds && slices.ContainsFunc(append([]string{t.Expr}, t.Exprs...), shorthand) {
		w = append(w, `"seconds" has no effect on a shorthand`)
	}
	if t.Spread() && t.Job == "" {
		w = append(w, "H stands for a value that is made from the job's id, and none is given: a job will run at other times than these")
	}
	for _, e := range es {
		if e.kind != kindCron {
			continue
		}
		for _, text := range warnCron(s, e, t.Seconds) {
			if !slices.Contains(w, text) {
				w = append(w, text)
			}
		}
	}
	return w
}

func warnCron(s *Schedule, e expression, seconds bool) []string {
	w := warnDays(warnSteps(nil, e), e)
	return warnClock(warnEveryMinute(w, e, seconds), s, &e.cron)
}

func shorthand(expr string) bool { return strings.HasPrefix(strings.TrimSpace(expr), "@") }

// unused warns of settings that an instant or an interval does not read.
func unused(w []string, t Timing, s *Schedule) []string {
	if t.Seconds {
		w = append(w, `"seconds" has no effect: the expression has no fields`)
	}
	if s.zone != utc {
		w = append(w, fmt.Sprintf("time_zone %s only changes how times are shown: the expression does not read a wall clock", s.zone.loc))
	}
	return w
}

// warnSteps: a step restarts with its field, so one that does not divide it
// leaves a shorter pause there (harrisiirak/cron-parser#142).
func warnSteps(w []string, e expression) []string {
	restarts := [6]string{"minute", "hour", "day", "month", "year", "week"}
	for i := range cronRules {
		r := &cronRules[i]
		items, err := r.parse(e.fields[i])
		if err != nil {
			continue
		}
		for _, it := range items {
			switch n := r.max - r.min + 1; {
			case it.step == 1 || !it.star && !it.open && (it.lo > r.min || it.hi < r.max):
			case it.open && it.lo+it.step > r.max:
				w = append(w, fmt.Sprintf("the %s field matches only %d: a step of %d from there passes %d", r.name, it.lo, it.step, r.max))
			case n%it.step != 0 || it.open && it.lo-it.step >= r.min || i == fieldDom:
				w = append(w, fmt.Sprintf("the step of %d in the %s field restarts with every %s, so the pause around its end is not %d %ss%s",
					it.step, r.name, restarts[i], it.step, stepUnit(i), evenInstead(i)))
			}
		}
	}
	return w
}

func evenInstead(field int) string {
	if cronRules[field].unit == 0 {
		return ""
	}
	return "; for an even interval use @every"
}

func stepUnit(field int) string {
	if field == fieldDom || field == fieldDow {
		return "day"
	}
	return cronRules[field].name
}

// warnDays: with both day fields either suffices (robfig/cron#118), and short
// months are skipped, never clamped (taichino/croniter PR#49).
func warnDays(w []string, e expression) []string {
	f := &e.cron
	switch {
	case f.either && (f.dom == everyDom || f.dow == everyDow):
		w = append(w, "both day fields are given and one of them has every day, so the other restricts nothing; leave the wide one at *")
	case f.either:
		w = append(w, "both day fields are given, so a day matches when either does: "+f.dayWords())
	}
	if skipped := f.marks.sometimes(); skipped != "" {
		w = append(w, skipped)
	}
	if first := bits.TrailingZeros32(f.dom); !f.either && !f.marked && first > 28 {
		for m := 1; m <= 12; m++ {
			if f.month&(1<<m) != 0 && daysIn(firstYear, m) < first {
				return append(w, fmt.Sprintf("a month without a day %d is skipped, not moved to its last day", first))
			}
		}
	}
	return w
}

// warnEveryMinute: "* 0 * * *" was meant as once a day and is 60 runs
// (hibiken/asynq#306).
func warnEveryMinute(w []string, e expression, seconds bool) []string {
	f := &e.cron
	hours := bits.OnesCount32(f.hour)
	switch {
	case seconds && e.fields[fieldSecond] == "*" && f.minute != everyMinute:
		w = append(w, "the second field is *, so it runs every second of each matching minute; for once a minute write 0")
	case e.fields[fieldMinute] == "*" && f.hour != everyHour:
		w = append(w, fmt.Sprintf("the minute field is *, so it runs every minute of each matching hour, %d times a day; for once an hour write 0", 60*hours*bits.OnesCount64(f.second)))
	}
	return w
}

// warnClock: wall times that a change of the clock skips or repeats, by the
// standing rules of the zone. Those are read off a whole Gregorian cycle, in
// which every date has met every weekday; dates already fixed may differ.
func warnClock(w []string, s *Schedule, f *cronFields) []string {
	const cycleStart = 4102444800 // 2100-01-01
	var gap, fold string
	for i := 1; i < len(s.zone.spans); i++ {
		sp := s.zone.spans[i]
		if sp.from < cycleStart || f.hour == everyHour && !f.fixed {
			continue
		}
		start, before := sp.from+sp.offset, sp.from+s.zone.spans[i-1].offset
		if at, ok := f.nextWall(before, start); ok && gap == "" {
			gap = wallClock(at)
		}
		if at, ok := f.nextWall(start, before); ok && fold == "" {
			fold = wallClock(at)
		}
	}
	if gap != "" {
		w = append(w, fmt.Sprintf("%s does not exist in %s when clocks go forward; such a run %s", gap, s.zone.loc, gapWords(s, f)))
	}
	if fold != "" {
		w = append(w, fmt.Sprintf("%s comes twice in %s when clocks go back; it runs %s", fold, s.zone.loc, foldWords(s, f)))
	}
	return w
}

func wallClock(wall int64) string {
	return clock(int(wall-floorDiv(wall, secondsPerDay)*secondsPerDay), wall%60 != 0)
}

func gapWords(s *Schedule, f *cronFields) string {
	switch {
	case !f.fixed:
		return "has no instant, because the minute or hour field begins with *; write the hours and minutes as numbers to have it moved"
	case s.gapSkip:
		return "is left out (dst.gap is skip)"
	}
	return "is made at the first instant after the gap (dst.gap)"
}

func foldWords(s *Schedule, f *cronFields) string {
	switch {
	case !f.fixed:
		return "both times, because the minute or hour field begins with *; write the hours and minutes as numbers to have it once"
	case s.foldBoth:
		return "both times (dst.fold is both)"
	}
	return "the first time only (dst.fold)"
}
