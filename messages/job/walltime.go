package job

// This file maps wall time to instants. Within a span of one offset that is a
// subtraction; the rules are about the seams.
//
// A schedule is fixed when neither its minute nor its hour field begins with
// `*` ("30 2 * * *"): it names times of day. Otherwise it is wild
// ("*/15 * * * *"): it names a rhythm.
//
//	           skipped wall time (gap)          repeated wall time (fold)
//	fixed      once, at the first instant       once, at its first
//	           after the gap; gap: skip → not   occurrence; fold: both → twice
//	wild       not                              twice
//
// Several wall times of one gap, and one that is due anyway at its end, are
// one firing. How long a gap is and when it begins is never assumed: it is
// 30 minutes on Lord Howe Island, two hours at Troll, at midnight in Cairo,
// and was a whole day in Samoa.

// seam is what the beginning of a span means for a schedule.
type seam struct {
	at      int64 // instant at which the span begins
	offset  int64
	wallLo  int64 // first wall time of the span that may fire
	skipped int64 // wall times in [skipped, wallLo) fire at `at`; equal to wallLo when none do
}

// seamOf applies the rules of gap and fold to the beginning of span i, for a
// fixed schedule or a wild one.
func (s *Schedule) seamOf(i int, fixed bool) seam {
	sp := s.zone.spans[i]
	if i == 0 {
		const first = -1 << 40 // before any instant of the calendar
		return seam{at: first, offset: sp.offset, wallLo: first, skipped: first}
	}
	start, before := sp.from+sp.offset, sp.from+s.zone.spans[i-1].offset
	m := seam{at: sp.from, offset: sp.offset, wallLo: start, skipped: start}
	if !fixed {
		return m
	}
	if before < start && !s.gapSkip {
		m.skipped = before
	}
	if before > start && !s.foldBoth {
		m.wallLo, m.skipped = before, before
	}
	return m
}

// nextCron is the first slot of an expression at or after an instant, both in
// seconds.
func (s *Schedule) nextCron(f *cronFields, sec int64) (int64, bool) {
	for i := s.zone.find(sec); i < len(s.zone.spans); i++ {
		m := s.seamOf(i, f.fixed)
		lo := max(m.wallLo, sec+m.offset)
		if sec <= m.at {
			lo = m.skipped
		}
		if w, ok := f.nextWall(lo, s.zone.until(i)+m.offset); ok {
			return max(w-m.offset, m.at), true
		}
	}
	return 0, false
}

// countCron counts the slots of an expression in [lo, hi), in seconds. It counts and does not
// walk, so two weeks of seconds cost what two minutes cost.
func (s *Schedule) countCron(f *cronFields, lo, hi int64) int64 {
	n := int64(0)
	for i := s.zone.find(lo); i < len(s.zone.spans); i++ {
		m := s.seamOf(i, f.fixed)
		if m.at >= hi {
			break
		}
		from := max(m.wallLo, lo+m.offset)
		n += f.countWall(from, min(hi, s.zone.until(i))+m.offset)
		if lo <= m.at && m.skipped < m.wallLo {
			_, moved := f.nextWall(m.skipped, m.wallLo)
			_, regular := f.nextWall(m.wallLo, m.wallLo+1)
			if moved && !regular {
				n++
			}
		}
	}
	return n
}
