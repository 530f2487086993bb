package job

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// HostOf names the host that a URL calls: name and port, without the port where
// it is the scheme's own. It groups calls: limits and breakers are one a host.
// It is read from any URL that CheckURL takes, and is "" of what is none.
func HostOf(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return ""
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	rest = strings.ToLower(rest[strings.LastIndexByte(rest, '@')+1:])
	switch strings.ToLower(scheme) {
	case "https":
		rest = strings.TrimSuffix(rest, ":443")
	case "http":
		rest = strings.TrimSuffix(rest, ":80")
	}
	return strings.TrimSuffix(rest, ".")
}

// Bounds of a rate limit.
const (
	MinRate  = 0.001 // a second: about one in 17 minutes
	MaxRate  = 10_000
	MaxBurst = 10_000
)

// RateLimit is how often something may begin. The zero value is no limit.
type RateLimit struct {
	PerSecond float64
	Burst     int // at once, after a pause
}

// Set tells whether there is a limit.
func (r RateLimit) Set() bool { return r.PerSecond > 0 }

// Check says what is wrong with a limit; "": nothing.
func (r RateLimit) Check() string {
	switch {
	case !(r.PerSecond >= MinRate && r.PerSecond <= MaxRate):
		return fmt.Sprintf("the rate is %v, and must be from %v to %d a second", r.PerSecond, MinRate, MaxRate)
	case r.Burst < 1 || r.Burst > MaxBurst:
		return fmt.Sprintf("the burst is %d, and must be from 1 to %d", r.Burst, MaxBurst)
	}
	return ""
}

// every is the time between two tokens, rounded up: the limit is never exceeded.
func (r RateLimit) every() int64 { return int64(math.Ceil(float64(time.Second) / r.PerSecond)) }

// Bucket is a token bucket by the generic cell rate algorithm: all that it
// remembers is the instant at which it will be full again, in nanoseconds since
// 1970. The zero value is full. One that is looked at after the clock was stepped
// back is empty at most.
type Bucket struct{ full int64 }

// BucketOf is a bucket that is full again at an instant.
func BucketOf(full time.Time) Bucket { return Bucket{full.UnixNano()} }

// Full is when the bucket will be full again.
func (b Bucket) Full() time.Time { return time.Unix(0, b.full) }

// Empty takes every token out.
func (b *Bucket) Empty(r RateLimit, now time.Time) {
	b.full = now.UnixNano() + int64(r.Burst)*r.every()
}

// debt is how long it takes until the bucket is full.
func (b *Bucket) debt(r RateLimit, now time.Time) int64 {
	b.full = min(b.full, now.UnixNano()+int64(r.Burst)*r.every())
	return max(b.full-now.UnixNano(), 0)
}

// Tokens is how many there are.
func (b *Bucket) Tokens(r RateLimit, now time.Time) int {
	every := r.every()
	return r.Burst - int((b.debt(r, now)+every-1)/every)
}

// Take takes n tokens, which must be there.
func (b *Bucket) Take(r RateLimit, now time.Time, n int) {
	b.full = now.UnixNano() + b.debt(r, now) + int64(n)*r.every()
}

// Return gives n tokens back that were taken and not used.
func (b *Bucket) Return(r RateLimit, n int) { b.full -= int64(n) * r.every() }

// Next is when there is a token.
func (b *Bucket) Next(r RateLimit, now time.Time) time.Time {
	wait := b.debt(r, now) - int64(r.Burst-1)*r.every()
	return now.Add(time.Duration(max(wait, 0)))
}

// HostLimit is what an operator allows calls to one host.
type HostLimit struct {
	Rate        RateLimit
	Concurrency int // calls at once, from all nodes together; 0: each worker's own share of its slots
}

// Shared tells whether the limit holds for all nodes together: then one worker
// makes all calls to the host, since only it can count them.
func (l HostLimit) Shared() bool { return l.Rate.Set() || l.Concurrency > 0 }

// HostLimits are the operator's settings, the same on every node.
type HostLimits struct {
	Default HostLimit
	Hosts   map[string]HostLimit // by name or name:port; an entry replaces Default as a whole
}

// Of is the limit of a host, as HostOf names it.
func (l HostLimits) Of(host string) HostLimit {
	if own, ok := l.Hosts[host]; ok {
		return own
	}
	if name, _, ok := cutPort(host); ok {
		if own, ok := l.Hosts[name]; ok {
			return own
		}
	}
	return l.Default
}

// cutPort splits a port off a host, not the end of an IPv6 address.
func cutPort(host string) (name, port string, ok bool) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.IndexByte(host[i:], ']') >= 0 {
		return host, "", false
	}
	return host[:i], host[i+1:], true
}
