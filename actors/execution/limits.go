package execution

import (
	"time"

	"github.com/sony/gobreaker/v2"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// LimitsConfig is what calls to one host are held to.
type LimitsConfig struct {
	// Hosts are the operator's limits. A host with a shared one is called by one
	// worker; any other by each, with at most half of its slots.
	Hosts job.HostLimits
	// Failures is how many calls to a host must fail within 10 s, and at least
	// half of all, for its circuit to open: no answer, none in time, or 5xx.
	// 0: circuits never open. Default 10.
	Failures int
	// OpenFor is how long an open circuit lets nothing through before it is
	// tried. Default 10 s.
	OpenFor time.Duration
}

const (
	// knownHosts is how many hosts are remembered of which nothing runs or waits.
	knownHosts = 1024
	// longestPause bounds how long a host may ask all of its jobs to wait by
	// 429 and Retry-After.
	longestPause = time.Minute
)

// limits decides for each host whether a call may begin. Time comes in; only
// circuits read the clock, in the same goroutine.
type limits struct {
	LimitsConfig
	slots   int
	hosts   map[string]*host
	swept   time.Time    // when hosts were forgotten last
	changes []transition // of circuits, not told yet
}

// transition is a circuit that has changed.
type transition struct {
	host  *host
	state gobreaker.State
	why   string
	at    time.Time
}

// host is what runs at a host, and what may.
//
// Invariant: running + line.promised <= most, save where most was lowered.
type host struct {
	name    string
	limit   job.HostLimit
	most    int // calls at once
	running int
	line    *line // of the partitions that wait for it
	bucket  job.Bucket
	paused  time.Time // by itself: nothing begins before
	circuit *circuit  // nil: it never opens
}

// refusal is why a call to a host may not begin now, since when, and when it
// may; zero: unknown.
type refusal struct {
	why   reason
	since time.Time
	next  time.Time
}

// reason is that of a Busy.
type reason = belfryv1.Busy_Reason

const (
	concurrency = belfryv1.Busy_REASON_CONCURRENCY
	rate        = belfryv1.Busy_REASON_RATE
	circuitOpen = belfryv1.Busy_REASON_CIRCUIT
	recovering  = belfryv1.Busy_REASON_RECOVERING
)

func newLimits(cfg LimitsConfig, slots int) *limits {
	return &limits{LimitsConfig: cfg, slots: slots, hosts: map[string]*host{}}
}

// of finds a host; "": what has no host has no limits.
func (l *limits) of(name string, now time.Time, p *pledges) *host {
	if name == "" {
		return nil
	}
	h := l.hosts[name]
	if h == nil {
		l.forget(now)
		h = &host{name: name, limit: l.Hosts.Of(name)}
		h.most = h.limit.Concurrency
		if h.most == 0 {
			h.most = max(l.slots/2, 1)
		}
		if l.Failures > 0 {
			h.circuit = newCircuit(l.Failures, l.OpenFor, func(to gobreaker.State) { l.changed(h, to) })
		}
		h.line = newLine(h.most, h, p)
		l.hosts[name] = h
	}
	return h
}

func (l *limits) changed(h *host, to gobreaker.State) {
	t := transition{h, to, "", h.circuit.since}
	if to == gobreaker.StateOpen {
		t.why = h.circuit.opened()
	}
	l.changes = append(l.changes, t)
}

// forget drops the hosts of which there is nothing to remember, when there are
// many.
func (l *limits) forget(now time.Time) {
	if len(l.hosts) < knownHosts || now.Sub(l.swept) < time.Second {
		return
	}
	l.swept = now
	for name, h := range l.hosts {
		if h.running == 0 && len(h.line.waiters) == 0 && (h.circuit == nil || h.circuit.idle(now)) && !now.Before(h.bucket.Full()) && !now.Before(h.paused) {
			delete(l.hosts, name)
		}
	}
}

// room is how many more calls may begin, beside those that are promised.
func (h *host) room(now time.Time) int {
	n := h.most - h.running - h.line.promised
	if now.Before(h.paused) {
		return 0
	}
	if h.limit.Rate.Set() {
		n = min(n, h.bucket.Tokens(h.limit.Rate, now))
	}
	if h.circuit != nil {
		n = min(n, h.circuit.room(now, h.line.promised))
	}
	return max(n, 0)
}

// begin lets a call begin, and says by done how it counted; or it says why not.
func (h *host) begin(now time.Time) (done func(error), no *refusal) {
	if h.room(now) <= 0 {
		r := h.why(now)
		return nil, &r
	}
	done = func(error) {}
	if h.circuit != nil {
		var ok bool
		if done, ok = h.circuit.begin(now); !ok {
			r := h.circuit.why(now)
			return nil, &r
		}
	}
	h.running++
	if h.limit.Rate.Set() {
		h.bucket.Take(h.limit.Rate, now, 1)
	}
	return done, nil
}

// why says what keeps calls from beginning: what lasts longest.
func (h *host) why(now time.Time) refusal {
	switch {
	case h.circuit != nil && h.circuit.room(now, h.line.promised) <= 0:
		return h.circuit.why(now)
	case now.Before(h.paused):
		return refusal{why: rate, next: h.paused}
	case h.most > h.running+h.line.promised:
		return refusal{why: rate, next: h.bucket.Next(h.limit.Rate, now)}
	}
	return refusal{why: concurrency}
}

// next is when calls may begin because time has passed; false: when others end.
func (h *host) next(now time.Time) (time.Time, bool) {
	if h.room(now) > 0 {
		return time.Time{}, false
	}
	r := h.why(now)
	return r.next, !r.next.IsZero()
}

// promise keeps room for calls, and release gives it back.
func (h *host) promise(now time.Time, n int) {
	if h.limit.Rate.Set() {
		h.bucket.Take(h.limit.Rate, now, n)
	}
	if h.circuit != nil {
		h.circuit.reserve(now, n)
	}
}

func (h *host) release(now time.Time, n int) {
	if h.limit.Rate.Set() {
		h.bucket.Return(h.limit.Rate, n)
	}
	if h.circuit != nil {
		h.circuit.release(now, n)
	}
}

// heed pauses a host that answered that it is asked too often.
func (h *host) heed(now time.Time, r *belfryv1.Result) {
	const tooManyRequests = 429
	if h == nil || r.GetStatusCode() != tooManyRequests {
		return
	}
	pause := min(time.Duration(r.GetRetryAfterMs())*time.Millisecond, longestPause)
	if till := now.Add(pause); till.After(h.paused) {
		h.paused = till
	}
}

// counts says how a result counts for the circuit of its host.
func counts(r *belfryv1.Result) error {
	switch {
	case r.GetOutcome() == belfryv1.Result_OUTCOME_SUCCEEDED:
		return nil
	case r.GetUnavailable():
		return errUnavailable
	}
	return errNeutral
}
