package foreign

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	standard = cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor
	seconds  = cron.Second | standard
)

// Robfig is when robfig/cron/v3 fires, with or without a field of seconds. nil
// for an interval: it has no phase but that of the process that counts it. Error:
// the library does not take the schedule.
func Robfig(schedule string, zone *time.Location, withSeconds bool) (Fires, error) {
	options := standard
	if withSeconds {
		options = seconds
	}
	s, err := parseRobfig(cron.NewParser(options), schedule)
	if err != nil {
		return nil, err
	}
	fields, ok := s.(*cron.SpecSchedule)
	if !ok {
		return nil, nil
	}
	fields.Location = zone
	return func(from, to time.Time) iter.Seq[time.Time] {
		return func(yield func(time.Time) bool) {
			for at := fields.Next(from.Add(-time.Nanosecond)); !at.IsZero() && at.Before(to); at = fields.Next(at) {
				if !yield(at.UTC()) {
					return
				}
			}
		}
	}, nil
}

// parseRobfig makes an error of a panic: a zone without fields is one.
func parseRobfig(p cron.Parser, schedule string) (s cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("the library fails on it: %v", r)
		}
	}()
	return p.Parse(schedule)
}

// CutZone takes a zone apart that stands before the fields: TZ=… or CRON_TZ=….
func CutZone(schedule string) (zone, fields string) {
	schedule = strings.TrimSpace(schedule)
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(schedule, prefix); ok {
			zone, fields, _ = strings.Cut(rest, " ")
			return zone, strings.TrimSpace(fields)
		}
	}
	return "", schedule
}
