package foreign

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fires is every instant at which something fires in [from, to), ascending; an
// instant comes as often as it fires then.
type Fires func(from, to time.Time) iter.Seq[time.Time]

// vixie is a line of a crontab as sets of its fields.
type vixie struct {
	minute, hour, dom, month, dow map[int]bool
	domStar, dowStar, wild        bool
}

var vixieNames = [5][]string{
	3: {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"},
	4: {"sun", "mon", "tue", "wed", "thu", "fri", "sat"},
}

var vixieWords = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// Vixie is when cron runs a line of a crontab on a machine of a zone. Error: cron
// does not take the schedule.
func Vixie(schedule string, zone *time.Location) (Fires, error) {
	schedule = strings.ToLower(schedule)
	if word, ok := vixieWords[schedule]; ok {
		schedule = word
	}
	fields := strings.Fields(schedule)
	if len(fields) != 5 {
		return nil, fmt.Errorf("cron reads five fields, and here are %d", len(fields))
	}
	var sets [5]map[int]bool
	for i, bounds := range [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}} {
		set, err := vixieField(fields[i], bounds[0], bounds[1], vixieNames[i])
		if err != nil {
			return nil, err
		}
		sets[i] = set
	}
	sets[4][0] = sets[4][0] || sets[4][7]
	star := func(i int) bool { return fields[i][0] == '*' }
	v := vixie{sets[0], sets[1], sets[2], sets[3], sets[4], star(2), star(4), star(0) || star(1)}
	return func(from, to time.Time) iter.Seq[time.Time] {
		return func(yield func(time.Time) bool) { v.run(from, to, zone, yield) }
	}, nil
}

// vixieField reads a list of *, values and ranges; a step needs one of the
// first and the last.
func vixieField(text string, lo, hi int, names []string) (map[int]bool, error) {
	set := map[int]bool{}
	for _, part := range strings.Split(text, ",") {
		base, step, stepped := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(base, "-")
		a, b, every := lo, hi, 1
		var err error
		if base != "*" {
			if a, err = vixieValue(from, lo, hi, names); err != nil {
				return nil, err
			}
			if b = a; ranged {
				b, err = vixieValue(to, lo, hi, names)
			}
		}
		if err == nil && stepped {
			every, err = strconv.Atoi(step)
		}
		switch {
		case err != nil:
			return nil, err
		case a > b || every < 1:
			return nil, fmt.Errorf("cron does not read %q", part)
		case stepped && base != "*" && !ranged:
			return nil, fmt.Errorf("cron takes a step after * or a range only, and not %q", part)
		}
		for v := a; v <= b; v += every {
			set[v] = true
		}
	}
	return set, nil
}

func vixieValue(text string, lo, hi int, names []string) (int, error) {
	if i := slices.Index(names, text); i >= 0 {
		return lo + i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < lo || n > hi {
		return 0, fmt.Errorf("cron does not read %q, a value from %d to %d", text, lo, hi)
	}
	return n, nil
}

// matches judges a wall time, in minutes since 1970 on that clock.
func (v *vixie) matches(wall int64) bool {
	w := time.Unix(wall*60, 0).UTC()
	if !v.minute[w.Minute()] || !v.hour[w.Hour()] || !v.month[int(w.Month())] {
		return false
	}
	dom, dow := v.dom[w.Day()], v.dow[int(w.Weekday())]
	if v.domStar || v.dowStar {
		return dom && dow
	}
	return dom || dow
}

// run lets a daemon wake up every minute. done is the last minute of the wall
// clock that it has dealt with.
func (v *vixie) run(from, to time.Time, zone *time.Location, yield func(time.Time) bool) {
	at := from.Truncate(time.Minute)
	if at.Before(from) {
		at = at.Add(time.Minute)
	}
	for done := wallMinute(at.Add(-time.Minute), zone); at.Before(to); at = at.Add(time.Minute) {
		now := wallMinute(at, zone)
		for range v.due(&done, now) {
			if !yield(at) {
				return
			}
		}
	}
}

func wallMinute(at time.Time, zone *time.Location) int64 {
	_, offset := at.In(zone).Zone()
	sec := at.Unix() + int64(offset)
	return (sec - (sec%60+60)%60) / 60
}

// due is how often the line runs when the clock shows a minute.
func (v *vixie) due(done *int64, now int64) int {
	const hours3 = 3 * 60
	n := 0
	count := func(is bool) {
		if is {
			n++
		}
	}
	switch ahead := now - *done; {
	case ahead > hours3 || ahead <= -hours3: // another clock
		*done = now
		count(v.matches(now))
	case ahead <= 0: // a repeated time
		count(v.wild && v.matches(now))
	case ahead > 5 && v.wild: // a rhythm has no time in the gap
		*done = now
		count(v.matches(now))
	default:
		for *done < now {
			*done++
			count(v.matches(*done))
		}
	}
	return n
}
