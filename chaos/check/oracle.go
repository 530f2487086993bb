package check

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Schedule is when a job is due, as a user understands what was written. Values
// are comparable: the same text is the same schedule.
type Schedule interface {
	// Due are the instants in (after, until], in order.
	Due(after, until time.Time) []time.Time
}

// Interval is due at First and every Every after it.
type Interval struct {
	First time.Time
	Every time.Duration
}

// Due walks the interval.
func (i Interval) Due(after, until time.Time) []time.Time {
	at := i.First
	if gone := after.Sub(at); gone > 0 {
		at = at.Add(gone / i.Every * i.Every)
	}
	var out []time.Time
	for ; !at.After(until); at = at.Add(i.Every) {
		if at.After(after) {
			out = append(out, at)
		}
	}
	return out
}

// At is due once.
type At struct{ Instant time.Time }

// Due is that instant.
func (a At) Due(after, until time.Time) []time.Time {
	if a.Instant.After(after) && !a.Instant.After(until) {
		return []time.Time{a.Instant}
	}
	return nil
}

// Cron is a cron expression of five fields, or of six with seconds in front, in
// a time zone. Of a schedule at fixed times (neither the minute nor the hour
// begins with a star) a time that the clocks skip comes at the first instant
// after the gap, and one that they show twice comes the first time; SkipGap and
// BothFolds change that. Any other comes whenever the clock on the wall shows it.
type Cron struct {
	Expr, Zone         string
	SkipGap, BothFolds bool
}

// Due walks the wall clock, step by step, and looks at what it shows.
func (c Cron) Due(after, until time.Time) []time.Time {
	f, err := parse(c.Expr)
	if err != nil {
		panic(fmt.Sprintf("the checker cannot read %q: %v", c.Expr, err))
	}
	zone, err := time.LoadLocation(c.Zone)
	if err != nil {
		panic(fmt.Sprintf("the checker does not know the zone %q: %v", c.Zone, err))
	}
	w := walk{fields: f, zone: zone, cron: c}
	if f.fixed {
		return w.fixed(after, until)
	}
	return w.shown(after, until)
}

// walk is a walk of wall time.
type walk struct {
	*fields
	zone *time.Location
	cron Cron
}

// shown are the instants at which the clock shows a time that matches.
func (w walk) shown(after, until time.Time) []time.Time {
	var out []time.Time
	for at := after.Truncate(w.step).Add(w.step); !at.After(until); at = at.Add(w.step) {
		if w.matches(at.In(w.zone)) {
			out = append(out, at.UTC())
		}
	}
	return out
}

// lead is how long before the first instant the walk begins, so that it knows
// what the clock showed before: no clock has been set back by more.
const lead = 26 * time.Hour

// fixed are the instants at which the clock shows a matching time for the first
// time, or jumps over one. What the clock shows is written as if it were UTC.
func (w walk) fixed(after, until time.Time) []time.Time {
	var out []time.Time
	var newest time.Time // that the clock has shown
	for at := after.Truncate(w.step).Add(-lead); !at.After(until); at = at.Add(w.step) {
		shows := asUTC(at.In(w.zone))
		if newest.IsZero() {
			newest = shows
		}
		hit := false
		for t := newest.Add(w.step); !t.After(shows); t = t.Add(w.step) {
			hit = hit || w.matches(t) && (t.Equal(shows) || !w.cron.SkipGap)
		}
		if !shows.After(newest) && w.cron.BothFolds {
			hit = w.matches(shows)
		}
		if shows.After(newest) {
			newest = shows
		}
		if hit && at.After(after) {
			out = append(out, at.UTC())
		}
	}
	return out
}

func asUTC(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// fields are what the fields of an expression allow.
type fields struct {
	second, minute, hour, day, month, weekday map[int]bool
	anyDay, anyWeekday                        bool
	fixed                                     bool
	step                                      time.Duration
}

// matches looks at a clock. Of two restricted day fields one is enough.
func (f *fields) matches(t time.Time) bool {
	if !f.second[t.Second()] || !f.minute[t.Minute()] || !f.hour[t.Hour()] || !f.month[int(t.Month())] {
		return false
	}
	day, weekday := f.day[t.Day()], f.weekday[int(t.Weekday())]
	if f.anyDay || f.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

var words = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

const (
	months   = "jan feb mar apr may jun jul aug sep oct nov dec"
	weekdays = "sun mon tue wed thu fri sat"
)

func parse(expr string) (*fields, error) {
	if w, ok := words[strings.ToLower(expr)]; ok {
		expr = w
	}
	p := strings.Fields(expr)
	f := &fields{step: time.Second}
	switch len(p) {
	case 5:
		p = append([]string{"0"}, p...)
		f.step = time.Minute
	case 6:
	default:
		return nil, fmt.Errorf("%d fields", len(p))
	}
	f.fixed = p[1][0] != '*' && p[2][0] != '*'
	f.anyDay, f.anyWeekday = p[3] == "*" || p[3] == "?", p[5] == "*" || p[5] == "?"
	var err error
	for i, part := range []struct {
		into   *map[int]bool
		lo, hi int
		names  string
		from   int
	}{{&f.second, 0, 59, "", 0}, {&f.minute, 0, 59, "", 0}, {&f.hour, 0, 23, "", 0}, {&f.day, 1, 31, "", 0}, {&f.month, 1, 12, months, 1}, {&f.weekday, 0, 7, weekdays, 0}} {
		if *part.into, err = values(p[i], part.lo, part.hi, part.names, part.from); err != nil {
			return nil, fmt.Errorf("field %d: %w", i+1, err)
		}
	}
	if f.weekday[7] {
		f.weekday[0] = true
	}
	return f, nil
}

// values are the numbers that a field allows.
func values(field string, lo, hi int, names string, from int) (map[int]bool, error) {
	number := func(s string) (int, error) {
		for i, name := range strings.Fields(names) {
			if strings.EqualFold(s, name) {
				return i + from, nil
			}
		}
		return strconv.Atoi(s)
	}
	out := map[int]bool{}
	for part := range strings.SplitSeq(field, ",") {
		span, by, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			var err error
			if step, err = strconv.Atoi(by); err != nil || step < 1 {
				return nil, fmt.Errorf("step %q", by)
			}
		}
		a, b := lo, hi
		if span == "*" || span == "?" {
			if hi == 7 {
				b = 6
			}
		} else {
			first, last, isRange := strings.Cut(span, "-")
			var err error
			if a, err = number(first); err != nil {
				return nil, err
			}
			switch {
			case isRange:
				if b, err = number(last); err != nil {
					return nil, err
				}
				if hi == 7 && b == 0 && a > 0 {
					b = 7 // sat-sun
				}
			case !stepped:
				b = a
			case hi == 7:
				b = 6
			}
		}
		if a < lo || b > hi || a > b {
			return nil, fmt.Errorf("%q is not in %d to %d", part, lo, hi)
		}
		for n := a; n <= b; n += step {
			out[n] = true
		}
	}
	return out, nil
}
