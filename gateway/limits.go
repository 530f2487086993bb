package gateway

import (
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// limiter is what one client, and all of them together, may take.
type limiter struct {
	cfg     Limits
	flying  atomic.Int64
	streams atomic.Int64
	imports atomic.Int64
	waiting atomic.Int64
	buckets buckets
}

func newLimiter(cfg Limits) *limiter {
	return &limiter{cfg: cfg, buckets: buckets{cfg: cfg, of: map[netip.Addr]*bucket{}}}
}

// enter admits a request; leave gives its place back. Health and metrics are
// always admitted: they are asked for when there is trouble.
func (l *limiter) enter(r *http.Request, rt *route) (leave func(), err error) {
	if rt.vital {
		return func() {}, nil
	}
	if wait := l.buckets.take(r.RemoteAddr); wait > 0 {
		p := refuse(api.CodeOverloaded, "this address sends more than %.0f requests a second: slow down, or send many jobs by POST /v1/jobs:import", l.cfg.PerSecond)
		p.retryAfter = wait
		return nil, p
	}
	count, most := &l.flying, l.cfg.InFlight
	switch {
	case rt.stream && rt.body != nil:
		count, most = &l.imports, l.cfg.Imports
	case rt.waits:
		count, most = &l.waiting, l.cfg.Waiting
	case rt.stream:
		count, most = &l.streams, l.cfg.Streams
	}
	if count.Add(1) > int64(most) {
		count.Add(-1)
		return nil, refuse(api.CodeOverloaded, "%d requests of this kind are being worked on, which is all that this node takes: repeat it later", most)
	}
	return func() { count.Add(-1) }, nil
}

// maxBuckets bounds the memory spent on client addresses.
const maxBuckets = 10_000

// buckets is a token bucket for each client address; loopback has none.
type buckets struct {
	cfg Limits
	mu  sync.Mutex
	of  map[netip.Addr]*bucket
}

type bucket struct {
	rate.Limiter
	used time.Time
}

// take takes a token; a positive answer is how long to wait for one.
func (b *buckets) take(remote string) time.Duration {
	addr, ok := clientAddr(remote)
	if b.cfg.PerSecond < 0 || !ok || addr.IsLoopback() {
		return 0
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.of[addr]
	if of == nil {
		b.makeRoom(now)
		of = &bucket{Limiter: *rate.NewLimiter(rate.Limit(b.cfg.PerSecond), b.cfg.Burst)}
		b.of[addr] = of
	}
	of.used = now
	if of.AllowN(now, 1) {
		return 0
	}
	return time.Second
}

// makeRoom forgets addresses that have been silent long enough for their
// bucket to be full again, or all of them when none has.
func (b *buckets) makeRoom(now time.Time) {
	if len(b.of) < maxBuckets {
		return
	}
	refill := time.Duration(float64(b.cfg.Burst) / b.cfg.PerSecond * float64(time.Second))
	for addr, of := range b.of {
		if now.Sub(of.used) > refill {
			delete(b.of, addr)
		}
	}
	if len(b.of) >= maxBuckets {
		clear(b.of)
	}
}
