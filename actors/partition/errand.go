package partition

import (
	"github.com/belfry-scheduler/belfry/actors/wheel"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// errand is a command to the owner of another job, sent until it is answered. It
// lives in memory: whoever owns the partition next begins it anew from rows.
type errand struct {
	timer wheel.Timer[timed] // when it is sent again
	cmd   *belfryv1.Command
	job   string // whose errand it is
	pause int64  // before the next try, ms
	then  func(*belfryv1.Answer)
}

const (
	firstErrandPause   = 100    // ms
	longestErrandPause = 10_000 // ms
)

// setOut sets out with a command, after a while in ms. One that is keyed has an
// effect once, however often it arrives.
func (s *State) setOut(of string, cmd *belfryv1.Command, after int64, then func(*belfryv1.Answer)) {
	e := &errand{cmd: cmd, job: of, pause: firstErrandPause, then: then}
	e.timer.Value = timed{errand: e}
	s.errands[cmd.GetId()] = e
	s.wheel.Schedule(&e.timer, s.now+after)
	if after == 0 {
		s.run(e)
	}
}

func (s *State) run(e *errand) {
	s.wheel.Cancel(&e.timer)
	s.emit(Tell{Command: e.cmd})
}

// told takes the answer to an errand. Nothing but an answer of the job's own
// owner ends it.
func (s *State) told(t Told) {
	e := s.errands[t.Command]
	if e == nil {
		return
	}
	if t.Answer == nil || passing(t.Answer.GetRefusal().GetCode()) {
		s.wheel.Schedule(&e.timer, s.now+e.pause)
		e.pause = min(2*e.pause, longestErrandPause)
		return
	}
	delete(s.errands, t.Command)
	s.guard(e.job, func() { e.then(t.Answer) })
}

// passing refusals are about the owner and not about what it was asked.
func passing(code belfryv1.Refusal_Code) bool {
	switch code {
	case belfryv1.Refusal_CODE_NOT_OWNER, belfryv1.Refusal_CODE_UNAVAILABLE, belfryv1.Refusal_CODE_BUSY, belfryv1.Refusal_CODE_IN_FLIGHT:
		return true
	}
	return false
}
