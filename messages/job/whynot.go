package job

import (
	"fmt"
	"time"
)

// WhyNot says why an instant is none of a schedule's slots; "" when it is one.
// The reason is what makes the difference: without it the instant would be one.
func WhyNot(t Timing, at time.Time) string {
	s, err := Compile(t)
	switch {
	case err != nil:
		return "its schedule cannot be read: " + err.Error()
	case t.Triggered:
		return "it has no slots: the jobs that it depends on trigger it"
	case s.Has(at):
		return ""
	}
	local := s.In(at)
	for _, rule := range []struct {
		reason string
		lift   func(*Timing)
	}{
		{local.Format(time.DateOnly) + " is one of the dates that it excludes", func(t *Timing) { t.Exclude = nil }},
		{"it is before starts_at, " + stamp(t.StartsAt), func(t *Timing) { t.StartsAt = time.Time{} }},
		{"it is not before ends_at, " + stamp(t.EndsAt), func(t *Timing) { t.EndsAt = time.Time{} }},
		{fmt.Sprintf("clocks show %s twice on that day, and it is due at the first time (dst.fold: first)", local.Format("15:04:05")), func(t *Timing) { t.Fold = FoldBoth }},
		{"clocks skip the wall time that it would be due at on that day, and it does not make up for that (dst.gap: skip)", func(t *Timing) { t.Gap = GapRunAfter }},
	} {
		other := t
		rule.lift(&other)
		if without, err := Compile(other); err == nil && without.Has(at) {
			return rule.reason
		}
	}
	if why := s.skippedBy(at); why != "" {
		return why
	}
	if s.kind == kindOnce {
		return "it is due once, at " + stamp(time.UnixMilli(s.grid.anchor))
	}
	return "it is not one of the instants of its schedule"
}

// skippedBy tells of a slot that was to be at an instant, had a change of the
// clock not skipped its wall time.
func (s *Schedule) skippedBy(at time.Time) string {
	sec := at.Unix()
	i := s.zone.find(sec)
	if i == 0 {
		return ""
	}
	from, before, after := s.zone.spans[i].from, s.zone.spans[i-1].offset, s.zone.spans[i].offset
	wall := sec + before // what the clock would have shown
	if wall >= from+after || !s.onWall(wall) {
		return ""
	}
	show := func(wall int64) string { return time.Unix(wall, 0).UTC().Format("15:04:05") }
	return fmt.Sprintf("the wall time %s does not exist on that day: clocks go from %s to %s", show(wall), show(from+before), show(from+after))
}

// onWall tells whether any expression has a wall time.
func (s *Schedule) onWall(wall int64) bool {
	var crons []cronFields
	switch s.kind {
	case kindCron:
		crons = []cronFields{s.cron}
	case kindMany:
		crons = s.many.crons
	}
	for i := range crons {
		if _, ok := crons[i].nextWall(wall, wall+1); ok {
			return true
		}
	}
	return false
}

// Previous is the newest slot before an instant; zero when there is none.
func (s *Schedule) Previous(before time.Time) time.Time {
	hi, start := afterMilli(before.Add(-time.Nanosecond)), max(calendarStart.UnixMilli(), s.from)
	for step := time.Hour.Milliseconds(); ; step *= 4 {
		lo := max(hi-step, start)
		if n := s.countMilli(lo, hi); n > 0 {
			return s.nth(lo, hi, n)
		}
		if lo == start || hi <= start {
			return time.Time{}
		}
	}
}
