package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fieldRule is what one cron field may contain.
type fieldRule struct {
	name     string
	min, max int      // max is the last value of `*` and of N/step
	top      int      // the last value that may be written: 7 is Sunday too
	names    []string // names[i] is the value min + i
	day      bool     // "?" may stand for "*"
	unit     time.Duration
}

// cronRules in the order of a six-field expression.
var cronRules = [6]fieldRule{
	{name: "second", max: 59, top: 59, unit: time.Second},
	{name: "minute", max: 59, top: 59, unit: time.Minute},
	{name: "hour", max: 23, top: 23, unit: time.Hour},
	{name: "day of month", min: 1, max: 31, top: 31, day: true, unit: 24 * time.Hour},
	{name: "month", min: 1, max: 12, top: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", max: 6, top: 7, day: true, unit: 24 * time.Hour, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// Positions in cronRules.
const (
	fieldSecond = iota
	fieldMinute
	fieldHour
	fieldDom
	fieldMonth
	fieldDow
)

// fieldItem is one element of a field's list: lo, lo+step, … up to hi.
type fieldItem struct {
	lo, hi, step int
	star         bool // written as `*` or `*/step`
	open         bool // written as N/step, which runs to the field's maximum
	mark         dayMark
}

// bare reports whether a field restricts nothing (P-DAY).
func bare(text string) bool { return text == "*" || text == "?" }

// parse checks a field, in lower case, and returns its elements.
func (r *fieldRule) parse(text string) ([]fieldItem, error) {
	var items []fieldItem
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			return nil, fmt.Errorf("has an empty element; write one value between two commas")
		}
		it, err := r.parseItem(part, part == text)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, nil
}

func (r *fieldRule) parseItem(part string, alone bool) (fieldItem, error) {
	if mark, err := r.parseMark(part); err != nil || mark.kind != noMark {
		return fieldItem{step: 1, mark: mark}, err
	}
	base, step, stepped := strings.Cut(part, "/")
	if base == "?" && (!r.day || stepped || !alone) {
		return fieldItem{}, fmt.Errorf(`has "?", which stands alone in a day field and means "any"; write "*"`)
	}
	it, err := r.parseRange(base)
	if err != nil || !stepped {
		return it, err
	}
	if !it.star && !strings.Contains(base, "-") {
		it.open, it.hi = true, r.max
	}
	return r.parseStep(it, base, step)
}

// parseRange reads the part before a step: `*`, a value or a range.
func (r *fieldRule) parseRange(base string) (fieldItem, error) {
	if bare(base) {
		return fieldItem{lo: r.min, hi: r.max, step: 1, star: true}, nil
	}
	from, to, ranged := strings.Cut(base, "-")
	if strings.Contains(to, "-") {
		return fieldItem{}, fmt.Errorf(`has more than one "-" in %s; a range is two values, such as %d-%d`, quote(base), r.min, r.max)
	}
	lo, err := r.value(from)
	if err != nil || !ranged {
		return fieldItem{lo: lo, hi: lo, step: 1}, err
	}
	hi, err := r.value(to)
	if err != nil {
		return fieldItem{}, err
	}
	if to == "sun" && lo > 0 {
		hi = r.top // sat-sun, mon-sun: a week ends on Sunday too
	}
	if lo > hi {
		return fieldItem{}, fmt.Errorf("has the range %s, which ends before it begins; a range does not wrap around: write the list %s", quote(base), r.wrapped(lo, hi))
	}
	return fieldItem{lo: lo, hi: hi, step: 1}, nil
}

// wrapped is the list that means what a wrapping range means.
func (r *fieldRule) wrapped(lo, hi int) string {
	join := func(a, b int) string {
		if a == b {
			return strconv.Itoa(a)
		}
		return fmt.Sprintf("%d-%d", a, b)
	}
	if lo > r.max { // from Sunday, written 7
		return join(r.min, hi)
	}
	return join(lo, r.max) + "," + join(r.min, hi)
}

func (r *fieldRule) value(text string) (int, error) {
	for i, name := range r.names {
		if text == name {
			return r.min + i, nil
		}
		if len(text) > 3 && strings.HasPrefix(text, name) {
			return 0, fmt.Errorf("has %s; names are three letters: write %s", quote(text), name)
		}
	}
	n, ok := digits(text)
	if !ok {
		return 0, fmt.Errorf("has %s where %s is wanted", quote(text), r.wanted())
	}
	if n < r.min || n > r.top {
		return 0, fmt.Errorf("has %.20s, which is outside %d-%d; write %s", text, r.min, r.top, r.wanted())
	}
	return n, nil
}

func (r *fieldRule) wanted() string {
	s := fmt.Sprintf("a number %d-%d", r.min, r.top)
	if r.names != nil {
		s += fmt.Sprintf(" or a name such as %s", r.names[1])
	}
	return s
}

// parseStep checks a step. A step that passes the end of its range at once
// would be read as "only the first value": */90 minutes as hourly
// (robfig/cron#543).
func (r *fieldRule) parseStep(it fieldItem, base, text string) (fieldItem, error) {
	if strings.Contains(text, "/") {
		return it, fmt.Errorf(`has more than one "/"; an element has one step, such as */5`)
	}
	n, ok := digits(text)
	if !ok {
		return it, fmt.Errorf("has the step %s; a step is a whole number, such as */5", quote(text))
	}
	if n == 0 {
		return it, fmt.Errorf("has the step 0 in %s; a step is at least 1", quote(base+"/"+text))
	}
	if it.lo == r.top && r.top > r.max && it.open {
		return it, fmt.Errorf("has %s, which could mean Sunday alone or steps from Sunday; write 7 or 0/%d", quote(base+"/"+text), n)
	}
	span, rng := it.hi-it.lo, fmt.Sprintf("%d-%d", it.lo, it.hi)
	if it.open {
		span, rng = r.max-r.min, fmt.Sprintf("%d-%d", r.min, r.max)
	}
	if n > 1 && n > span {
		return it, fmt.Errorf("has the step %.20s, which is larger than its range %s, so that only %d would match; %s", text, rng, it.lo, r.insteadOfStep(it.lo, n))
	}
	it.step = n
	return it, nil
}

// insteadOfStep suggests what a too large step was meant to be.
func (r *fieldRule) insteadOfStep(only, n int) string {
	value := fmt.Sprintf("for one value write %d", only)
	if r.unit == 0 {
		return value
	}
	interval := time.Duration(n) * r.unit
	if n == mostDigits || interval > maxEvery {
		return "for an interval use @every, " + value
	}
	return fmt.Sprintf(`for an interval use "@every %s", %s`, shortDuration(interval), value)
}

// shortDuration is a duration as a user would write it: 1h30m, not 1h30m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// mostDigits stands for every number too large to matter.
const mostDigits = 1_000_000

// digits reads an unsigned number, at most mostDigits.
func digits(text string) (int, bool) {
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), mostDigits)
	}
	return n, text != ""
}
