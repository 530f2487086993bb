package job

import (
	"math/bits"
	"time"
)

// The calendar of schedules: a first and last year keep every search finite
// and every instant printable. It ends where the table of zone changes ends.
const (
	firstYear = 1970
	lastYear  = 2499
)

var (
	calendarStart = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC) // what may be asked about
	calendarEnd   = time.Date(lastYear+1, 1, 1, 0, 0, 0, 0, time.UTC)
)

// inCalendar reports whether t may be written in a spec.
func inCalendar(t time.Time) bool {
	y := t.UTC().Year()
	return y >= firstYear && y <= lastYear
}

// standsForNone reports whether t is the instant that is stored where there is
// none.
func standsForNone(t time.Time) bool { return t.UnixMilli() == 0 }

const secondsPerDay = 24 * 60 * 60

// Wall time is counted in seconds since 1970-01-01 00:00:00 on the same
// clock, as if that clock had never been changed: the instant's Unix time
// plus the offset in force.

// civil is the date of a day number (days since 1970-01-01, Gregorian).
// Years begin in March here, so that the leap day is a year's last.
func civil(day int64) (year, month, dom int) {
	const perEra = 146097 // days of 400 years
	day += 719468         // 0000-03-01
	era := floorDiv(day, perEra)
	doe := day - era*perEra
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	dom = int(doy-(153*mp+2)/5) + 1
	month, year = int(mp)+3, int(yoe+era*400)
	if month > 12 {
		month, year = month-12, year+1
	}
	return year, month, dom
}

