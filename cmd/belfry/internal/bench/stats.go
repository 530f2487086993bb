package bench

import (
	"slices"
	"strconv"
	"time"
)

// Distribution is recorded durations in ascending order: percentiles are
// exact, not estimated from buckets.
type Distribution struct{ sorted []time.Duration }

// Distribute sorts durations; it keeps the slice.
func Distribute(d []time.Duration) Distribution {
	slices.Sort(d)
	return Distribution{d}
}

// Len is how many durations there are.
func (d Distribution) Len() int { return len(d.sorted) }

// At is the smallest recorded duration that at least the given share of all
// does not exceed; 0 when there are none.
func (d Distribution) At(share float64) time.Duration {
	n := len(d.sorted)
	if n == 0 {
		return 0
	}
	i := int(share*float64(n)+0.999999) - 1
	return d.sorted[min(max(i, 0), n-1)]
}

// Max is the longest.
func (d Distribution) Max() time.Duration { return d.At(1) }

// milliseconds is a duration as a metric.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func count(n int) string { return strconv.Itoa(n) }
