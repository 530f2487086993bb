package cql

import (
	"slices"
	"sync"
	"time"
)

const (
	leastPatience = 500 * time.Millisecond
	patienceTimes = 5 // medians
	remembered    = 63
)

// patience says how long a commit may stay unanswered before it is in doubt:
// max(500 ms, 5 × the median of the last ones). A barrier is safe at any
// moment, so it need not outlast what the database would still do.
type patience struct {
	mu     sync.Mutex
	took   [remembered]time.Duration // a ring
	n      int                       // commits seen
	median time.Duration
}

// answered takes the time of a commit that was answered.
func (p *patience) answered(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took[p.n%remembered] = took
	p.n++
	if p.n%8 != 1 { // the median moves slowly
		return
	}
	sorted := slices.Clone(p.took[:min(p.n, remembered)])
	slices.Sort(sorted)
	p.median = sorted[len(sorted)/2]
}

// limit is the time to wait now.
func (p *patience) limit(most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(leastPatience, patienceTimes*p.median), most)
}
