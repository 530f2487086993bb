package job

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// This file reads what other schedulers write, and says it in Belfry's own form:
// AWS rate(5 minutes), cron(0 10 * * ? *) and at(2026-11-20T13:00:00), and the
// repeating intervals of ISO 8601, R5/2026-01-01T00:00:00Z/PT5M. Translation is
// done where a request comes in; only our own form is compiled, stored and shown.
// What cannot be said exactly is refused.

// Translate puts a spec's schedule into our own form. It notes what became of
// what was written otherwise.
func (s *Spec) Translate() (notes []string, bad *Invalid) {
	if len(s.Schedule.Exprs) == 0 {
		return s.translateOne("schedule_expr", &s.Schedule.Expr, true)
	}
	exprs := append([]string{s.Schedule.Expr}, s.Schedule.Exprs...)
	for i := range exprs {
		note, bad := s.translateOne(fmt.Sprintf("schedule_exprs[%d]", i), &exprs[i], false)
		if bad != nil {
			return nil, bad
		}
		notes = append(notes, note...)
	}
	s.Schedule.Expr, s.Schedule.Exprs = exprs[0], exprs[1:]
	return notes, nil
}

// translateOne translates an expression in place. alone: it is the only one, and
// may set the bounds of the schedule.
func (s *Spec) translateOne(field string, expr *string, alone bool) ([]string, *Invalid) {
	text := strings.TrimSpace(*expr)
	name, inner, call := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	call = call && strings.HasSuffix(text, ")") && checkText(text) == nil
	form := isoForm.FindStringSubmatch(text)
	t := translation{spec: s}
	var err error
	switch name = strings.ToLower(strings.TrimSpace(name)); {
	case call && name == "rate":
		err = t.rate(inner)
	case call && name == "cron":
		err = t.cron(inner)
	case call && name == "at":
		err = t.at(inner)
	case form != nil && !alone:
		err = fmt.Errorf("is a repeating interval, which goes together with no other schedule; register a job for it")
	case form != nil:
		err = t.repeat(form[1], form[2])
	default:
		return nil, nil
	}
	if err != nil {
		return nil, Refuse(field, "%s %v", quote(text), err)
	}
	*expr = t.expr
	return []string{fmt.Sprintf("%s became %s", text, t.words())}, nil
}

// translation is what an expression becomes.
type translation struct {
	spec *Spec
	expr string
	also []string // fields that it sets
}

func (t *translation) words() string {
	return strings.Join(append([]string{strconv.Quote(t.expr)}, t.also...), ", ")
}

var rateForm = regexp.MustCompile(`^ *(\d{1,7}) +(minute|hour|day)s? *$`)

// rate is an interval from the registration on. A day is 24 hours.
func (t *translation) rate(inner string) error {
	m := rateForm.FindStringSubmatch(strings.ToLower(inner))
	if m == nil {
		return fmt.Errorf("is not a rate: write rate(5 minutes), in minutes, hours or days, or @every 5m")
	}
	n, _ := digits(m[1])
	t.every(time.Duration(n) * map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[m[2]])
	return nil
}

func (t *translation) every(d time.Duration) { t.expr = "@every " + shortDuration(d) }

// cron has six fields: no seconds, a year, ? in one day field, and days of the
// week from 1 (Sunday) to 7. AWS leaves out a time that the clock skips.
func (t *translation) cron(inner string) error {
	f := strings.Fields(strings.ToLower(inner))
	switch {
	case len(f) != 6:
		return fmt.Errorf("has %d fields of 6: minute, hour, day of month, month, day of week, year", len(f))
	case t.spec.Schedule.Seconds:
		return fmt.Errorf(`has no field of seconds: leave "seconds" out`)
	case (f[2] == "?") == (f[4] == "?"):
		return fmt.Errorf("has no ? in exactly one of its two day fields: write it in the one that is not meant")
	}
	var err error
	if f[4], err = awsWeekdays(f[4]); err != nil {
		return err
	}
	if f[5], err = awsYears(f[5]); err != nil {
		return err
	}
	t.expr = strings.TrimSpace(strings.Join(f, " "))
	if s := &t.spec.Schedule; s.Zone != "" && s.Zone != "UTC" && s.Gap == "" {
		s.Gap = GapSkip
		t.also = append(t.also, "dst.gap skip")
	}
	return nil
}

// awsWeekdays counts days of the week from 0 instead of 1.
func awsWeekdays(text string) (string, error) {
	parts := strings.Split(text, ",")
	for i, part := range parts {
		base, step, stepped := strings.Cut(part, "/")
		base, nth, numbered := strings.Cut(base, "#")
		if base == "l" {
			base = "7" // the last day of a week
		}
		last := strings.HasSuffix(base, "l")
		values := strings.Split(strings.TrimSuffix(base, "l"), "-")
		for j, v := range values {
			n, number := digits(v)
			if number && (n < 1 || n > 7) {
				return "", fmt.Errorf("has the day of week %s; there it goes from 1 (Sunday) to 7", quote(v))
			}
			if number {
				values[j] = strconv.Itoa(n - 1)
			}
		}
		parts[i] = strings.Join(values, "-")
		for _, suffix := range []struct {
			is   bool
			text string
		}{{last, "L"}, {numbered, "#" + nth}, {stepped, "/" + step}} {
			if suffix.is {
				parts[i] += suffix.text
			}
		}
	}
	return strings.Join(parts, ","), nil
}

// awsYears is nothing for every year; there the years end with 2199.
func awsYears(text string) (string, error) {
	if text == "*" {
		return "", nil
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		base, step, stepped := strings.Cut(part, "/")
		if base == "*" {
			base = "1970"
		}
		if stepped && !strings.Contains(base, "-") {
			base += "-2199"
		}
		if parts[i] = base; stepped {
			parts[i] += "/" + step
		}
	}
	if text = strings.Join(parts, ","); !namesYear(text) {
		return "", fmt.Errorf("has the year %s: write one from 1970 to 2199, or *", quote(text))
	}
	return text, nil
}

const wallForm = "2006-01-02T15:04:05"

// at is one wall time of the zone.
func (t *translation) at(inner string) error {
	inner = strings.TrimSpace(inner)
	wall, err := time.Parse(wallForm, inner)
	switch {
	case err != nil || wall.Format(wallForm) != inner:
		return fmt.Errorf("is not an instant: write at(2026-11-20T13:00:00), in whole seconds")
	case !inCalendar(wall):
		return fmt.Errorf("is outside the calendar of schedules, the years %d to %d: write an instant in it", firstYear, lastYear)
	}
	z, bad := loadZone(t.spec.Schedule.Zone)
	if bad != nil {
		t.expr = wall.Format(time.RFC3339) // it is refused for its zone
		return nil
	}
	switch at := z.instants(wall.Unix()); len(at) {
	case 0:
		return fmt.Errorf("is skipped by the clock in %s: write another time", z.loc)
	case 1:
		t.expr = time.Unix(at[0], 0).UTC().Format(time.RFC3339)
		return nil
	}
	return fmt.Errorf("comes twice in %s: write it with an offset, such as 2026-11-01T01:30:00-04:00", z.loc)
}

// instants is when a clock shows a wall time.
func (z *zone) instants(wall int64) (at []int64) {
	const most = 2 * secondsPerDay // more than any offset
	for i := z.find(wall - most); i < len(z.spans) && z.spans[i].from <= wall+most; i++ {
		if sec := wall - z.spans[i].offset; sec >= z.spans[i].from && sec < z.until(i) {
			at = append(at, sec)
		}
	}
	return at
}
