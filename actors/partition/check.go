package partition

import (
	"fmt"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// maxState is the largest stored state of a job, in bytes.
const maxState = 16 << 10

// check returns the first invariant that does not hold. Tests and the
// simulation call it after every step.
func (s *State) check() error {
	counts := map[job.Status]int{}
	flights, soon := 0, 0
	held := map[*jobRec]bool{}
	for _, j := range s.held {
		held[j] = true
	}
	for id, j := range s.jobs {
		counts[j.status]++
		flights += len(j.flights())
		if j.soon {
			soon++
		}
		if j.id != id {
			return fmt.Errorf("job %q is filed under %q", j.id, id)
		}
		if err := s.checkJob(j, held[j]); err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
	}
	for status, n := range s.counts {
		if counts[status] != n {
			return fmt.Errorf("%d jobs are counted as %s, and there are %d", n, status, counts[status])
		}
	}
	if flights != len(s.running) {
		return fmt.Errorf("%d flights are known by id, and the jobs have %d", len(s.running), flights)
	}
	if soon != s.soon {
		return fmt.Errorf("%d jobs are counted as due soon, and there are %d", s.soon, soon)
	}
	if q := &s.queue; q.flying == nil && len(q.waiting) > 0 {
		return fmt.Errorf("%d changes wait and no batch is out", len(q.waiting))
	}
	return nil
}

func (s *State) checkJob(j *jobRec, held bool) error {
	if j.next != 0 && j.next <= j.cursor {
		return fmt.Errorf("next %d is not after the cursor %d", j.next, j.cursor)
	}
	if j.next != 0 && j.status != job.Active {
		return fmt.Errorf("it is %s and has a next slot", j.status)
	}
	full := j.past != nil && j.past.backlog != 0
	if j.status == job.Active && j.next != 0 && !full && !held && !j.timer.Scheduled() {
		return fmt.Errorf("it is active, due at %d, and nothing will arm it", j.next)
	}
	if full && len(j.flights()) == 0 {
		return fmt.Errorf("slots are held back, and nothing is in flight")
	}
	if j.status == job.Active && j.next == 0 && len(j.flights()) == 0 {
		return fmt.Errorf("it is active, and nothing is due or in flight")
	}
	if n := len(encode(j.state())); n > maxState {
		return fmt.Errorf("its state has %d bytes", n)
	}
	for _, f := range j.flights() {
		if err := s.checkFlight(j, f); err != nil {
			return fmt.Errorf("execution %s: %w", f.id, err)
		}
	}
	return nil
}

func (s *State) checkFlight(j *jobRec, f *flight) error {
	switch {
	case f.job != j || s.running[f.id] != f:
		return fmt.Errorf("it is not filed under its job and id")
	case f.attempt < 1 || f.spec == nil:
		return fmt.Errorf("it has no attempt or no spec")
	case (f.phase == committing) != (f.owed != nil):
		return fmt.Errorf("it is in phase %d and owes a change: %t", f.phase, f.owed != nil)
	case f.phase == sent && f.sendAt() > f.sentNow:
		return fmt.Errorf("it was sent at %d, before %d", f.sentNow, f.sendAt())
	case (f.phase == waiting || f.phase == sent) && !f.timer.Scheduled():
		return fmt.Errorf("nothing will wake it in phase %d", f.phase)
	case f.phase == sent && (len(f.epochs) == 0 || f.epochs[len(f.epochs)-1] != s.life):
		return fmt.Errorf("it was sent under an epoch that its row does not name")
	}
	return nil
}