// dayNumber is the inverse of civil.
func dayNumber(year, month, dom int) int64 {
	if month < 3 {
		month, year = month+12, year-1
	}
	era := floorDiv(int64(year), 400)
	yoe := int64(year) - era*400
	doy := int64(153*(month-3)+2)/5 + int64(dom) - 1
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

// weekdayOf is the weekday of a day number, Sunday 0.
func weekdayOf(day int64) int {
	w := (day + 4) % 7 // 1970-01-01 was a Thursday
	if w < 0 {
		w += 7
	}
	return int(w)
}

func longestMonth(m int) int {
	switch m {
	case 2:
		return 29
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

func daysIn(year, month int) int {
	if month == 2 && (year%4 != 0 || year%100 == 0 && year%400 != 0) {
		return 28
	}
	return longestMonth(month)
}

// days is the set of matching days of a month whose first day is the day
// number first.
func (f *cronFields) days(year, month int, first int64) uint32 {
	const weeks = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28 | 1<<35
	byWeek := uint32(uint64(f.dow)*weeks>>weekdayOf(first)) << 1
	byDate, length := f.dom, daysIn(year, month)
	if f.marked {
		byDate |= f.marks.byDate(first, length)
		byWeek |= f.marks.byWeek(first, length)
	}
	set := byDate & byWeek
	if f.either {
		set = byDate | byWeek
	}
	return set & (1<<(length+1) - 2)
}

// has reports whether a month has any matching day.
func (f *cronFields) has(year, month int) bool {
	return f.month&(1<<month) != 0 && (f.years == nil || f.years.has(year))
}

// turn goes on to the first month of a later year, and is the number of its
// first day: of the year that comes, or the next one that is named.
func (f *cronFields) turn(year int, first int64) (int, int64) {
	if f.years == nil || f.years.has(year) {
		return year, first
	}
	year = f.years.next(year)
	return year, dayNumber(year, 1, 1)
}

// nextTime is the first matching second of the day at or after sod.
func (f *cronFields) nextTime(sod int) (int, bool) {
	h, m, s := sod/3600, sod/60%60, sod%60
	if f.hour&(1<<h) != 0 {
		if f.minute&(1<<m) != 0 {
			if rest := f.second >> s; rest != 0 {
				return sod + bits.TrailingZeros64(rest), true
			}
		}
		if rest := f.minute >> (m + 1); rest != 0 {
			m += 1 + bits.TrailingZeros64(rest)
			return h*3600 + m*60 + bits.TrailingZeros64(f.second), true
		}
	}
	rest := f.hour >> (h + 1)
	if rest == 0 {
		return 0, false
	}
	h += 1 + bits.TrailingZeros32(rest)
	return h*3600 + bits.TrailingZeros64(f.minute)*60 + bits.TrailingZeros64(f.second), true
}

// nextWall is the first matching wall time in [lo, hi). It walks months, so
// even 29 February costs a handful of steps, and skips years that are not named.
func (f *cronFields) nextWall(lo, hi int64) (int64, bool) {
	if lo >= hi {
		return 0, false
	}
	day := floorDiv(lo, secondsPerDay)
	year, month, dom := civil(day)
	first := day - int64(dom-1)
	set := uint32(0)
	if f.has(year, month) {
		set = f.days(year, month, first) >> dom << dom
	}
	if set&(1<<dom) != 0 {
		if sod, ok := f.nextTime(int(lo - day*secondsPerDay)); ok {
			w := day*secondsPerDay + int64(sod)
			return w, w < hi
		}
		set &^= 1 << dom
	}
	for set == 0 {
		first += int64(daysIn(year, month))
		if first*secondsPerDay >= hi {
			return 0, false
		}
		if month++; month > 12 {
			month = 1
			year, first = f.turn(year+1, first)
		}
		if f.has(year, month) {
			set = f.days(year, month, first)
		}
	}
	sod, _ := f.nextTime(0)
	w := (first+int64(bits.TrailingZeros32(set))-1)*secondsPerDay + int64(sod)
	return w, w < hi
}

// timesBefore counts the matching seconds of a day before sod.
func (f *cronFields) timesBefore(sod int) int64 {
	h, m, s := sod/3600, sod/60%60, sod%60
	perMinute := int64(bits.OnesCount64(f.second))
	perHour := int64(bits.OnesCount64(f.minute)) * perMinute
	n := int64(bits.OnesCount32(f.hour&(1<<h-1))) * perHour
	if f.hour&(1<<h) == 0 {
		return n
	}
	n += int64(bits.OnesCount64(f.minute&(1<<m-1))) * perMinute
	if f.minute&(1<<m) != 0 {
		n += int64(bits.OnesCount64(f.second & (1<<s - 1)))
	}
	return n
}

// countWall counts the matching wall times in [lo, hi), month by month.
func (f *cronFields) countWall(lo, hi int64) int64 {
	if lo >= hi {
		return 0
	}
	dayLo, dayHi := floorDiv(lo, secondsPerDay), floorDiv(hi, secondsPerDay)
	n := int64(0)
	if f.dayMatches(dayLo) {
		n -= f.timesBefore(int(lo - dayLo*secondsPerDay))
	}
	if f.dayMatches(dayHi) {
		n += f.timesBefore(int(hi - dayHi*secondsPerDay))
	}
	perDay := int64(bits.OnesCount32(f.hour)) * int64(bits.OnesCount64(f.minute)) * int64(bits.OnesCount64(f.second))
	return n + perDay*f.countDays(dayLo, dayHi)
}

// countDays counts the matching days in [lo, hi).
func (f *cronFields) countDays(lo, hi int64) int64 {
	year, month, dom := civil(lo)
	first := lo - int64(dom-1)
	n := 0
	for first < hi {
		length := int64(daysIn(year, month))
		if f.has(year, month) {
			set := f.days(year, month, first)
			if lo > first {
				set &^= 1<<(lo-first+1) - 1
			}
			if hi < first+length {
				set &= 1<<(hi-first+1) - 1
			}
			n += bits.OnesCount32(set)
		}
		first += length
		if month++; month > 12 {
			month = 1
			year, first = f.turn(year+1, first)
		}
	}
	return int64(n)
}

func (f *cronFields) dayMatches(day int64) bool { return f.countDays(day, day+1) == 1 }
