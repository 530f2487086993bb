package partition

import (
	"time"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// pace is what a job's rate limit remembers. It is stored with the job's row
// whenever that is written, which is after each attempt: only what a former owner
// had sent and not recorded is missing, and where there is any of that the
// bucket of the next owner is empty at first.
type pace struct {
	bucket job.Bucket
	parked int64 // when the last of those that wait for a token is looked at again
}

// rateOf is the rate limit that a flight was armed with.
func (f *flight) rateOf() job.RateLimit { return messages.FromRateLimit(f.spec.GetRateLimit()) }

// next is the first flight of a lane that its job's rate limit lets go, which
// stays there; nil: there is none. Others are put aside until there may be a token.
func (s *State) next(l *lane) *flight {
	for len(l.flights) > 0 {
		f := l.flights[0]
		rate := f.rateOf()
		if !rate.Set() || f.job.past.pace.bucket.Tokens(rate, s.time()) > 0 {
			return f
		}
		s.shift(l)
		f.phase = waiting
		s.guard(f.job.id, func() { s.putAside(f, rate) })
	}
	return nil
}

// putAside lets a flight wait for a token of its job, each for another one.
func (s *State) putAside(f *flight, rate job.RateLimit) {
	if s.now >= f.expires {
		s.expire(f)
		return
	}
	p := &f.job.past.pace
	every := time.Duration(float64(time.Second) / rate.PerSecond)
	most := s.time().Add(every * time.Duration(len(f.job.flights()))) // also after a step of the clock
	at := time.UnixMilli(p.parked).Add(every)
	if first := p.bucket.Next(rate, s.time()); at.Before(first) || at.After(most) {
		at = first
	}
	p.parked = job.CeilMillis(at)
	s.wheel.Schedule(&f.timer, min(max(p.parked, s.now+1), f.expires))
}

// spend takes a token for a flight that is sent, and refund gives it back when it
// was not begun.
func (s *State) spend(f *flight) {
	if rate := f.rateOf(); rate.Set() {
		f.job.past.pace.bucket.Take(rate, s.time(), 1)
	}
}

func (s *State) refund(f *flight) {
	if rate := f.rateOf(); rate.Set() {
		f.job.past.pace.bucket.Return(rate, 1)
	}
}

// paceAfter restores the bucket of a loaded flight's job: it is empty when a
// former owner may have sent the flight, and nobody knows when.
func (s *State) paceAfter(f *flight) {
	if rate := f.rateOf(); rate.Set() && f.former(s.life) && f.sendAt() <= s.adoption.sent {
		f.job.past.pace.bucket.Empty(rate, s.time())
	}
}

func (s *State) time() time.Time { return time.UnixMilli(s.now) }

// failsWhenOpen tells that an execution does not wait for a circuit to close.
func (f *flight) failsWhenOpen() bool {
	return f.spec.GetOnOpenCircuit() == belfryv1.OpenCircuit_OPEN_CIRCUIT_FAIL
}

// circuitOpen is the hold of a lane whose circuit is open at every worker that
// could take it; nil: it is not.
func (s *State) circuitOpen(l *lane) *hold {
	var open *hold
	for _, w := range s.workers {
		if w.Draining || l.home != nil && l.home != w {
			continue
		}
		open = l.hold(w)
		if open == nil || s.now >= open.till || open.why != belfryv1.Busy_REASON_CIRCUIT {
			return nil
		}
	}
	return open
}

// failWaiting fails what does not wait for a circuit that has just opened.
func (s *State) failWaiting(l *lane) {
	open := s.circuitOpen(l)
	if open == nil {
		return
	}
	var failing []*flight
	for _, f := range l.flights {
		if f.failsWhenOpen() {
			failing = append(failing, f)
		}
	}
	for _, f := range failing {
		if f.phase == queued { // else it was dropped, with all of its job, just now
			s.unqueue(f)
			s.failUnsent(f, open.text(l.host, s.now))
		}
	}
}

// failUnsent ends the attempt of a flight that was not sent.
func (s *State) failUnsent(f *flight, why string) {
	s.guard(f.job.id, func() {
		s.judge(f, &belfryv1.Result{
			ExecutionId: f.id, JobId: f.job.id, Attempt: f.attempt, Epoch: s.life, Node: s.cfg.Node,
			Outcome: belfryv1.Result_OUTCOME_FAILED, Error: "nothing was sent: " + why, FinishedAt: s.now,
		})
	})
}
