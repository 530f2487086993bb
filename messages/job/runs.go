package job

import "time"

// A job with max_runs is given that many slots of its schedule, whatever becomes
// of them: one that is missed or skipped counts as well. So its schedule has a
// last slot, and Until is the schedule that ends with it.

// Until is the schedule without the slots that are later than an instant.
func (s *Schedule) Until(last time.Time) *Schedule {
	out := *s
	out.to = min(s.to, afterMilli(last))
	return &out
}

// First is the schedule that ends with its n-th slot after an instant; for n = 0
// it does not end.
func (s *Schedule) First(n int64, after time.Time) *Schedule {
	if n == 0 {
		return s
	}
	return s.Until(s.Nth(after, n))
}

// RunsFrom is the instant after which max_runs counts, of a registration at some
// instant: that is it, or starts_at if that has passed.
func (t Timing) RunsFrom(at time.Time) time.Time {
	if !t.StartsAt.IsZero() && !t.StartsAt.After(at) {
		return t.StartsAt.Add(-time.Millisecond)
	}
	return at
}

// Count is the number of slots in (after, through].
func (s *Schedule) Count(after, through time.Time) int64 {
	return s.countMilli(afterMilli(after), throughMilli(through))
}

// NoSlot is later than every slot.
var NoSlot = calendarEnd

// Nth is the n-th slot that is later than an instant; NoSlot when there is none.
// For n = 0 it is the instant.
func (s *Schedule) Nth(after time.Time, n int64) time.Time {
	if n <= 0 {
		return after
	}
	lo, end := max(afterMilli(after), s.from), calendarEnd.UnixMilli()
	for step := int64(time.Hour / time.Millisecond); ; step *= 4 {
		hi := end
		if step < end-lo {
			hi = lo + step
		}
		if s.countMilli(lo, hi) >= n {
			return s.nth(lo, hi, n)
		}
		if hi == end {
			return NoSlot
		}
	}
}
