package job

import (
	"slices"
	"sort"
	"time"
)

// MaxExclude bounds how many dates may be left out of a schedule.
const MaxExclude = 366

// window is the instants in [lo, hi), milliseconds.
type window struct{ lo, hi int64 }

// ParseDay reads a date, "2026-12-25".
func ParseDay(text string) (Day, bool) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, false
	}
	return DayOf(t), true
}

func checkExclude(t Timing) *Invalid {
	if n := len(t.Exclude); n > MaxExclude {
		return Refuse("exclude", "there are %d dates, and at most %d are kept; leave out those that have passed", n, MaxExclude)
	}
	for _, d := range t.Exclude {
		if !inCalendar(d.Time()) {
			return Refuse("exclude", "%s lies outside the calendar of schedules, the years %d to %d; leave it out", d, firstYear, lastYear)
		}
	}
	return nil
}

// windows is when it is one of these dates in the zone. A date that a change of
// the clock begins a second time has two windows.
func (z *zone) windows(days []Day) []window {
	if len(days) == 0 {
		return nil
	}
	var out []window
	for _, d := range days {
		wall := int64(d) * secondsPerDay
		const most = 2 * secondsPerDay // more than any offset
		for i := z.find(wall - most); i < len(z.spans) && z.spans[i].from < wall+secondsPerDay+most; i++ {
			w := window{max(z.spans[i].from, wall-z.spans[i].offset), min(z.until(i), wall+secondsPerDay-z.spans[i].offset)}
			if w.lo < w.hi {
				out = append(out, window{w.lo * 1000, w.hi * 1000})
			}
		}
	}
	slices.SortFunc(out, func(a, b window) int { return int(max(-1, min(1, a.lo-b.lo))) })
	return slices.Compact(out)
}

// excludedAt is the window that an instant lies in.
func (s *Schedule) excludedAt(ms int64) (window, bool) {
	if s.excluded == nil {
		return window{}, false
	}
	i := sort.Search(len(s.excluded), func(i int) bool { return s.excluded[i].hi > ms })
	if i == len(s.excluded) || s.excluded[i].lo > ms {
		return window{}, false
	}
	return s.excluded[i], true
}

// excludedIn is the windows that overlap [lo, hi).
func (s *Schedule) excludedIn(lo, hi int64) []window {
	if s.excluded == nil || lo >= hi {
		return nil
	}
	i := sort.Search(len(s.excluded), func(i int) bool { return s.excluded[i].hi > lo })
	j := sort.Search(len(s.excluded), func(i int) bool { return s.excluded[i].lo >= hi })
	return s.excluded[i:j]
}

// excludeWords lists the dates; false when they are too many for words.
func excludeWords(days []Day) (string, bool) {
	if len(days) == 0 {
		return "", true
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(days)))
	parts := make([]string, len(sorted))
	for i, d := range sorted {
		parts[i] = d.String()
	}
	if len(parts) > mostParts {
		return "", false
	}
	return ", except on " + joinWords(parts), true
}
