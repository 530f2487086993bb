package job

import (
	"math/bits"
	"slices"
)

// many is several schedules of one job: cron expressions, each on the wall clock
// of the zone under its own rules of gap and fold, and single instants. What is
// due by any of them is due, once.
//
// Counting is arithmetic here, too. On a day without a change of the clock the
// slots are those of the expressions that have the day, together; they are
// counted once for each such choice of expressions. Around a change of the clock
// the slots are walked: some hours a year at most.
type many struct {
	crons []cronFields
	dates []int64 // ascending, milliseconds
}

func manyOf(es []expression) *many {
	m := &many{}
	for _, e := range es {
		if e.kind == kindOnce {
			m.dates = append(m.dates, e.at.UnixMilli())
		} else {
			m.crons = append(m.crons, e.cron)
		}
	}
	slices.Sort(m.dates)
	m.dates = slices.Compact(m.dates)
	return m
}

// nextMany is the first slot at or after ms.
func (s *Schedule) nextMany(ms int64) (int64, bool) {
	next, ok := s.nextOfCrons(ceilDiv(ms, 1000))
	next *= 1000
	if i, _ := slices.BinarySearch(s.many.dates, ms); i < len(s.many.dates) {
		if at := s.many.dates[i]; !ok || at < next {
			next, ok = at, true
		}
	}
	return next, ok
}

// nextOfCrons is the first slot of any expression at or after an instant, both
// in seconds.
func (s *Schedule) nextOfCrons(sec int64) (next int64, ok bool) {
	for i := range s.many.crons {
		if at, found := s.nextCron(&s.many.crons[i], sec); found && (!ok || at < next) {
			next, ok = at, true
		}
	}
	return next, ok
}

// countMany is the number of slots in [lo, hi), milliseconds.
func (s *Schedule) countMany(lo, hi int64) int64 {
	n := s.countCrons(ceilDiv(lo, 1000), ceilDiv(hi, 1000))
	for _, at := range s.many.dates {
		if at < lo || at >= hi {
			continue
		}
		if next, ok := s.nextOfCrons(ceilDiv(at, 1000)); !ok || next*1000 != at {
			n++
		}
	}
	return n
}

// countCrons is the number of slots of the expressions in [lo, hi), seconds.
func (s *Schedule) countCrons(lo, hi int64) int64 {
	if len(s.many.crons) == 0 {
		return 0
	}
	n, counts := int64(0), map[uint16]int64{}
	for i := s.zone.find(lo); i < len(s.zone.spans) && lo < hi; i++ {
		end, regular := min(hi, s.zone.until(i)), s.regularFrom(i)
		for lo < min(end, regular) {
			at, ok := s.nextOfCrons(lo)
			if !ok || at >= min(end, regular) {
				lo = min(end, regular)
				break
			}
			n, lo = n+1, at+1
		}
		offset := s.zone.spans[i].offset
		n += s.many.countWall(lo+offset, end+offset, counts)
		lo = max(lo, end)
	}
	return n
}

// regularFrom is the instant of span i from which on every expression is due
// whenever its wall time comes: behind what a gap has moved there, and behind a
// repeated hour.
func (s *Schedule) regularFrom(i int) int64 {
	at := s.seamOf(i, true)
	if i == 0 {
		return at.at
	}
	return max(at.at+1, at.wallLo-at.offset)
}

// countWall counts the wall times in [lo, hi) that any expression has. counts
// remembers how many a whole day has.
func (m *many) countWall(lo, hi int64, counts map[uint16]int64) int64 {
	if lo >= hi {
		return 0
	}
	dayLo, dayHi := floorDiv(lo, secondsPerDay), floorDiv(hi, secondsPerDay)
	n := m.timesBefore(m.choice(dayHi), hi-dayHi*secondsPerDay) - m.timesBefore(m.choice(dayLo), lo-dayLo*secondsPerDay)
	m.eachDay(dayLo, dayHi, func(choice uint16) {
		whole, ok := counts[choice]
		if !ok {
			whole = m.timesBefore(choice, secondsPerDay)
			counts[choice] = whole
		}
		n += whole
	})
	return n
}

// choice is which expressions have a day.
func (m *many) choice(day int64) (choice uint16) {
	m.eachDay(day, day+1, func(c uint16) { choice = c })
	return choice
}

// eachDay visits the days in [lo, hi) that any expression has.
func (m *many) eachDay(lo, hi int64, visit func(choice uint16)) {
	year, month, dom := civil(lo)
	for first := lo - int64(dom-1); first < hi; {
		length := daysIn(year, month)
		var sets [MaxExprs]uint32
		all := uint32(0)
		for i := range m.crons {
			if f := &m.crons[i]; f.has(year, month) {
				sets[i] = f.days(year, month, first)
				all |= sets[i]
			}
		}
		for rest := all; rest != 0; rest &= rest - 1 {
			d := bits.TrailingZeros32(rest)
			if day := first + int64(d) - 1; day < lo || day >= hi {
				continue
			}
			choice := uint16(0)
			for i := range m.crons {
				choice |= uint16(sets[i]>>d&1) << i
			}
			visit(choice)
		}
		first += int64(length)
		if month++; month > 12 {
			year, month = year+1, 1
		}
	}
}

// timesBefore counts the seconds of a day before sod that any of the chosen
// expressions has.
func (m *many) timesBefore(choice uint16, sod int64) int64 {
	n := int64(0)
	for minute := int64(0); choice != 0 && minute*60 < sod; minute++ {
		seconds := uint64(0)
		for rest := choice; rest != 0; rest &= rest - 1 {
			f := &m.crons[bits.TrailingZeros16(rest)]
			if f.hour&(1<<(minute/60)) != 0 && f.minute&(1<<(minute%60)) != 0 {
				seconds |= f.second
			}
		}
		if left := sod - minute*60; left < 60 {
			seconds &= 1<<left - 1
		}
		n += int64(bits.OnesCount64(seconds))
	}
	return n
}
