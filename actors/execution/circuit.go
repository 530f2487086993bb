package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/sony/gobreaker/v2"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

const (
	// window is over how long the calls to a host are counted.
	window = 10 * time.Second
	// probes is how many calls a half-open circuit lets through at once, and how
	// many must succeed for it to close.
	probes = 3
	// A circuit that has closed lets firstRate calls a second begin, twice as many
	// in each second that follows, for recoverFor.
	firstRate  = 10
	recoverFor = 10 * time.Second
)

// How the call counts for its host's circuit; nil: for it.
var (
	errUnavailable = errors.New("the host is not available")
	errNeutral     = errors.New("this says nothing about the host")
)

// circuit is the breaker of a host. It opens when enough of the last calls
// failed, and at least half of them; it is tried with a few after a while, and
// lets begin more and more when it has closed. It reads the clock by itself.
type circuit struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	openFor time.Duration
	since   time.Time // it has been in its state; zero: for ever
	tripped gobreaker.Counts
	pace    job.Bucket // while it recovers
}

// newCircuit makes a closed one. changed is told of its transitions.
func newCircuit(failures int, openFor time.Duration, changed func(gobreaker.State)) *circuit {
	c := &circuit{openFor: openFor}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: probes, Interval: window, BucketPeriod: window / 10, Timeout: openFor,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			c.tripped = n
			return int(n.TotalFailures) >= failures && n.TotalFailures >= n.TotalSuccesses
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errNeutral) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			c.since = time.Now()
			changed(to)
		},
	})
	return c
}

// begin lets a call begin; false: it does not.
func (c *circuit) begin(now time.Time) (done func(error), ok bool) {
	done, err := c.breaker.Allow()
	if err != nil {
		return nil, false
	}
	c.reserve(now, 1)
	return done, true
}

// room is how many calls may begin, beside those that are promised.
func (c *circuit) room(now time.Time, promised int) int {
	switch c.breaker.State() {
	case gobreaker.StateOpen:
		return 0
	case gobreaker.StateHalfOpen:
		n := c.breaker.Counts()
		return probes - int(n.Requests-n.TotalExclusions) - promised
	}
	if rate, slow := c.rate(now); slow {
		return c.pace.Tokens(rate, now)
	}
	return math.MaxInt
}

// rate is how many calls may begin in this second of a recovery.
func (c *circuit) rate(now time.Time) (rate job.RateLimit, slow bool) {
	age := now.Sub(c.since)
	if c.since.IsZero() || age >= recoverFor {
		return rate, false
	}
	n := firstRate << max(age/time.Second, 0)
	return job.RateLimit{PerSecond: float64(n), Burst: max(n/10, 1)}, true
}

// reserve takes from the pace of a recovery, and release gives back.
func (c *circuit) reserve(now time.Time, n int) {
	if rate, slow := c.rate(now); slow {
		c.pace.Take(rate, now, n)
	}
}

func (c *circuit) release(now time.Time, n int) {
	if rate, slow := c.rate(now); slow {
		c.pace.Return(rate, n)
	}
}

// idle tells that nothing would be lost with it.
func (c *circuit) idle(now time.Time) bool {
	_, slow := c.rate(now)
	return c.breaker.State() == gobreaker.StateClosed && !slow && c.breaker.Counts().Requests == 0
}

// why says what keeps calls from beginning, and when that may be over; zero:
// when others end.
func (c *circuit) why(now time.Time) refusal {
	switch c.breaker.State() {
	case gobreaker.StateOpen:
		return refusal{circuitOpen, c.since, c.since.Add(c.openFor + time.Millisecond)}
	case gobreaker.StateHalfOpen:
		return refusal{circuitOpen, c.since, time.Time{}}
	}
	rate, _ := c.rate(now)
	return refusal{recovering, c.since, c.pace.Next(rate, now)}
}

// opened says why it has opened.
func (c *circuit) opened() string {
	return fmt.Sprintf("%d of the last %d calls failed", c.tripped.TotalFailures, c.tripped.TotalFailures+c.tripped.TotalSuccesses)
}

// circuitStates are their names, in metrics and events.
var circuitStates = map[gobreaker.State]string{gobreaker.StateOpen: "open", gobreaker.StateHalfOpen: "half_open", gobreaker.StateClosed: "closed"}

// tellChanges tells of circuits that have changed.
func (w *worker) tellChanges() {
	for _, t := range w.ledger.limits.changes {
		state := circuitStates[t.state]
		w.Metrics.breakers[t.state].Inc()
		w.Log.Log(context.Background(), levelOf(t.state), "the circuit of a host is "+state, "node", w.Node, "host", t.host.name, "why", t.why)
		if w.Publish != nil {
			w.Publish(&belfryv1.Event{Type: "circuit." + state, At: t.at.UnixMilli(), Host: t.host.name, Reason: t.why})
		}
	}
	w.ledger.limits.changes = nil
}

func levelOf(s gobreaker.State) slog.Level {
	if s == gobreaker.StateOpen {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
