package partition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const (
	outcomesAtOnce = 16   // that one message to a dependent carries
	fullPause      = 1000 // before a dependent that had no place is asked again, ms
	// pressing is how many outcomes may wait for a dependent that has no place;
	// then it skips the runs that it cannot take.
	pressing = 1000
)

// runOf is the run that an execution is part of: its own, unless upstreams
// triggered it. One that is started by hand in the middle belongs to none that
// other upstreams of its dependents could have part in.
func (f *flight) runOf() *belfryv1.Run {
	if f.run != nil {
		return f.run
	}
	r := &belfryv1.Run{Id: f.id, Root: f.job.id, Instant: f.slot}
	if f.kind == job.Manual && f.job.dependent() {
		r.Root = ""
	}
	return r
}

// announce puts the outcome of an execution on its way to the dependents.
func (s *State) announce(c *change, f *flight, status job.ExecutionStatus) {
	if f.deleted() {
		return
	}
	o := &belfryv1.Outcome{ExecutionId: f.id, Run: f.runOf(), Status: string(status), Again: f.again}
	if status != job.Succeeded {
		o.Cause = f.job.id
	}
	s.putOut(c, f.job, o)
}

// putOut keeps an outcome, in the batch that decides it, for all dependents.
func (s *State) putOut(c *change, j *jobRec, o *belfryv1.Outcome) {
	if len(j.downs()) == 0 {
		return
	}
	o.N = s.draw()
	j.links.outs = append(j.links.outs, o)
	c.row(s.outRow(j, o)).afterwards(func() {
		if s.jobs[j.id] == j && j.links != nil {
			j.links.durable = max(j.links.durable, o.GetN())
			s.pump(j, 0)
		}
	})
}

// pump sends to every dependent what it has not taken.
func (s *State) pump(j *jobRec, after int64) {
	for _, id := range slices.Sorted(maps.Keys(j.downs())) {
		s.pumpTo(j, id, after)
	}
}

func (s *State) pumpTo(j *jobRec, id string, after int64) {
	l, d := j.links, j.links.downs[id]
	from, _ := slices.BinarySearchFunc(l.outs, d.acked+1, func(o *belfryv1.Outcome, n int64) int { return int(o.GetN() - n) })
	wait := l.outs[from:]
	var batch []*belfryv1.Outcome
	for _, o := range wait[:min(len(wait), outcomesAtOnce)] {
		if o.GetN() <= l.durable {
			batch = append(batch, o)
		}
	}
	if d.busy || len(batch) == 0 {
		return
	}
	d.busy = true
	last := batch[len(batch)-1].GetN()
	cmd := &belfryv1.Command{
		Id: fmt.Sprintf("notify/%s/%s/%d/%d", j.id, id, d.edge, last), JobId: id,
		Action: &belfryv1.Command_Notify{Notify: &belfryv1.Notify{Upstream: j.id, Edge: d.edge, Outcomes: batch, Pressed: len(wait) > pressing}},
	}
	s.setOut(j.id, cmd, after, func(a *belfryv1.Answer) {
		d.busy = false
		if s.jobs[j.id] == j && j.downs()[id] == d {
			s.taken(j, id, a.GetTaken(), last)
		}
	})
}

// taken follows the answer of a dependent: it has what is up to n. nil: it does
// not know what it was asked.
func (s *State) taken(j *jobRec, id string, t *belfryv1.Taken, last int64) {
	d := j.links.downs[id]
	if t.GetNone() {
		c := s.change(j)
		s.forgetDown(c, j, id)
		c.row(s.row(j, nil))
		return
	}
	if t.GetN() > d.acked {
		d.acked = t.GetN()
		c := s.change(j).row(s.downRow(j, id))
		s.dropTaken(c, j)
	}
	after := int64(0)
	if t.GetN() < last {
		after = fullPause
	}
	s.pumpTo(j, id, after)
}

// oldestAcked is what all dependents have taken.
func (l *links) oldestAcked() int64 {
	oldest := int64(-1)
	for _, d := range l.downs {
		if oldest < 0 || d.acked < oldest {
			oldest = d.acked
		}
	}
	return oldest
}

// dropTaken removes the outcomes that no dependent waits for any more: with a
// change as long as they are few.
func (s *State) dropTaken(c *change, j *jobRec) {
	l := j.links
	n := len(l.outs)
	if len(l.downs) > 0 {
		oldest := l.oldestAcked()
		n, _ = slices.BinarySearchFunc(l.outs, oldest+1, func(o *belfryv1.Outcome, n int64) int { return int(o.GetN() - n) })
	}
	var rows []persistence.Row
	for _, o := range l.outs[:n] {
		r := s.outRow(j, o)
		r.Delete = true
		rows = append(rows, r)
	}
	l.outs = slices.Clone(l.outs[n:])
	if c != nil && len(rows) <= outcomesAtOnce {
		for _, r := range rows {
			c.row(r)
		}
		return
	}
	s.dropRows(rows)
}

// attach gives a job a dependent: from here on its outcomes are kept for it.
func (s *State) attach(j *jobRec, a *belfryv1.Attach) (*change, *belfryv1.Answer) {
	l := j.linked()
	if d := l.downs[a.GetDependent()]; d != nil && d.edge >= a.GetEdge() {
		return nil, done()
	}
	l.downs[a.GetDependent()] = &downstream{edge: a.GetEdge(), acked: s.draw()}
	c := s.change(j).row(s.downRow(j, a.GetDependent())).row(s.row(j, nil))
	return c, done()
}

// detach takes a dependent away.
func (s *State) detach(j *jobRec, a *belfryv1.Detach) (*change, *belfryv1.Answer) {
	if d := j.downs()[a.GetDependent()]; d == nil || d.edge > a.GetEdge() {
		return nil, done()
	}
	c := s.change(j)
	s.forgetDown(c, j, a.GetDependent())
	return c.row(s.row(j, nil)), done()
}

// forgetDown forgets a dependent, and what only it had not taken.
func (s *State) forgetDown(c *change, j *jobRec, id string) {
	delete(j.links.downs, id)
	c.row(s.linkRow(j.id, persistence.DownstreamItem(id), nil))
	c.afterwards(func() {
		if j.links != nil {
			s.dropTaken(nil, j)
		}
	})
}

// leaned refuses the deletion of a job that others depend on, but for those that
// were deleted before it.
func (s *State) leaned(j *jobRec, without map[string]int64) *belfryv1.Answer {
	var names []string
	for _, id := range slices.Sorted(maps.Keys(j.downs())) {
		if edge, gone := without[id]; !gone || edge != j.links.downs[id].edge {
			names = append(names, id)
		}
	}
	if len(names) == 0 {
		return nil
	}
	const some = 10
	text := strings.Join(names[:min(len(names), some)], ", ")
	if len(names) > some {
		text += fmt.Sprintf(" and %d more", len(names)-some)
	}
	return refusal("", belfryv1.Refusal_CODE_STATE, "", "other jobs depend on it: %s: delete them first, or all together with ?cascade=true", text)
}

// cutOff forgets all dependents of a job that is deleted.
func (s *State) cutOff(c *change, j *jobRec) {
	for _, id := range slices.Sorted(maps.Keys(j.downs())) {
		s.forgetDown(c, j, id)
	}
}
