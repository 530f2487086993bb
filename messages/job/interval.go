package job

import (
	"math"
	"regexp"
	"time"
)

// Bounds of @every. Below a second a schedule is a busy loop; above ten years
// it is a slip of the keyboard (robfig/cron#334: the library rounds both into
// "every second").
const (
	minEvery = time.Second
	maxEvery = 10 * 365 * 24 * time.Hour
)

// parseEvery reads the duration of "@every D".
func parseEvery(text string) (time.Duration, *Invalid) {
	const example = `write whole seconds, from 1s up to 87600h (ten years), such as "@every 90s", "@every 10m" or "@every 36h"`
	if text == "" {
		return 0, refuseExpr("@every has no duration; %s", example)
	}
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && tooManyDecimals.MatchString(text):
		return 0, refuseExpr("@every %s is finer than what is kept and is not rounded; %s", quote(text), example)
	case err != nil:
		return 0, refuseExpr("@every cannot read the duration %s (units are h, m and s; a day is 24h); %s", quote(text), example)
	case d < minEvery:
		return 0, refuseExpr("@every %s is shorter than the minimum of 1s; %s", text, example)
	case d%time.Second != 0:
		return 0, refuseExpr("@every %s is not a whole number of seconds and is not rounded; %s", text, example)
	case d > maxEvery:
		return 0, refuseExpr("@every %s is longer than the maximum; %s", text, example)
	}
	return d, nil
}

// tooManyDecimals: Go drops what is below a nanosecond without a word.
var tooManyDecimals = regexp.MustCompile(`\.\d{7}`)

// looksLikeInstant reports whether the text begins like a date, "2026-01-…":
// no cron field does.
func looksLikeInstant(text string) bool {
	if len(text) < 8 {
		return false
	}
	for i, c := range []byte(text[:8]) {
		if dash := i == 4 || i == 7; dash != (c == '-') || !dash && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// instantForm is RFC 3339 to the letter. Go's own parser also takes "T1:00",
// a decimal comma and an offset of 24 hours (golang/go#54580).
var instantForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseInstant reads an RFC 3339 instant, of any year.
func ParseInstant(text string) (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339Nano, text)
	return at.UTC(), err == nil && instantForm.MatchString(text)
}

// parseInstant reads the one instant that a schedule is.
func parseInstant(text string) (time.Time, *Invalid) {
	at, ok := ParseInstant(text)
	if !ok {
		return time.Time{}, refuseExpr(`%s is not an RFC 3339 instant; write it with T, seconds and an offset, such as "2026-01-31T06:00:00Z" or "2026-01-31T07:00:00+01:00"`, quote(text))
	}
	if at.Nanosecond()%int(time.Millisecond) != 0 {
		return time.Time{}, refuseExpr("%s is finer than a millisecond, the unit of a due time, and is not rounded; write at most three decimals", quote(text))
	}
	if standsForNone(at) {
		return time.Time{}, refuseExpr("%s is where clocks of computers begin, and stands for no instant; write a later one", quote(text))
	}
	if !inCalendar(at) {
		return time.Time{}, refuseExpr("%s is outside the calendar of schedules, the years %d to %d; write an instant in it", quote(text), firstYear, lastYear)
	}
	return at, nil
}

// grid is the slots of @every: anchor + k·step for k ≥ first, in milliseconds.
type grid struct {
	anchor, step int64
	first        int64 // 1, or 0 when the anchor is starts_at: "from 09:00 every hour" includes 09:00
}

// next is the first slot at or after ms.
func (g grid) next(ms int64) (int64, bool) {
	k := g.first
	if ms > g.anchor {
		k = max(k, ceilDiv(ms-g.anchor, g.step))
	}
	if k > (math.MaxInt64-max(g.anchor, 0))/g.step {
		return 0, false
	}
	return g.anchor + k*g.step, true
}

// count is the number of slots in [lo, hi).
func (g grid) count(lo, hi int64) int64 {
	lo = max(lo, g.anchor+g.first*g.step)
	if hi <= lo {
		return 0
	}
	return ceilDiv(hi-g.anchor, g.step) - ceilDiv(lo-g.anchor, g.step)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }
