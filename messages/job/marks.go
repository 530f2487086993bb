package job

import (
	"fmt"
	"math/bits"
	"strings"
)

// This file is about the elements of the day fields that depend on the month:
//
//	day of month   L     its last day            day of week   5L    its last Friday
//	               L-3   three days before that                5#2   its second Friday
//	               15W   the day from Monday to Friday nearest to the 15th
//	               LW    the last day from Monday to Friday
//
// W never leaves its month: 1W on a Saturday is Monday the 3rd. A month without
// the day (31W, L-30, 5#5) has none: nothing is moved.

// dayMarks is those elements as sets. Bit d of near stands for dW, bit 0 for LW;
// bit n of last for L-n; bit w of nth[n] for w#n, and of nth[0] for wL.
type dayMarks struct {
	last, near uint32
	nth        [6]uint8
}

// markKind is what an element of a day field stands for.
type markKind byte

const (
	noMark      markKind = iota
	markLast             // L-n
	markNear             // nW; 0: LW
	markWeekday          // w#n; n 0: wL
)

// dayMark is one element.
type dayMark struct {
	kind    markKind
	n       int
	weekday int
}

func (m *dayMarks) add(d dayMark) {
	switch d.kind {
	case markLast:
		m.last |= 1 << d.n
	case markNear:
		m.near |= 1 << d.n
	case markWeekday:
		m.nth[d.n] |= 1 << d.weekday
	}
}

// byDate is the days of a month that last and near name, like cronFields.dom.
func (m *dayMarks) byDate(first int64, length int) uint32 {
	set := uint32(0)
	for rest := m.last; rest != 0; rest &= rest - 1 {
		if d := length - bits.TrailingZeros32(rest); d > 0 {
			set |= 1 << d
		}
	}
	for rest := m.near; rest != 0; rest &= rest - 1 {
		d := bits.TrailingZeros32(rest)
		if d == 0 {
			d = length
		}
		if d <= length {
			set |= 1 << nearestWeekday(first, length, d)
		}
	}
	return set
}

func nearestWeekday(first int64, length, d int) int {
	switch weekdayOf(first + int64(d) - 1) {
	case 6:
		if d == 1 {
			return 3
		}
		return d - 1
	case 0:
		if d == length {
			return d - 2
		}
		return d + 1
	}
	return d
}

// byWeek is the days of a month that nth names.
func (m *dayMarks) byWeek(first int64, length int) uint32 {
	set := uint32(0)
	for n, weekdays := range m.nth {
		for rest := weekdays; rest != 0; rest &= rest - 1 {
			d := 1 + (bits.TrailingZeros8(rest)-weekdayOf(first)+7)%7
			switch {
			case n > 0:
				d += 7 * (n - 1)
			case d+28 <= length:
				d += 28
			default:
				d += 21
			}
			if d <= length {
				set |= 1 << d
			}
		}
	}
	return set
}

// parseMark reads an element that depends on the month; noMark when it is a
// plain one.
func (r *fieldRule) parseMark(part string) (dayMark, error) {
	looks := strings.Contains(part, "#") || part == "l" || part == "lw" || strings.HasPrefix(part, "l-")
	if base := strings.TrimRight(part, "lw"); base != part && part != "jul" {
		_, number := digits(base)
		looks = looks || number || r.day && len(base) == 3
	}
	switch {
	case !looks:
		return dayMark{}, nil
	case !r.day:
		return dayMark{}, fmt.Errorf("has %s: L (last), W (nearest weekday) and # (nth weekday) are for the two day fields", quote(part))
	case r.names == nil:
		return r.parseDateMark(part)
	}
	return r.parseWeekdayMark(part)
}

func (r *fieldRule) parseDateMark(part string) (dayMark, error) {
	days, offset := strings.CutPrefix(part, "l-")
	day, near := strings.CutSuffix(part, "w")
	switch n, ok := digits(days); {
	case part == "l":
		return dayMark{kind: markLast}, nil
	case part == "lw":
		return dayMark{kind: markNear}, nil
	case offset && ok && n >= 1 && n <= 30:
		return dayMark{kind: markLast, n: n}, nil
	}
	if n, ok := digits(day); near && ok && n >= r.min && n <= r.max {
		return dayMark{kind: markNear, n: n}, nil
	}
	return dayMark{}, fmt.Errorf("has %s: write L (the last day), L-3 (three days before it), 15W (the weekday nearest to the 15th) or LW (the last weekday), each by itself or in a list", quote(part))
}

func (r *fieldRule) parseWeekdayMark(part string) (dayMark, error) {
	name, nth, numbered := strings.Cut(part, "#")
	n := 0
	if numbered {
		n, _ = digits(nth)
	} else {
		name = strings.TrimSuffix(part, "l")
	}
	weekday, err := r.value(name)
	switch {
	case part == "l":
		return dayMark{}, fmt.Errorf("has L without a weekday: write 6 for every Saturday, or 5L for the last Friday of the month")
	case err != nil || numbered && (n < 1 || n > 5) || !numbered && !strings.HasSuffix(part, "l"):
		return dayMark{}, fmt.Errorf("has %s: write 5L or friL (the last Friday of the month), or 5#2 (the second Friday, at most #5), each by itself or in a list", quote(part))
	}
	return dayMark{kind: markWeekday, n: n, weekday: weekday % 7}, nil
}

// words says the days of the month that the marks name, one by one.
func (m *dayMarks) dateWords() []string {
	var parts []string
	for rest := m.near &^ 1; rest != 0; rest &= rest - 1 {
		parts = append(parts, fmt.Sprintf("on the day from Monday to Friday nearest to day %d of the month", bits.TrailingZeros32(rest)))
	}
	for rest := m.last; rest != 0; rest &= rest - 1 {
		switch n := bits.TrailingZeros32(rest); n {
		case 0:
			parts = append(parts, "on the last day of the month")
		case 1:
			parts = append(parts, "on the day before the last day of the month")
		default:
			parts = append(parts, fmt.Sprintf("on the day %d days before the last day of the month", n))
		}
	}
	if m.near&1 != 0 {
		parts = append(parts, "on the last day from Monday to Friday of the month")
	}
	return parts
}

func (m *dayMarks) weekWords() []string {
	order := [6]string{"last", "first", "second", "third", "fourth", "fifth"}
	var parts []string
	for i := range m.nth {
		n := (i + 1) % len(m.nth) // the last is said last
		if m.nth[n] != 0 {
			parts = append(parts, "on the "+order[n]+" "+namedDays(m.nth[n])+" of the month")
		}
	}
	return parts
}

// namedDays lists weekdays one by one: "Monday, Tuesday and Friday".
func namedDays(set uint8) string {
	var days []string
	for rest := set; rest != 0; rest &= rest - 1 {
		days = append(days, weekdayWord(bits.TrailingZeros8(rest)))
	}
	return joinWords(days)
}

// sometimes tells that a month may have no day for one of the marks.
func (m *dayMarks) sometimes() string {
	if late := m.near &^ (1<<29 - 1); late != 0 {
		return fmt.Sprintf("a month without a day %d is skipped by %dW, not moved to its last weekday", bits.TrailingZeros32(late), bits.TrailingZeros32(late))
	}
	if m.nth[5] != 0 {
		return "a month without a fifth " + namedDays(m.nth[5]) + " is skipped"
	}
	if late := m.last &^ (1<<28 - 1); late != 0 {
		return fmt.Sprintf("a month of %d days or less is skipped by L-%d", bits.TrailingZeros32(late), bits.TrailingZeros32(late))
	}
	return ""
}
