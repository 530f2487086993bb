package partition

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
)

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
	if err := s.checkExtra(); err != nil {
		return err
	}
	untold := 0
	for _, w := range s.workers {
		if !w.told {
			untold++
		}
	}
	if untold != s.untold {
		return fmt.Errorf("%d workers are counted as not asked yet, and there are %d", s.untold, untold)
	}
	if len(s.freed) > 0 && !s.yielding && !s.done {
		return fmt.Errorf("%d places are free, and nobody is let in", len(s.freed))
	}
	if len(s.rewires) > 0 && !s.yielding && !s.done {
		return fmt.Errorf("%d jobs have other upstreams, and runs that wait for those before", len(s.rewires))
	}
	if len(s.again) > 0 || len(s.acks) > 0 {
		return fmt.Errorf("%d repeats and %d acknowledgements are left from the step", len(s.again), len(s.acks))
	}
	if err := s.checkLanes(); err != nil {
		return err
	}
	if err := s.shelves.check(); err != nil {
		return err
	}
	if s.queue.flying == nil && s.queue.lines.len() > 0 && !s.gathering() {
		return fmt.Errorf("%d changes wait and no batch is out", s.queue.lines.len())
	}
	return s.queue.check()
}

// checkLanes: each lane is in turn, and those in which something waits are
// served.
func (s *State) checkLanes() error {
	n, busy := 0, 0
	for host, l := range s.lanes.of {
		if len(l.flights) > 0 {
			busy++
		}
		n += len(l.flights)
		switch {
		case l.host != host || len(l.flights)+len(l.holds) == 0:
			return fmt.Errorf("lane %q is filed under %q, with %d flights and %d holds", l.host, host, len(l.flights), len(l.holds))
		case len(l.added) > 0 || !slices.IsSortedFunc(l.flights, inTurn):
			return fmt.Errorf("lane %q is not in turn, and %d are not in it", host, len(l.added))
		case (len(l.flights) > 0) != slices.Contains(s.lanes.busy, l):
			return fmt.Errorf("lane %q has %d flights, and is not where those are that have", host, len(l.flights))
		case l.home != s.home(host):
			return fmt.Errorf("lane %q has the wrong home", host)
		}
		for _, f := range l.flights {
			if f.phase != queued || f.turn == 0 || messages.Host(f.spec.GetTarget()) != host {
				return fmt.Errorf("execution %s is in lane %q in phase %d with turn %d", f.id, host, f.phase, f.turn)
			}
		}
		for _, h := range l.holds {
			if s.worker(h.worker.ID) != h.worker {
				return fmt.Errorf("lane %q is held up by %s, which is not live", host, h.worker.ID)
			}
		}
	}
	if n != s.lanes.n || busy != len(s.lanes.busy) {
		return fmt.Errorf("%d flights in %d lanes are counted, and there are %d in %d", s.lanes.n, len(s.lanes.busy), n, busy)
	}
	return nil
}

// check: changes of a job are in the order in which they were made, from the
// batch in flight to the ends of the lines, and those in line are in one line.
func (q *queue) check() error {
	w := &q.lines
	last := map[string]int64{}
	jobs := map[string]standing{}
	lines := [][]*change{w.again, w.commands, w.executions}
	if q.flying != nil {
		lines = append([][]*change{q.flying.changes}, lines...)
	}
	for i, line := range lines {
		inLine := len(lines)-i <= 2
		for _, c := range line {
			if err := c.check(); err != nil {
				return fmt.Errorf("change %d: %w", c.number, err)
			}
			if c.number <= last[c.id] {
				return fmt.Errorf("change %d of job %q is before change %d", last[c.id], c.id, c.number)
			}
			last[c.id] = c.number
			if inLine {
				jobs[c.id] = standing{jobs[c.id].n + 1, i == len(lines)-2}
			}
		}
	}
	if !maps.Equal(jobs, w.jobs) {
		return fmt.Errorf("in line are %v, and it is known of %v", jobs, w.jobs)
	}
	return nil
}

// has tells whether a flight is on a shelf.
func (s *shelves) has(f *flight) bool {
	if sh := s.of[f.queue()]; sh != nil && sh.byJob[f.job.id] != nil {
		return slices.Contains(sh.byJob[f.job.id].flights, f)
	}
	return false
}

// check: each job of a shelf has one turn, and no shelf is empty.
func (s *shelves) check() error {
	for queue, sh := range s.of {
		n := 0
		for _, st := range sh.turns {
			if sh.byJob[st.jobID] != st || !slices.IsSortedFunc(st.flights, onShelf) {
				return fmt.Errorf("queue %q: job %q has a turn and no place, or is not in order", queue, st.jobID)
			}
			n += len(st.flights)
		}
		if n != sh.n || n == 0 || len(sh.turns) != len(sh.byJob) {
			return fmt.Errorf("queue %q: %d are counted, and %d jobs in %d turns have %d", queue, sh.n, len(sh.byJob), len(sh.turns), n)
		}
	}
	if len(s.fresh) > 0 {
		return fmt.Errorf("%d queues have not been hinted at", len(s.fresh))
	}
	return nil
}

