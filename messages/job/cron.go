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
}

// everyDow is the set of all weekdays.
const everyDow = 1<<7 - 1

// cronParser reads what checked fields say. It is used for its sets only:
// which instants a wall time means is decided in walltime.go.
var cronParser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// parseCron reads five fields, or six when seconds are asked for.
func parseCron(text string, seconds bool) (expression, *Invalid) {
	fields := strings.Fields(strings.ToLower(text))
	if bad := checkFieldCount(text, len(fields), seconds); bad != nil {
		return expression{}, bad
	}
	if !seconds {
		fields = append([]string{"0"}, fields...)
	}
	e := expression{kind: kindCron, fields: [6]string(fields)}
	var canonical [6]string
	for i := range cronRules {
		items, err := cronRules[i].parse(fields[i])
		if err != nil {
			return expression{}, refuseExpr("the %s field %s %v", cronRules[i].name, quote(fields[i]), err)
		}
		canonical[i] = fields[i]
		if i == fieldDow {
			canonical[i] = withoutSeven(fields[i], items)
		}
	}
	spec, err := callParser(strings.Join(canonical[:], " "))
	if err != nil {
		return expression{}, refuseExpr("%s cannot be read: %v; see the five fields of crontab(5)", quote(text), err)
	}
	e.cron = fieldsOf(spec, e.fields)
	return e, checkPossible(e.cron)
}

func checkFieldCount(text string, n int, seconds bool) *Invalid {
	const order = "minute, hour, day of month, month, day of week"
	switch {
	case seconds && n == 5:
		return refuseExpr(`%s has 5 fields, but "seconds": true asks for 6; put a field for seconds in front, such as 0, or leave "seconds" out`, quote(text))
	case !seconds && n == 6:
		return refuseExpr(`%s has 6 fields; for a first field of seconds set "seconds": true, otherwise write 5: %s`, quote(text), order)
	case n == 7:
		return refuseExpr(`%s has 7 fields; years are not part of an expression: use "starts_at" and "ends_at", and write 5 fields: %s`, quote(text), order)
	case seconds && n != 6:
		return refuseExpr(`%s has %d fields; "seconds": true asks for 6: second, %s`, quote(text), n, order)
	case !seconds && n != 5:
		return refuseExpr(`%s is not a schedule (it has %d fields of 5): write %s, such as "0 6 * * 1-5", or %s, or one RFC 3339 instant`, quote(text), n, order, descriptorList)
	}
	return nil
}

// withoutSeven writes a day-of-week field without the value 7, which the
// library refuses: 5-7 becomes 5,6,0.
func withoutSeven(text string, items []fieldItem) string {
	var parts []string
	for _, it := range items {
		if it.hi <= 6 {
			continue
		}
		for v := it.lo; v <= it.hi; v += it.step {
			parts = append(parts, strconv.Itoa(v%7))
		}
	}
	if parts == nil {
		return text
	}
	i := 0
	for part := range strings.SplitSeq(text, ",") {
		if items[i].hi <= 6 {
			parts = append(parts, part)
		}
		i++
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

func fieldsOf(spec *cron.SpecSchedule, text [6]string) cronFields {
	const values = 1<<63 - 1 // the top bit is the library's own mark for a star
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
	if f.either && f.dow != 0 {
		return nil
	}
	for m := 1; m <= 12; m++ {
		if f.month&(1<<m) != 0 && bits.TrailingZeros32(f.dom) <= longestMonth(m) {
			return nil
		}
	}
	return refuseExpr("can never fire: none of its months has day %d; choose a day that exists, such as 28, or other months", bits.TrailingZeros32(f.dom))
}
