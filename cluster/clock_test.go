package cluster

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJudgeClock(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		others []time.Duration
		wasOff bool
		want   ClockVerdict
	}{
		"alone":                       {nil, false, ClockVerdict{1, 0, true, false}},
		"alone, was off":              {nil, true, ClockVerdict{1, 0, true, false}},
		"two, together":               {[]time.Duration{500 * ms}, false, ClockVerdict{2, -250 * ms, true, false}},
		"two, apart":                  {[]time.Duration{time.Hour}, false, ClockVerdict{2, -30 * time.Minute, false, false}},
		"three, good":                 {[]time.Duration{2 * ms, -3 * ms}, false, ClockVerdict{3, 0, true, false}},
		"three, another is wrong":     {[]time.Duration{2 * ms, -time.Hour}, false, ClockVerdict{3, 0, true, false}},
		"three, ours is slow":         {[]time.Duration{600 * ms, 610 * ms}, false, ClockVerdict{3, -600 * ms, true, true}},
		"three, ours is fast":         {[]time.Duration{-600 * ms, -610 * ms}, false, ClockVerdict{3, 600 * ms, true, true}},
		"three, each another hour":    {[]time.Duration{time.Hour, -time.Hour}, false, ClockVerdict{3, 0, false, false}},
		"three, nobody agrees, wrong": {[]time.Duration{time.Hour, 2 * time.Hour}, false, ClockVerdict{3, -time.Hour, false, false}},
		"at the limit":                {[]time.Duration{500 * ms, 500 * ms}, false, ClockVerdict{3, -500 * ms, true, false}},
		"at the limit, was off":       {[]time.Duration{500 * ms, 500 * ms}, true, ClockVerdict{3, -500 * ms, true, true}},
		"back, was off":               {[]time.Duration{250 * ms, 250 * ms}, true, ClockVerdict{3, -250 * ms, true, false}},
		"four, two against two":       {[]time.Duration{0, time.Hour, time.Hour}, false, ClockVerdict{4, -30 * time.Minute, false, false}},
		"four, ours is wrong":         {[]time.Duration{time.Hour, time.Hour, time.Hour}, false, ClockVerdict{4, -time.Hour, true, true}},
		"five, two are wrong":         {[]time.Duration{0, ms, time.Hour, time.Hour}, false, ClockVerdict{5, -ms, true, false}},
	} {
		if got := JudgeClock(test.others, test.wasOff); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestMinorityOfBadClocks: whatever a minority of clocks shows, no good clock is
// judged off, whoever judges; and one bad clock among at least three is.
func TestMinorityOfBadClocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "nodes")
		bad := rapid.IntRange(0, (n-1)/2).Draw(t, "bad")
		clocks := make([]time.Duration, n)
		for i := range clocks {
			if i < bad {
				clocks[i] = time.Duration(rapid.Int64Range(0, clockEnd-1).Draw(t, "bad clock"))
			} else {
				clocks[i] = time.Duration(1_700_000_000_000_000_000 + rapid.Int64Range(0, int64(ClockTolerance)).Draw(t, "good clock"))
			}
		}
		for own := range clocks {
			var others []time.Duration
			for i, c := range clocks {
				if i != own {
					others = append(others, c-clocks[own])
				}
			}
			v := JudgeClock(others, false)
			if own >= bad && v.Off {
				t.Fatalf("clock %d of %v is good, and judged %+v", own, clocks, v)
			}
			far := true
			for _, c := range clocks[bad:] {
				far = far && (clocks[own]-c).Abs() > ClockTolerance
			}
			if own < bad && n >= 3 && far && !v.Off {
				t.Fatalf("clock %d of %v is bad, and judged %+v", own, clocks, v)
			}
			if n < 3 && v.Off || v.Off && !v.Agreed {
				t.Fatalf("clock %d of %v cannot be judged, and is %+v", own, clocks, v)
			}
		}
	})
}

// TestTwoClocks: two nodes never silence each other, also from an earlier
// verdict.
func TestTwoClocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		other := time.Duration(rapid.Int64Range(-clockEnd, clockEnd).Draw(t, "other"))
		if v := JudgeClock([]time.Duration{other}, rapid.Bool().Draw(t, "was off")); v.Off || v.Compared != 2 || v.Agreed != (other.Abs() <= ClockTolerance) {
			t.Fatalf("%v: %+v", other, v)
		}
	})
}

// TestNoFlapping: a clock that stands at the limit, read with an error, changes
// its verdict once.
func TestNoFlapping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		off, changes := false, 0
		for range 50 {
			reading := ClockTolerance + time.Duration(rapid.IntRange(-75, 75).Draw(t, "error in ms"))*time.Millisecond
			v := JudgeClock([]time.Duration{reading, reading}, off)
			if v.Off != off {
				off, changes = v.Off, changes+1
			}
		}
		if changes > 1 {
			t.Fatalf("the verdict changed %d times", changes)
		}
	})
}

func TestBestSample(t *testing.T) {
	var c clockSamples
	if _, ok := c.best(); ok {
		t.Error("a sample of nothing")
	}
	for i, rtt := range []time.Duration{1, 5, 4, 3, 9, 9, 9, 9, 3} { // the 1 is the ninth from the end
		c.add(clockSample{ahead: time.Duration(i), rtt: rtt})
		if i == 7 {
			if s, _ := c.best(); s.ahead != 0 {
				t.Errorf("best of 8 is %+v", s)
			}
		}
	}
	if s, ok := c.best(); !ok || s.rtt != 3 || s.ahead != 8 {
		t.Errorf("best is %+v, want the newer of the two", s)
	}
}

// TestSampleAfterStep: when the other's clock was stepped, what was read before
// counts no more, however good it was.
func TestSampleAfterStep(t *testing.T) {
	var c clockSamples
	for _, test := range []struct {
		ahead, rtt, best time.Duration
	}{
		{0, 1, 0},
		{clockBack, 9, 0}, // may be an error
		{time.Hour, 9, time.Hour},
		{time.Hour + 1, 8, time.Hour + 1},
		{-time.Hour, 9, -time.Hour},
	} {
		c.add(clockSample{ahead: test.ahead, rtt: test.rtt})
		if s, ok := c.best(); !ok || s.ahead != test.best {
			t.Errorf("after %s: best is %+v, want %s", test.ahead, s, test.best)
		}
	}
}

func TestClockOnTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(0, clockEnd-1).Draw(t, "ns")
		if got, ok := decodeClock(encodeClock(time.Unix(0, ns))); !ok || int64(got) != ns {
			t.Fatalf("%d came back as %d, %t", ns, got, ok)
		}
	})
}
