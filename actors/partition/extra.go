package partition

import (
	"fmt"
	"slices"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// What runs after its time, the slots of a catch-up and of backfills, is extra:
// it may be very much at once, after an outage of everything, and nothing of it
// is urgent. So it runs at a pace: of a partition at most Config.Extra are in
// their first attempt at once, jobs take turns, and what is due by the schedule
// goes before it to the workers. One that has not ended after paceTime, since its
// target hangs, or takes nothing, or nobody claims it, keeps no other from running.

// paceTime is how long an execution counts for the pace at most. ms
const paceTime = int64(10_000)

// extra tells that an execution runs after its time.
func (f *flight) extra() bool { return f.catchUp || f.kind == job.Backfilled }

// beginPaced counts an extra execution until its first attempt has ended: one
// that waits for a retry keeps no other from running.
func (s *State) beginPaced(f *flight) {
	if f.extra() && f.attempt == 1 {
		f.paced = true
		s.paced++
		s.pacing = append(s.pacing, f)
	}
}

// outpace lets go of executions that have counted for long enough.
func (s *State) outpace() {
	for len(s.pacing) > 0 && (!s.pacing[0].paced || s.now >= s.pacing[0].due+paceTime) {
		s.endPaced(s.pacing[0])
		s.pacing = s.pacing[1:]
	}
}

// wakePace is when jobs in line have waited for the oldest for long enough.
func (s *State) wakePace() (at int64, ok bool) {
	if len(s.line) == 0 || len(s.pacing) == 0 {
		return 0, false
	}
	return s.pacing[0].due + paceTime, true
}

func (s *State) endPaced(f *flight) {
	if f.paced {
		f.paced = false
		s.paced--
	}
}

// extraLast orders flights: what is extra comes after all else.
func extraLast(a, b *flight) int {
	switch {
	case a.extra() == b.extra():
		return 0
	case a.extra():
		return 1
	}
	return -1
}

// queueExtra puts a job in line when it has something extra to run.
func (s *State) queueExtra(j *jobRec) {
	if !j.inLine && j.hasExtra() {
		j.inLine = true
		s.line = append(s.line, j)
	}
}

func (j *jobRec) hasExtra() bool {
	return j.past != nil && (j.status == job.Active && len(j.past.catchUp) > 0 || j.backfilling())
}

// armExtra arms what the pace allows, fairly over the jobs in line. A job leaves
// it when it has nothing more, or no place; the end of one of its executions
// brings it back.
func (s *State) armExtra() {
	s.outpace()
	if s.away() {
		return
	}
	for len(s.line) > 0 && s.paced < s.cfg.Extra {
		n := max((s.cfg.Extra-s.paced)/len(s.line), 1)
		j := s.line[0]
		s.line = s.line[1:]
		j.inLine = false
		if s.jobs[j.id] != j {
			continue
		}
		s.guard(j.id, func() {
			if s.armExtraOf(j, n) {
				s.queueExtra(j)
			}
		})
	}
	if len(s.line) == 0 {
		s.line = nil
	}
}

// armExtraOf arms at most n of a job. It tells whether it came to n, so that more
// may follow.
func (s *State) armExtraOf(j *jobRec, n int) bool {
	if !j.hasExtra() {
		return false
	}
	sp, sched, err := s.planOf(j)
	if err != nil {
		s.fault(j, err.Error())
		return false
	}
	c := s.change(j)
	left := n - s.armCatchUp(c, j, sp, sched, n)
	left -= s.armBackfills(c, j, left)
	s.settleStatus(c, j)
	c.row(s.row(j, nil))
	return left == 0
}

// outstanding is how many executions count for max_outstanding: a backfill has a
// bound of its own.
func (j *jobRec) outstanding() int {
	n := 0
	for _, f := range j.flights() {
		if f.kind != job.Backfilled {
			n++
		}
	}
	return n
}

// checkExtra: see beginPaced and queueExtra.
func (s *State) checkExtra() error {
	paced := 0
	for _, f := range s.running {
		if f.paced {
			paced++
		}
	}
	if paced != s.paced {
		return fmt.Errorf("%d executions are counted in the pace, and there are %d", s.paced, paced)
	}
	for _, j := range s.jobs {
		if j.inLine != slices.Contains(s.line, j) {
			return fmt.Errorf("job %s is in line for what is extra: %t, and believes: %t", j.id, !j.inLine, j.inLine)
		}
	}
	return nil
}
