package partition

import (
	"crypto/sha256"
	"time"

	"github.com/belfry-scheduler/belfry/actors/wheel"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// memory recognises keyed commands. What was answered is in the store, in the
// row cmd/<id>; here is only that there is one.
type memory struct {
	known map[commandKey]bool // true: durable
	order []remembered        // by time, oldest first
	timer wheel.Timer[timed]
}

// commandKey is the first half of the hash of a command id: enough to tell
// any two apart, and half the size of the id.
type commandKey [16]byte

type remembered struct {
	jobID, command string
	at             int64
}

func newMemory() memory { return memory{known: map[commandKey]bool{}} }

func keyOf(command string) (k commandKey) {
	sum := sha256.Sum256([]byte(command))
	copy(k[:], sum[:])
	return k
}

// repeated answers a command that was seen before: from the store when its
// answer is there, else that it is under way.
func (s *State) repeated(ref Ref, cmd *belfryv1.Command) bool {
	durable, seen := s.commands.known[keyOf(cmd.GetId())]
	if !seen {
		return false
	}
	delete(s.asks, ref)
	if durable {
		s.emit(Recall{To: ref, Command: cmd, Slice: job.SideSliceOffset + s.slice(cmd.GetJobId())})
		return true
	}
	s.emit(Reply{To: ref, Answer: refusal(cmd.GetId(), belfryv1.Refusal_CODE_IN_FLIGHT, "", "the first request under this key is not answered yet: try again")})
	return true
}

// remember writes the answer to a keyed command in the batch with its effect.
func (s *State) remember(c *change, cmd *belfryv1.Command, a *belfryv1.Answer) {
	c.row(persistence.Row{
		Slice: job.SideSliceOffset + s.slice(cmd.GetJobId()), JobID: cmd.GetJobId(), Item: persistence.CommandItem(cmd.GetId()),
		State: encode(&belfryv1.RememberedCommand{
			Mark:   &belfryv1.CommandMark{Id: cmd.GetId(), Fingerprint: cmd.GetFingerprint(), At: s.now},
			Answer: encode(a),
		}),
	})
	s.commands.known[keyOf(cmd.GetId())] = false
	c.remembers = append(c.remembers, keyOf(cmd.GetId()))
	s.commands.order = append(s.commands.order, remembered{cmd.GetJobId(), cmd.GetId(), s.now})
	s.timeCommandSweep()
}

func (s *State) timeCommandSweep() {
	if m := &s.commands; len(m.order) > 0 && !m.timer.Scheduled() {
		s.wheel.Schedule(&m.timer, m.order[0].at+s.cfg.Remember.Milliseconds())
	}
}

// sweepCommands forgets commands past their time, a bounded number a second.
func (s *State) sweepCommands() {
	m := &s.commands
	for len(m.order) > 0 && m.order[0].at+s.cfg.Remember.Milliseconds() <= s.now {
		if !s.maySweep() {
			s.wheel.Schedule(&m.timer, s.now+time.Second.Milliseconds())
			return
		}
		r := m.order[0]
		m.order = m.order[1:]
		delete(m.known, keyOf(r.command))
		s.changeOf(r.jobID).row(persistence.Row{Slice: job.SideSliceOffset + s.slice(r.jobID), JobID: r.jobID, Item: persistence.CommandItem(r.command), Delete: true})
	}
	s.timeCommandSweep()
}

// maySweep counts rows swept in the current second.
func (s *State) maySweep() bool {
	if sec := s.now / 1000; sec != s.sweepSecond {
		s.sweepSecond, s.swept = sec, 0
	}
	if s.swept >= s.cfg.SweepPerSec {
		return false
	}
	s.swept++
	return true
}

// sweepJob removes a finished or deleted job past its retention.
func (s *State) sweepJob(j *jobRec) {
	if j.status != job.Finished && j.status != job.Deleted {
		return
	}
	due := j.history().statusAt + s.cfg.Retention.Milliseconds()
	if s.now < due || len(j.flights()) > 0 || len(j.downs()) > 0 || len(j.unendedBackfills()) > 0 {
		s.wheel.Schedule(&j.timer, max(due, s.now+time.Minute.Milliseconds()))
		return
	}
	if !s.maySweep() {
		s.wheel.Schedule(&j.timer, s.now+time.Second.Milliseconds())
		return
	}
	c := s.changeOf(j.id)
	for rev := range j.past.specs {
		r := s.specRow(j.id, rev, nil)
		r.Delete = true
		c.row(r)
	}
	c.row(persistence.Row{Slice: s.slice(j.id), JobID: j.id, Delete: true})
	s.counts[j.status]--
	delete(s.jobs, j.id)
}
