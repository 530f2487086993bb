package job

import "time"

// Millis is t in milliseconds since 1970, the form in which instants are
// stored and compared; 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// CeilMillis is the first whole millisecond that is not before t: slots lie on
// those, so both ends of a range of slots mean the same rounded up.
func CeilMillis(t time.Time) int64 { return t.Add(time.Millisecond - time.Nanosecond).UnixMilli() }

// Instant is the time of Millis, in UTC: the zero time for 0.
func Instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
