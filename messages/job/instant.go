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

// Instant is the time of Millis, in UTC: the zero time for 0.
func Instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
