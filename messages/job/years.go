package job

import (
	"math/bits"
	"strconv"
)

// yearRule is what the year field may contain.
var yearRule = fieldRule{name: "year", min: firstYear, max: lastYear, top: lastYear}

// yearSet has bit n for the year firstYear + n.
type yearSet [(lastYear-firstYear)/64 + 1]uint64

func (y *yearSet) has(year int) bool {
	n := year - firstYear
	return year >= firstYear && year <= lastYear && y[n/64]&(1<<(n%64)) != 0
}

// next is the first year of the set from one on; after the last, the year after
// the calendar.
func (y *yearSet) next(year int) int {
	for n := max(year-firstYear, 0); n/64 < len(y); n = (n/64 + 1) * 64 {
		if rest := y[n/64] >> (n % 64); rest != 0 {
			return firstYear + n + bits.TrailingZeros64(rest)
		}
	}
	return lastYear + 1
}

// parseYears reads a year field; nil: every year.
func parseYears(text string) (*yearSet, *Invalid) {
	if bare(text) {
		return nil, nil
	}
	items, err := yearRule.parse(text)
	if err != nil {
		return nil, refuseExpr("the year field %s %v", quote(text), err)
	}
	set := new(yearSet)
	for _, it := range items {
		for year := it.lo; year <= it.hi; year += it.step {
			n := year - firstYear
			set[n/64] |= 1 << (n % 64)
		}
	}
	return set, nil
}

// namesYear tells whether a field can only be a year: it has a number of four
// digits.
func namesYear(text string) bool {
	run := 0
	for _, c := range []byte(text + " ") {
		switch {
		case c >= '0' && c <= '9':
			run++
		case run == 4:
			return true
		default:
			run = 0
		}
	}
	return false
}

// words lists the years, or is "" when they are many.
func (y *yearSet) words() string {
	var parts []string
	for year := y.next(firstYear); year <= lastYear; {
		last := year
		for y.has(last + 1) {
			last++
		}
		switch {
		case last-year < 2:
			for ; year <= last; year++ {
				parts = append(parts, strconv.Itoa(year))
			}
		default:
			parts = append(parts, strconv.Itoa(year)+" to "+strconv.Itoa(last))
		}
		if len(parts) > mostParts {
			return ""
		}
		year = y.next(last + 1)
	}
	return joinWords(parts)
}
