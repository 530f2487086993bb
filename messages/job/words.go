package job

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// mostParts is how many elements a list in a description may have before it
// stops being simple words.
const mostParts = 12

// listWords writes a set of values as words: "0, 5 and 7", "1 to 5",
// "0 to 22 in steps of 2". It answers "" when that takes too many.
func listWords(set uint64) string {
	if lo, hi, step, ok := progression(set); ok && step > 1 {
		return fmt.Sprintf("%d to %d in steps of %d", lo, hi, step)
	}
	return namedWords(set, strconv.Itoa)
}

// namedWords is listWords without steps, for values that have names.
func namedWords(set uint64, word func(int) string) string {
	var parts []string
	for set != 0 {
		lo := bits.TrailingZeros64(set)
		hi := lo + bits.TrailingZeros64(^(set >> lo)) - 1
		set &^= 1<<(hi+1) - 1<<lo
		if hi-lo < 2 {
			for v := lo; v <= hi; v++ {
				parts = append(parts, word(v))
			}
			continue
		}
		parts = append(parts, word(lo)+" to "+word(hi))
	}
	if len(parts) > mostParts {
		return ""
	}
	return joinWords(parts)
}

func joinWords(parts []string) string {
	if n := len(parts); n > 1 {
		return strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
	return strings.Join(parts, "")
}

// progression recognises lo, lo+step, … hi with at least four members.
func progression(set uint64) (lo, hi, step int, ok bool) {
	if bits.OnesCount64(set) < 4 {
		return 0, 0, 0, false
	}
	lo, hi = bits.TrailingZeros64(set), 63-bits.LeadingZeros64(set)
	step = bits.TrailingZeros64(set>>(lo+1)) + 1
	want := uint64(0)
	for v := lo; v <= hi; v += step {
		want |= 1 << v
	}
	return lo, hi, step, want == set
}

// rhythm recognises minutes (or seconds) that go on evenly over the hour:
// start, start+step, … where step divides 60.
func rhythm(set uint64) (start, step int, ok bool) {
	n := bits.OnesCount64(set)
	if n < 2 || 60%n != 0 {
		return 0, 0, false
	}
	start, step = bits.TrailingZeros64(set), 60/n
	want := uint64(0)
	for v := start; v < 60; v += step {
		want |= 1 << v
	}
	return start, step, want == set
}

// contiguous recognises one run of values.
func contiguous(set uint64) (lo, hi int, ok bool) {
	lo, hi = bits.TrailingZeros64(set), 63-bits.LeadingZeros64(set)
	return lo, hi, bits.OnesCount64(set) == hi-lo+1
}

// plural is "minute 5" for one value and "minutes 5 and 20" for more.
func plural(noun string, set uint64, words string) string {
	if bits.OnesCount64(set) > 1 {
		noun += "s"
	}
	return noun + " " + words
}

func monthWord(m int) string { return time.Month(m).String() }

func weekdayWord(d int) string { return time.Weekday(d % 7).String() }

// durationWords is "1 hour 30 minutes".
func durationWords(d time.Duration) string {
	var parts []string
	for _, u := range []struct {
		noun string
		unit time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		n := int64(d / u.unit)
		d %= u.unit
		switch {
		case n == 1:
			parts = append(parts, "1 "+u.noun)
		case n > 1:
			parts = append(parts, strconv.FormatInt(n, 10)+" "+u.noun+"s")
		}
	}
	if len(parts) == 1 {
		return strings.TrimPrefix(parts[0], "1 ")
	}
	return strings.Join(parts, " ")
}