func (c *change) check() error {
	for _, r := range c.rows {
		if r.JobID != c.id {
			return fmt.Errorf("it is of job %q and has a row of job %q", c.id, r.JobID)
		}
	}
	for _, h := range c.history {
		if h.JobID != c.id {
			return fmt.Errorf("it is of job %q and has history of job %q", c.id, h.JobID)
		}
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
	if full && j.outstanding() == 0 {
		return fmt.Errorf("slots are held back, and nothing is in flight")
	}
	if j.status == job.Active && j.next == 0 && len(j.flights()) == 0 && !j.dependent() && !j.inLine {
		return fmt.Errorf("it is active, and nothing is due or in flight")
	}
	if n := len(encode(j.state())); n > maxState {
		return fmt.Errorf("its state has %d bytes", n)
	}
	if err := j.links.check(); err != nil {
		return err
	}
	for _, f := range j.flights() {
		if err := s.checkFlight(j, f); err != nil {
			return fmt.Errorf("execution %s: %w", f.id, err)
		}
	}
	return nil
}

func (s *State) checkFlight(j *jobRec, f *flight) error {
	named := len(f.epochs) > 0 && f.epochs[len(f.epochs)-1] == s.life
	switch {
	case f.job != j || s.running[f.id] != f:
		return fmt.Errorf("it is not filed under its job and id")
	case proto.Size(f.stored())+3 > f.most(j.gen):
		return fmt.Errorf("its entry has %d bytes, and %d were foreseen", proto.Size(f.stored())+3, f.most(j.gen))
	case f.attempt < 1 || f.spec == nil:
		return fmt.Errorf("it has no attempt or no spec")
	case (f.phase == committing) != (f.owed != nil):
		return fmt.Errorf("it is in phase %d and owes a change: %t", f.phase, f.owed != nil)
	case f.phase == sent && f.sendAt() > f.sentNow:
		return fmt.Errorf("it was sent at %d, before %d", f.sentNow, f.sendAt())
	case f.phase == keptOut && (f.letIn() || !s.another(f)) && !s.yielding:
		return fmt.Errorf("it is kept out, and nothing keeps it out")
	case (f.phase == waiting || f.phase == sent || f.phase == queued || f.phase == keptOut) && !f.timer.Scheduled() && !s.yielding:
		return fmt.Errorf("nothing will wake it in phase %d", f.phase)
	case f.phase == adopting && s.adoption.over:
		return fmt.Errorf("it waits for an adoption that is over")
	case f.phase == queued && !s.inLane(f):
		return fmt.Errorf("it is queued and in no lane")
	case (f.phase == unclaimed) != s.shelves.has(f):
		return fmt.Errorf("it is in phase %d and on a shelf: %t", f.phase, s.shelves.has(f))
	case (f.phase == unclaimed || f.phase == leased) && !f.timer.Scheduled() && !s.yielding:
		return fmt.Errorf("nothing ends its phase %d", f.phase)
	case f.lease != nil && (!f.claimable() || f.phase != leased && f.phase != committing && f.phase != waiting):
		return fmt.Errorf("it is under a lease in phase %d", f.phase)
	case f.lease != nil && f.lost != nil:
		return fmt.Errorf("it is under a lease, and under one that expired")
	case f.lease == nil && f.phase == leased:
		return fmt.Errorf("it is leased to nobody")
	case (f.phase == queued || f.tries > 0) && !named:
		return fmt.Errorf("it is sent under an epoch that its row does not name")
	}
	return s.checkWorker(f)
}

// another tells that an execution of the same registration was let in: its end
// lets in who is kept out, also when a step of the clock has it wait again itself.
func (s *State) another(f *flight) bool {
	return slices.ContainsFunc(f.job.flights(), func(o *flight) bool { return o != f && o.gen == f.gen && o.letIn() })
}

func (s *State) inLane(f *flight) bool {
	l := s.lanes.of[messages.Host(f.spec.GetTarget())]
	return l != nil && slices.Contains(l.flights, f)
}

// checkWorker: a flight is with a live worker that it was sent to, or that has
// said that it has it.
func (s *State) checkWorker(f *flight) error {
	switch {
	case f.phase == sent && f.worker == nil:
		return fmt.Errorf("it was sent to nobody")
	case f.worker == nil && (f.confirmed || f.tries > 0 || f.number != 0):
		return fmt.Errorf("no worker has it, and it remembers one")
	case f.worker != nil && f.phase != sent && f.phase != committing:
		return fmt.Errorf("a worker has it in phase %d", f.phase)
	case f.worker != nil && s.worker(f.worker.ID) != f.worker:
		return fmt.Errorf("its worker %s is not live", f.worker.ID)
	case f.worker != nil && !f.confirmed && f.tries == 0:
		return fmt.Errorf("worker %s has it, and nobody knows why", f.worker.ID)
	}
	return nil
}
