package cql

import (
	"slices"
	"sync"
	"time"
)

const (
	leastPatience = 500 * time.Millisecond
	firstPatience = 2 * time.Second // while too few commits are known
	patienceTimes = 5               // medians
	remembered    = 31              // commits that the median is of
	known         = 8               // commits that make a median
)

// patience says how long a commit may stay unanswered before it is in doubt:
// max(500 ms, 5 × the median of the last ones). A barrier is safe at any
// moment, so it need not outlast what the database would still do. A commit
// that was given up counts with the time it was given: under a database that
// has become slow for all the limit grows, instead of every commit going into
// doubt for ever.
type patience struct {
	least time.Duration // 0: leastPatience

	mu   sync.Mutex
	took [remembered]time.Duration // a ring
	n    int                       // commits seen
}

// add takes the time of a commit that was answered, or given up.
func (p *patience) add(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took[p.n%remembered] = took
	p.n++
}

// limit is the time to wait now.
func (p *patience) limit(most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n < known {
		return min(max(firstPatience, p.least), most)
	}
	sorted := slices.Clone(p.took[:min(p.n, remembered)])
	slices.Sort(sorted)
	limit := max(patienceTimes*sorted[len(sorted)/2], p.least)
	if p.least == 0 {
		limit = max(limit, leastPatience)
	}
	return min(limit, most)
}
