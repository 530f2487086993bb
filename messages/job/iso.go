package job

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// isoForm is R, how often, and the rest: start and duration, start and end, or a
// duration alone.
var isoForm = regexp.MustCompile(`^[Rr](\d*)/(.*)$`)

var isoDuration = regexp.MustCompile(`^P(?:(\d{1,6})Y)?(?:(\d{1,6})M)?(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,8})H)?(?:(\d{1,8})M)?(?:(\d{1,9})S)?)?$`)

// repeat reads a repeating interval of ISO 8601: due at its start, and then
// again and again; n times in all if that is said.
func (t *translation) repeat(n, rest string) error {
	const example = "write R/2026-01-01T00:00:00Z/PT5M, R5/2026-01-01T00:00:00Z/P1D or R/PT5M"
	parts := strings.Split(rest, "/")
	if len(parts) > 2 {
		return fmt.Errorf("has too many parts: %s", example)
	}
	if err := t.times(n); err != nil {
		return err
	}
	text := strings.ToUpper(parts[len(parts)-1])
	var start time.Time
	if len(parts) == 2 {
		at, bad := parseInstant(parts[0])
		if bad != nil {
			return fmt.Errorf("does not begin with an instant: %s", example)
		}
		start = at
		if err := t.from(at); err != nil {
			return err
		}
	}
	if end, bad := parseInstant(text); bad == nil && len(parts) == 2 {
		return t.period(end.Sub(start))
	}
	m := isoDuration.FindStringSubmatch(text)
	if m == nil || text == "P" || strings.HasSuffix(text, "T") {
		return fmt.Errorf("has no duration that can be read, such as PT5M, PT1H30M, P1D or P1M: %s", example)
	}
	v := make([]int, len(m))
	for i, text := range m {
		v[i], _ = strconv.Atoi(text) // "" is 0
	}
	if months := 12*v[1] + v[2]; months > 0 {
		if v[3]+v[4]+v[5]+v[6]+v[7] > 0 {
			return fmt.Errorf("mixes months with days or hours, and a month has no fixed length: write a cron expression")
		}
		return t.monthly(months, start, parts[0])
	}
	day := 24 * time.Hour
	return t.period(time.Duration(v[3])*7*day + time.Duration(v[4])*day + time.Duration(v[5])*time.Hour + time.Duration(v[6])*time.Minute + time.Duration(v[7])*time.Second)
}

func (t *translation) times(text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n < 1 || n > MaxRuns:
		return fmt.Errorf("repeats %.20s times, which is not from 1 to %d; R without a number does not end", text, MaxRuns)
	case t.spec.MaxRuns != 0 && t.spec.MaxRuns != n:
		return fmt.Errorf("repeats %d times, and max_runs says %d: leave one of the two out", n, t.spec.MaxRuns)
	}
	t.spec.MaxRuns = n
	t.also = append(t.also, fmt.Sprintf("max_runs %d", n))
	return nil
}

func (t *translation) from(start time.Time) error {
	if s := t.spec.Schedule.StartsAt; !s.IsZero() && !s.Equal(start) {
		return fmt.Errorf("begins at another instant than starts_at: leave starts_at out")
	}
	t.spec.Schedule.StartsAt = start
	t.also = append(t.also, "starts_at "+start.Format(time.RFC3339Nano))
	return nil
}

func (t *translation) period(d time.Duration) error {
	if d < minEvery || d%time.Second != 0 || d > maxEvery {
		return fmt.Errorf("repeats every %v, which is not whole seconds from 1s to %v", d, maxEvery)
	}
	t.every(d)
	return nil
}

// monthly is due on one day of months that are evenly apart, by the clock of UTC:
// a cron expression says that when every such month has the day.
func (t *translation) monthly(months int, start time.Time, text string) error {
	zone := t.spec.Schedule.Zone
	switch {
	case start.IsZero():
		return fmt.Errorf("counts months from no instant: write a start, such as R/2026-01-01T00:00:00Z/P1M")
	case !strings.HasSuffix(text, "Z") || zone != "" && zone != "UTC":
		return fmt.Errorf("counts months, which only a start in UTC (with Z) and no other time_zone fix: write a cron expression for another zone")
	case start.Nanosecond() != 0:
		return fmt.Errorf("counts months from a part of a second: begin at a whole one")
	case months > 12 && months%12 != 0 || months < 12 && 12%months != 0:
		return fmt.Errorf("repeats every %d months, which no calendar of months says: use 1, 2, 3, 4 or 6 months, or years", months)
	case months%12 == 0 && start.Month() == time.February && start.Day() == 29 || months < 12 && start.Day() > 28:
		return fmt.Errorf("begins on day %d, which not every month has: begin on day 28 or before, or write L for the last day in a cron expression", start.Day())
	}
	list := []string{}
	for i := range 12 {
		if (i-int(start.Month())+1+12)%12%min(months, 12) == 0 {
			list = append(list, strconv.Itoa(i+1))
		}
	}
	month := strings.Join(list, ",")
	if months == 1 {
		month = "*"
	}
	t.expr = fmt.Sprintf("%d %d %d %s *", start.Minute(), start.Hour(), start.Day(), month)
	if start.Second() != 0 || t.spec.Schedule.Seconds {
		t.spec.Schedule.Seconds = true
		t.expr = fmt.Sprintf("%d %s", start.Second(), t.expr)
		t.also = append(t.also, "seconds true")
	}
	if months > 12 {
		t.expr += fmt.Sprintf(" %d-%d/%d", start.Year(), lastYear, months/12)
	}
	return nil
}
