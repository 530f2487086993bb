package job

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"
)

// cronFields is a cron expression as sets: bit n stands for the value n.
type cronFields struct {
	second, minute uint64
	hour, dom      uint32
	month          uint16
	dow            uint8
	either         bool // both day fields restrict: a day matches when either does (P-DAY)
	fixed          bool // neither minute nor hour begins with `*`: wall times are moved out of gaps and not repeated
	marked         bool // marks has any
	marks          dayMarks
	years          *yearSet // nil: every year
}

// everyDow is the set of all weekdays.
const everyDow = 1<<7 - 1

// cronParser reads what checked fields say. It is used for its sets only:
// which instants a wall time means is decided in walltime.go.
var cronParser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// parseCron reads five fields, or six when seconds are asked for, and a year
// after them.
func parseCron(text string, seconds bool, jobID string) (expression, *Invalid) {
	fields, year, bad := splitFields(text, seconds)
	if bad != nil {
		return expression{}, bad
	}
	e := expression{kind: kindCron, fields: fields, year: year, spread: spreads(text)}
	var canonical [6]string
	var valued [6]bool
	for i := range cronRules {
		if canonical[i], bad = e.parseField(i, jobID); bad != nil {
			return expression{}, bad
		}
		if valued[i] = canonical[i] != ""; !valued[i] {
			canonical[i] = "*"
		}
	}
	spec, err := callParser(strings.Join(canonical[:], " "))
	if err != nil {
		return expression{}, refuseExpr("%s cannot be read: %v; see the five fields of crontab(5)", quote(text), err)
	}
	years, bad := parseYears(year)
	if bad != nil {
		return expression{}, bad
	}
	marks := e.cron.marks
	e.cron = fieldsOf(spec, e.fields, valued)
	e.cron.marks, e.cron.marked, e.cron.years = marks, marks != dayMarks{}, years
	return e, checkPossible(e.cron)
}

// parseField checks a field, takes its marks, and writes what is left of it as
// the library reads it; "" when nothing is.
func (e *expression) parseField(i int, jobID string) (string, *Invalid) {
	r := &cronRules[i]
	text, err := r.resolve(e.fields[i], jobID)
	if err != nil {
		return "", refuseExpr("the %s field %s %v", r.name, quote(e.fields[i]), err)
	}
	items, err := r.parse(text)
	if err != nil {
		return "", refuseExpr("the %s field %s %v", r.name, quote(e.fields[i]), err)
	}
	e.fields[i] = text
	for _, it := range items {
		e.cron.marks.add(it.mark)
	}
	return plainValues(text, items, i == fieldDow), nil
}

// splitFields is the six fields, in lower case, and the year.
func splitFields(text string, seconds bool) (fields [6]string, year string, bad *Invalid) {
	all := strings.Fields(strings.ToLower(text))
	want := 5
	if seconds {
		want = 6
	}
	year = "*"
	if n := len(all); n == want+1 && (seconds || namesYear(all[n-1])) {
		all, year = all[:want], all[want]
	}
	if bad := checkFieldCount(text, len(all), seconds); bad != nil {
		return fields, year, bad
	}
	if !seconds {
		all = append([]string{"0"}, all...)
	}
	return [6]string(all), year, nil
}

func checkFieldCount(text string, n int, seconds bool) *Invalid {
	const order = "minute, hour, day of month, month, day of week"
	switch {
	case seconds && n == 5:
		return refuseExpr(`%s has 5 fields, but "seconds": true asks for 6; put a field for seconds in front, such as 0, or leave "seconds" out`, quote(text))
	case !seconds && n == 6:
		return refuseExpr(`%s has 6 fields; for a first field of seconds set "seconds": true, for a last field of years name one, such as 2027, otherwise write 5: %s`, quote(text), order)
	case !seconds && n == 7:
		return refuseExpr(`%s has 7 fields; for seconds in front and a year at the end set "seconds": true, otherwise write 5: %s`, quote(text), order)
	case seconds && n != 6:
		return refuseExpr(`%s has %d fields; "seconds": true asks for 6: second, %s; a year may follow`, quote(text), n, order)
	case !seconds && n != 5:
		return refuseExpr(`%s is not a schedule (it has %d fields of 5): write %s, such as "0 6 * * 1-5", or %s, or one RFC 3339 instant`, quote(text), n, order, descriptorList)
	}
	return nil
}

// plainValues is a field without its marks and, in a day of week, without the
// value 7 for Sunday; the library knows neither. 5-7 becomes 5,6,0.
func plainValues(text string, items []fieldItem, dow bool) string {
	var parts []string
	for i, part := range strings.Split(text, ",") {
		switch it := items[i]; {
		case it.mark.kind != noMark:
		case !dow || it.hi <= 6:
			parts = append(parts, part)
		default:
			for v := it.lo; v <= it.hi; v += it.step {
				parts = append(parts, strconv.Itoa(v%7))
			}
		}
	}
	return strings.Join(parts, ",")
}

// callParser turns a panic of the library into an error: its input comes
// from users (robfig/cron#554).
func callParser(text string) (spec *cron.SpecSchedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			spec, err = nil, fmt.Errorf("the parser gave up on it: %v", r)
		}
	}()
	s, err := cronParser.Parse(text)
	if err != nil {
		return nil, err
	}
	spec, ok := s.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("it is no list of fields")
	}
	return spec, nil
}

// fieldsOf is the sets of the library. What stands for a field that has no plain
// values is taken away again.
func fieldsOf(spec *cron.SpecSchedule, text [6]string, valued [6]bool) cronFields {
	const values = 1<<63 - 1 // the top bit is the library's own mark for a star
	if !valued[fieldDom] {
		spec.Dom = 0
	}
	if !valued[fieldDow] {
		spec.Dow = 0
	}
	return cronFields{
		second: spec.Second & values,
		minute: spec.Minute & values,
		hour:   uint32(spec.Hour & values),
		dom:    uint32(spec.Dom & values),
		month:  uint16(spec.Month & values),
		dow:    uint8(spec.Dow & values),
		either: !bare(text[fieldDom]) && !bare(text[fieldDow]),
		fixed:  text[fieldMinute][0] != '*' && text[fieldHour][0] != '*',
	}
}

// checkPossible refuses dates that no year has. Only a day of the month that
// none of the months has can be one; the library answers such an expression
// with the zero time (go-co-op/gocron#765).
func checkPossible(f cronFields) *Invalid {
	if f.marked || f.either && f.dow != 0 {
		return nil // a search finds out
	}
	for m := 1; m <= 12; m++ {
		if f.month&(1<<m) != 0 && bits.TrailingZeros32(f.dom) <= longestMonth(m) {
			return nil
		}
	}
	return refuseExpr("can never fire: none of its months has day %d; choose a day that exists, such as 28, or other months", bits.TrailingZeros32(f.dom))
}
