package partition

import (
	"time"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// described answers what is running of a job, and why what is due waits, from
// memory.
func (s *State) described(e Described) {
	d := &belfryv1.Description{}
	if j := s.jobs[e.JobID]; j != nil {
		d.Dependents = j.edgesTo()
		for _, f := range j.flights() {
			if f.worker != nil || f.lease != nil {
				d.Running = append(d.Running, f.running())
			} else if why := s.whyWaiting(f); d.Waiting == "" {
				d.Waiting = why
			}
		}
		if len(j.flights()) == 0 && j.status == job.Active {
			d.Waiting = j.missing()
		}
	}
	s.emit(Reply{To: e.Ref, Answer: d})
}

// running is a flight that a worker has, ours or an outside one.
func (f *flight) running() *belfryv1.Description_Running {
	r := &belfryv1.Description_Running{ExecutionId: f.id, Attempt: f.attempt, SentAt: f.sentNow}
	if f.lease != nil {
		r.Worker, r.LeaseExpiresAt = f.lease.worker, f.lease.until
	}
	return r
}

// whyWaiting says why a flight that is due is with no worker; "" when it is not
// due or that takes no time.
func (s *State) whyWaiting(f *flight) string {
	switch {
	case f.phase == adopting:
		return "waiting: the workers are asked what they have of the former owner"
	case f.phase == unclaimed:
		return "waiting: no worker has claimed it from the queue " + f.queue()
	case f.phase == waiting && f.sendAt() <= s.now && f.rateOf().Set():
		return "waiting: rate limit until " + at(f.timer.At())
	case f.phase == keptOut:
		return "waiting: another execution of the job has not ended"
	case f.phase != queued:
		return ""
	case len(s.workers) == 0:
		return "waiting: there is no worker"
	}
	l := s.lanes.of[messages.Host(f.spec.GetTarget())]
	if h := s.heldUp(l); h != nil {
		return h.text(l.host, s.now)
	}
	return "waiting: no slot"
}

// heldUp is the hold of a lane that no worker takes anything of: of the most
// telling reason. nil: some worker would take it.
func (s *State) heldUp(l *lane) *hold {
	var held *hold
	for _, w := range s.workers {
		if w.Draining || l.home != nil && l.home != w {
			continue
		}
		h := l.hold(w)
		if h == nil || s.now >= h.till {
			return nil
		}
		if held == nil || h.why > held.why {
			held = h
		}
	}
	return held
}

func (h *hold) text(host string, now int64) string {
	switch h.why {
	case belfryv1.Busy_REASON_CIRCUIT:
		return "waiting: circuit open since " + at(h.since) + " (" + host + ")"
	case belfryv1.Busy_REASON_RECOVERING:
		return "waiting: circuit closed at " + at(h.since) + " and recovering (" + host + ")"
	case belfryv1.Busy_REASON_RATE:
		return "waiting: rate limit until " + at(max(h.next, now)) + " (" + host + ")"
	}
	return "waiting: host limit (" + host + ")"
}

func at(ms int64) string { return job.Instant(ms).Format(time.RFC3339) }
