package partition

import (
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const (
	// inquireAgain is how long an Inquire may stay unanswered while executions
	// wait for the answer, and inquireLater when none do any more. ms
	inquireAgain = int64(200)
	inquireLater = int64(1000)
	// clockSpread is how far the clocks of two nodes may be apart: what is due
	// within it may have been due for the former owner. ms
	clockSpread = int64(500)
	// gatherFor is how long the first batch may wait for what workers hold: they
	// answer within a few milliseconds, and a batch takes some tens. ms
	gatherFor = int64(50)
)

// adoption is how a new owner finds out what of its partition the workers hold,
// before it sends again what a former owner may have sent.
type adoption struct {
	till    int64     // then it waits no longer
	sent    int64     // what was due until then may have been sent before the load
	gather  int64     // until then the first batch waits; 0: nothing has waited yet
	flights []*flight // those that wait, in due order
	over    bool
}

// inquire asks every live worker that has not answered yet. Also those that
// come later: from its answer on a worker begins nothing of a former owner.
func (s *State) inquire() {
	if s.untold == 0 {
		return
	}
	again := s.inquireEvery()
	for _, w := range s.workers {
		if !w.told && (w.asked == 0 || s.now >= w.asked+again) {
			w.asked = s.now
			s.emit(Inquire{To: w.ID})
		}
	}
}

func (s *State) inquireEvery() int64 {
	if s.adoption.over {
		return inquireLater
	}
	return inquireAgain
}

// holds takes the answer to an Inquire.
func (s *State) holds(e Holds) {
	w := s.worker(e.From)
	if w == nil {
		return // it is asked when it is live
	}
	if !w.told {
		w.told = true
		s.untold--
	}
	s.begun(Begun(e))
}

// begun notes which deliveries a worker has.
func (s *State) begun(e Begun) {
	w := s.worker(e.From)
	if w == nil {
		return
	}
	for _, r := range e.Deliveries {
		f := s.running[r.GetExecutionId()]
		switch {
		case f == nil || f.attempt != r.GetAttempt():
		case f.worker == nil:
			s.adopt(f, w)
		case f.worker == w && f.phase == sent:
			s.confirm(f)
		}
	}
}

// adopt leaves a delivery to the worker that has it, under whatever epoch it was
// sent there.
func (s *State) adopt(f *flight, w *worker) {
	s.unqueue(f)
	s.reach(f)
	f.phase, f.owed, f.worker = sent, nil, w
	f.sentNow = max(s.now, f.sendAt())
	s.confirm(f)
	if f.cancel != "" {
		s.again = append(s.again, f)
	}
}

// confirm notes that a flight's worker has it: from here on it waits for the
// result.
func (s *State) confirm(f *flight) {
	if !f.confirmed {
		f.confirmed = true
		s.wheel.Schedule(&f.timer, s.now+s.answerTime(f))
	}
}

// answerTime is how long a delivery that was begun may stay unanswered, in ms.
func (s *State) answerTime(f *flight) int64 {
	return f.spec.GetTimeoutMs() + s.cfg.Redeliver.Milliseconds()
}

// endAdoption sends again what no worker holds, once all have answered, or there
// is no time left for those that are silent or not known yet. With no worker at
// all there is nobody yet who could hold anything.
func (s *State) endAdoption() {
	a := &s.adoption
	if a.over || s.now < a.till && (s.untold > 0 || len(s.workers) == 0 || s.partial) {
		return
	}
	a.over = true
	waiting := a.flights
	a.flights = nil
	for _, f := range waiting {
		if s.running[f.id] == f && f.phase == adopting {
			s.guard(f.job.id, func() { s.unheld(f) })
		}
	}
}

// maybeSent tells that a former owner may have sent a flight, as far as is known.
func (s *State) maybeSent(f *flight) bool {
	return !s.adoption.over && f.former(s.life) && f.sendAt() <= s.adoption.sent
}

// awaitHolds lets a flight wait for what the workers say.
func (s *State) awaitHolds(f *flight) {
	f.phase = adopting
	s.adoption.flights = append(s.adoption.flights, f)
}

// gathering tells that the first batch still waits for what the workers say. What
// no worker holds has to be written before it is sent: with that batch, or one
// batch later.
func (s *State) gathering() bool {
	a := &s.adoption
	if a.over || len(a.flights) == 0 || s.yielding {
		return false
	}
	if a.gather == 0 {
		a.gather = s.now + gatherFor
	}
	return s.now < a.gather
}

// unheld decides about a flight that a former owner may have sent and no worker
// holds.
func (s *State) unheld(f *flight) {
	f.phase = waiting
	switch {
	case f.unwanted() != "":
		s.abandon(f, f.unwanted()+"; its sender was lost while it ran")
	case f.formers(s.life) >= maxLost:
		s.loseAttempt(f)
	default:
		s.becomeReady(f)
	}
}

// maxLost is how many owners may die over one attempt before it is given up:
// a payload that kills its sender must not do so for ever.
const maxLost = 3

// abandon ends an execution that is not sent again.
func (s *State) abandon(f *flight, reason string) {
	c := s.change(f.job)
	s.end(c, f, ending{status: job.Cancelled, reason: reason, finished: s.now})
	s.settleStatus(c, f.job)
	c.row(s.row(f.job, nil))
}

// loseAttempt ends an attempt that as many owners have not survived as are
// allowed to; the next number follows by the retry policy.
func (s *State) loseAttempt(f *flight) {
	c := s.change(f.job)
	s.retry(c, f, nil, &belfryv1.Result{
		Outcome: belfryv1.Result_OUTCOME_UNKNOWN, Error: "every sender was lost", FinishedAt: s.now,
	})
	s.settleStatus(c, f.job)
	c.row(s.row(f.job, nil))
}
