package job

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// C82: after some 35 attempts a shifted pause turned negative or zero elsewhere:
// onosproject/onos-lib-go PR#127, hemilabs/heminetwork#664. What is no factor is
// refused: see TestOneWrongField.
func TestBackoffTable(t *testing.T) {
	p := RetryPolicy{InitialBackoff: time.Second, Multiplier: 2, MaxBackoff: time.Hour, Jitter: NoJitter}
	want := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}
	for n := 1; n <= 100; n++ {
		seconds := 3600
		if n <= len(want) {
			seconds = want[n-1]
		}
		if got := p.Backoff("x", n); got != time.Duration(seconds)*time.Second {
			t.Errorf("attempt %d: %v, want %d s", n, got, seconds)
		}
		constant := RetryPolicy{InitialBackoff: 100 * time.Millisecond, Multiplier: 1, MaxBackoff: time.Hour, Jitter: NoJitter}
		if got := constant.Backoff("x", n); got != 100*time.Millisecond {
			t.Errorf("attempt %d with the factor 1: %v", n, got)
		}
	}
}

// C82: with any jitter, for any attempt.

func TestBackoffIsAlwaysInBounds(t *testing.T) {
	odd := rapid.SampledFrom([]float64{1, 1.5, 2, 10, 0, -2, 0.5, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64})
	rapid.Check(t, func(t *rapid.T) {
		limit := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(MaxBackoffLimit)).Draw(t, "max"))
		p := RetryPolicy{
			InitialBackoff: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "initial")),
			Multiplier:     odd.Draw(t, "multiplier"),
			MaxBackoff:     limit,
			Jitter:         rapid.SampledFrom([]float64{NoJitter, 0.2, 0.5, 1}).Draw(t, "jitter"),
		}
		n := rapid.IntRange(-1, 1<<40).Draw(t, "n")
		got := p.Backoff(rapid.String().Draw(t, "id"), n)
		if got <= 0 || got > limit {
			t.Fatalf("%+v, attempt %d: %v", p, n, got)
		}
	})
}

func TestJitterSpreadsAndIsTheSameEverywhere(t *testing.T) {
	p := RetryPolicy{InitialBackoff: time.Minute, Multiplier: 2, MaxBackoff: time.Hour, Jitter: 0.2}
	seen := map[time.Duration]bool{}
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		got := p.Backoff(id, 1)
		if got != p.Backoff(id, 1) {
			t.Fatal("another pause on another node")
		}
		if got < 48*time.Second || got > 72*time.Second {
			t.Errorf("%s: %v is outside of ± 20 %%", id, got)
		}
		seen[got] = true
	}
	if len(seen) < 7 {
		t.Errorf("only %d different pauses of 8", len(seen))
	}
}

// C87 agessaman/meshcore-bot#264, ttlequals0/MinusPod#238: Retry-After ignored,
// final answers retried.
func TestJudge(t *testing.T) {
	due := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := RetryPolicy{MaxAttempts: 3, InitialBackoff: time.Second, Multiplier: 2, MaxBackoff: 10 * time.Minute, Jitter: NoJitter, MaxElapsed: time.Hour}
	cases := []struct {
		name    string
		attempt Attempt
		after   time.Duration // of the retry, from the end of the attempt; 0: none
	}{
		{"first failure", Attempt{Number: 1}, time.Second},
		{"second failure", Attempt{Number: 2}, 2 * time.Second},
		{"attempts used up", Attempt{Number: 3}, 0},
		{"beyond the limit, after an edit", Attempt{Number: 9}, 0},
		{"final answer", Attempt{Number: 1, Final: true, RetryAfter: time.Second}, 0},
		{"Retry-After: 120", Attempt{Number: 1, RetryAfter: 2 * time.Minute}, 2 * time.Minute},
		{"Retry-After shorter than the pause", Attempt{Number: 2, RetryAfter: time.Second}, 2 * time.Second},
		{"Retry-After: 999999999", Attempt{Number: 1, RetryAfter: 999_999_999 * time.Second}, 10 * time.Minute},
		{"negative", Attempt{Number: 1, RetryAfter: -time.Second}, time.Second},
		{"too old by then", Attempt{Number: 1, EndedAt: due.Add(time.Hour)}, 0},
		{"just in time", Attempt{Number: 1, EndedAt: due.Add(time.Hour - time.Second)}, time.Second},
	}
	for _, c := range cases {
		a := c.attempt
		a.Due = due
		if a.EndedAt.IsZero() {
			a.EndedAt = due.Add(time.Minute)
		}
		got := p.Judge(a)
		if got.Retry != (c.after > 0) || got.Retry && !got.RetryAt.Equal(a.EndedAt.Add(c.after)) {
			t.Errorf("%s: %+v, want a retry after %v", c.name, got, c.after)
		}
		if !got.Retry && got.Reason == "" {
			t.Errorf("%s: no reason", c.name)
		}
	}
}
