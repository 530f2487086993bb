package cluster

import (
	"encoding/binary"
	"slices"
	"time"
)

// ClockTolerance is how far apart the wall clocks of nodes may be. It is far
// above what synchronised clocks differ by (single milliseconds), and above the
// error of a reading (half a round trip, at most 75 ms, and the time that an
// answer waits for a processor).
const ClockTolerance = 500 * time.Millisecond

// clockBack is what a node that was off must come back to. It is less than the
// tolerance, so that a clock that stands at the limit does not cross it with
// each reading: each crossing moves all partitions of the node.
const clockBack = ClockTolerance / 2

// ClockVerdict is what a node concludes about its own wall clock.
type ClockVerdict struct {
	Compared int           // clocks, the own one included
	Offset   time.Duration // own clock − median of all; positive: it is fast
	Agreed   bool          // most of the clocks lie within the tolerance; if not, some clock is wrong and nobody can tell which
	Off      bool          // the own clock is wrong: the node must own nothing
}

// JudgeClock compares the own clock with those of the other live nodes, given
// as (theirs − own). A node is off only if at least three clocks are compared,
// most of them agree, and the own one is further from the median than the
// tolerance: then the median lies within the majority, so a minority of wrong
// clocks never silences a good one, and two nodes that differ both go on.
// wasOff is the last verdict.
func JudgeClock(others []time.Duration, wasOff bool) ClockVerdict {
	clocks := append(slices.Clone(others), 0)
	slices.Sort(clocks)
	n := len(clocks)
	v := ClockVerdict{Compared: n, Offset: -median(clocks)}
	for i := 0; i+n/2 < n; i++ { // n/2+1 neighbours are a majority
		v.Agreed = v.Agreed || clocks[i+n/2]-clocks[i] <= ClockTolerance
	}
	limit := ClockTolerance
	if wasOff {
		limit = clockBack
	}
	v.Off = n >= 3 && v.Agreed && v.Offset.Abs() > limit
	return v
}

// median of sorted values, at least one.
func median(sorted []time.Duration) time.Duration {
	low, high := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	return low + (high-low)/2
}

// clockSample compares another node's wall clock with our BOOTTIME clock, which
// never steps: when our own wall clock steps, every sample shows it at once.
type clockSample struct {
	ahead time.Duration // their wall clock, since 1970, − our BOOTTIME at that moment
	rtt   time.Duration
}

// clockSamples are the last samples of one node.
type clockSamples struct {
	ring [8]clockSample
	n    int // ever added
}

// add takes a sample. One that is further from the last than a reading can err
// tells of a step of that clock: what was read before is void.
func (c *clockSamples) add(s clockSample) {
	if last := c.ring[(c.n+len(c.ring)-1)%len(c.ring)]; c.n > 0 && (s.ahead-last.ahead).Abs() > clockBack {
		c.n = 0
	}
	c.ring[c.n%len(c.ring)] = s
	c.n++
}

// best is the sample of the shortest round trip, the one with the least error;
// of equal ones the newest.
func (c *clockSamples) best() (best clockSample, ok bool) {
	for i := max(0, c.n-len(c.ring)); i < c.n; i++ {
		if s := c.ring[i%len(c.ring)]; !ok || s.rtt <= best.rtt {
			best, ok = s, true
		}
	}
	return best, ok
}

// A node answers each ping with its wall clock: a format number, then
// nanoseconds since 1970, big endian.
const (
	clockFormat = 1
	clockBytes  = 9
)

// clockEnd bounds what is taken for a clock; differences of such clocks fit a
// Duration.
var clockEnd = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

func encodeClock(now time.Time) []byte {
	return binary.BigEndian.AppendUint64([]byte{clockFormat}, uint64(now.UnixNano()))
}

// decodeClock reads a wall clock, as time since 1970.
func decodeClock(b []byte) (time.Duration, bool) {
	if len(b) != clockBytes || b[0] != clockFormat {
		return 0, false
	}
	ns := int64(binary.BigEndian.Uint64(b[1:]))
	return time.Duration(ns), ns >= 0 && ns < clockEnd
}
