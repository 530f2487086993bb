package job

import (
	"math"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Verdict is what an ended attempt means for its execution.
type Verdict struct {
	Retry   bool
	RetryAt time.Time
	Reason  string // why there is no other attempt
}

// Expired is the reason of an execution that is given up for its age.
const Expired = "expired"

// Attempt is an ended, unsuccessful attempt as Judge sees it.
type Attempt struct {
	ExecutionID string
	Number      int
	Due         time.Time // of the execution: its age counts from here
	EndedAt     time.Time
	Final       bool          // the target said that another attempt cannot help
	RetryAfter  time.Duration // the target asked for this pause; 0: it did not
}

// Judge decides whether a failed attempt is followed by another, and when.
func (p RetryPolicy) Judge(a Attempt) Verdict {
	if a.Final {
		return Verdict{Reason: "the target's answer rules out another attempt"}
	}
	if a.Number >= p.MaxAttempts {
		return Verdict{Reason: "attempts exhausted"}
	}
	pause := p.Backoff(a.ExecutionID, a.Number)
	if a.RetryAfter > pause {
		pause = min(a.RetryAfter, max(p.MaxBackoff, pause))
	}
	at := a.EndedAt.Add(pause)
	if p.MaxElapsed > 0 && at.Sub(a.Due) > p.MaxElapsed {
		return Verdict{Reason: Expired}
	}
	return Verdict{Retry: true, RetryAt: at}
}

// Backoff is the pause after attempt n of an execution: exponential, capped,
// and spread by a jitter that is a function of the execution and the attempt,
// so that it is the same on whichever node computes it. It is in
// (0, MaxBackoff], for any n: the product is taken in floating point and capped
// before it becomes a duration (a shift overflows after some 35 attempts:
// hemilabs/heminetwork#664).
func (p RetryPolicy) Backoff(executionID string, n int) time.Duration {
	pause := float64(p.InitialBackoff) * math.Pow(p.Multiplier, float64(max(n, 1)-1))
	limit := float64(p.MaxBackoff)
	if !(pause < limit) { // also +Inf and NaN
		pause = limit
	}
	if p.Jitter > 0 {
		pause *= 1 + p.Jitter*(2*unit(executionID, n)-1)
	}
	return time.Duration(min(max(pause, float64(time.Millisecond)), limit))
}

// unit maps (id, n) to [0, 1).
func unit(id string, n int) float64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(id)
	_, _ = d.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	return float64(d.Sum64()>>11) / (1 << 53)
}
