package bench

import (
	"strconv"
	"strings"
	"time"
)

// Plan is the set of deliveries that a run expects: job i is due at First(i),
// and then Slots−1 times more, Every apart.
type Plan struct {
	Prefix string // of the job ids, unique to the run
	Jobs   int
	Slots  int
	First  func(i int) time.Time
	Every  time.Duration
}

// idDigits is enough for the largest run.
const idDigits = 8

// JobID is the id of job i.
func (p Plan) JobID(i int) string {
	text := strconv.Itoa(i)
	return p.Prefix + strings.Repeat("0", idDigits-len(text)) + text
}

// Total is the number of deliveries expected.
func (p Plan) Total() int { return p.Jobs * p.Slots }

// Due is when delivery n is due.
func (p Plan) Due(n int) time.Time {
	return p.First(n / p.Slots).Add(time.Duration(n%p.Slots) * p.Every)
}

// Find is the number of the delivery of a job for an instant; false when the
// plan has none.
func (p Plan) Find(jobID string, at time.Time) (int, bool) {
	digits, ok := strings.CutPrefix(jobID, p.Prefix)
	if !ok || len(digits) != idDigits {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	if err != nil || i < 0 || i >= p.Jobs {
		return 0, false
	}
	since, slot := at.Sub(p.First(i)), 0
	if p.Every > 0 {
		slot = int(since / p.Every)
		since -= time.Duration(slot) * p.Every
	}
	if since != 0 || slot < 0 || slot >= p.Slots {
		return 0, false
	}
	return i*p.Slots + slot, true
}
