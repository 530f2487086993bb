package job

import "time"

// MissedSlots is what a stretch of time held: how many slots, the oldest and the
// newest, and the newest few one by one.
type MissedSlots struct {
	Count       int64
	First, Last time.Time // zero when Count is 0
	Newest      []time.Time
}

// Missed describes the slots in (after, through]: all are counted, the newest
// keep are listed, ascending. The count is arithmetic, so neither time nor
// memory grows with it.
func (s *Schedule) Missed(after, through time.Time, keep int) MissedSlots {
	lo, hi := afterMilli(after), throughMilli(through)
	m := MissedSlots{Count: s.countMilli(lo, hi)}
	if m.Count == 0 {
		return m
	}
	m.First = s.nth(lo, hi, 1)
	m.Last = s.nth(lo, hi, m.Count)
	n := min(int64(max(keep, 0)), m.Count)
	if n == 0 {
		return m
	}
	m.Newest = make([]time.Time, 0, n)
	for at := s.nth(lo, hi, m.Count-n+1); int64(len(m.Newest)) < n; {
		m.Newest = append(m.Newest, at)
		at, _ = s.Next(at)
	}
	return m
}

// throughMilli is the first millisecond later than t, within the calendar.
func throughMilli(t time.Time) int64 {
	if !t.Before(calendarEnd) {
		return calendarEnd.UnixMilli()
	}
	return afterMilli(t)
}

// nth is the k-th slot of [lo, hi), 1 ≤ k ≤ its count: halving finds the
// millisecond before which k slots lie, and one step back is the slot.
func (s *Schedule) nth(lo, hi, k int64) time.Time {
	if k == 1 {
		ms, _ := s.nextMilli(lo)
		return time.UnixMilli(ms).UTC()
	}
	a, b := lo, hi // fewer than k slots in [lo, a), at least k in [lo, b)
	for b-a > 1 {
		if mid := a + (b-a)/2; s.countMilli(lo, mid) < k {
			a = mid
		} else {
			b = mid
		}
	}
	return time.UnixMilli(a).UTC()
}
