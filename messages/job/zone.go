package job

import (
	_ "embed"
	"math"
	"sort"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // real names work on a machine without zone files
)

// zone is the history and future of one clock: the spans in which its offset
// from UTC stays the same.
type zone struct {
	loc   *time.Location
	spans []span
}

// span is one offset, in force from an instant until the next span begins.
// Instants and offsets are seconds.
//
// Invariant: spans ascend, and neighbours differ in offset.
type span struct {
	from   int64
	offset int64
}

var utc = &zone{loc: time.UTC, spans: []span{{from: math.MinInt64}}}

// zones remembers every zone once built: a million jobs share a few dozen.
// Only listed names enter it, so it is bounded.
var zones sync.Map // name → *zone

//go:embed zones.txt
var zoneNames string

// zoneList is the names that exist, sorted. Which names are real must not
// depend on the files or the file system of a node.
var zoneList = sync.OnceValue(func() []string { return strings.Fields(zoneNames) })

// loadZone finds a zone by its exact IANA name; "" is UTC.
func loadZone(name string) (*zone, *Invalid) {
	if name == "" || name == "UTC" {
		return utc, nil
	}
	if z, ok := zones.Load(name); ok {
		return z.(*zone), nil
	}
	if bad := checkZoneName(name); bad != nil {
		return nil, bad
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, Refuse("time_zone", "%s is a real name, but this node's zone database does not have it (%v); use another name of the same place", quote(name), err)
	}
	z, _ := zones.LoadOrStore(name, &zone{loc: loc, spans: spansOf(loc)})
	return z.(*zone), nil
}

func checkZoneName(name string) *Invalid {
	list := zoneList()
	if i := sort.SearchStrings(list, name); i < len(list) && list[i] == name {
		return nil
	}
	const example = `write an IANA name such as "Europe/Berlin", or leave it out for UTC`
	for _, known := range list {
		if strings.EqualFold(known, name) {
			return Refuse("time_zone", "%s is written %q; names are taken exactly, so that every node reads them alike", quote(printable(name)), known)
		}
	}
	if strings.EqualFold(name, "local") {
		return Refuse("time_zone", "%q means another zone on each machine; %s", name, example)
	}
	if strings.ContainsAny(name, "0123456789") {
		return Refuse("time_zone", "%s is not a zone: an offset does not know when clocks change; %s", quote(printable(name)), example)
	}
	return Refuse("time_zone", "%s is not a zone in the IANA database; %s", quote(printable(name)), example)
}

// printable is user text without what could disturb a terminal or a log.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// spansOf walks a location from its first offset to the end of the calendar.
//
// ZoneBounds may answer with an end that is not later than the instant asked
// about: Go counts 365 days for every year, so on 31 December of a leap year
// the end lies behind. Such an answer is stepped over by a day; no zone
// changes then.
func spansOf(loc *time.Location) []span {
	at := calendarStart
	_, offset := at.In(loc).Zone()
	spans := []span{{from: math.MinInt64, offset: int64(offset)}}
	for at.Before(calendarEnd) {
		_, end := at.In(loc).ZoneBounds()
		if end.IsZero() {
			break
		}
		if !end.After(at) {
			end = at.Add(24 * time.Hour)
		}
		at = end
		_, offset = at.In(loc).Zone()
		if int64(offset) != spans[len(spans)-1].offset {
			spans = append(spans, span{from: at.Unix(), offset: int64(offset)})
		}
	}
	return append([]span(nil), spans...)
}

// find is the index of the span that an instant falls in.
func (z *zone) find(sec int64) int {
	lo, hi := 0, len(z.spans)
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) >> 1); z.spans[mid].from <= sec {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// until is the instant at which span i ends.
func (z *zone) until(i int) int64 {
	if i+1 < len(z.spans) {
		return z.spans[i+1].from
	}
	return calendarEnd.Unix() + 2*secondsPerDay
}
