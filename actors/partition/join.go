package partition

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const (
	maxJoins   = 1000               // runs of a job that wait for upstreams, or were skipped and may still run
	joinWindow = 7 * 24 * time.Hour // how long they may
)

// ofLinks tells that a command is about dependencies, from another owner.
func ofLinks(cmd *belfryv1.Command) bool {
	return cmd.GetAttach() != nil || cmd.GetDetach() != nil || cmd.GetNotify() != nil
}

// linkless answers other owners about a job that is not there.
func (s *State) linkless(cmd *belfryv1.Command) (*change, *belfryv1.Answer) {
	switch id := cmd.GetJobId(); {
	case cmd.GetAttach() != nil:
		return s.refuse(belfryv1.Refusal_CODE_INVALID, "depends_on", "there is no job %q to depend on: create it first", id)
	case cmd.GetNotify() != nil:
		return s.unknownEdge(id, cmd.GetNotify())
	}
	return nil, done()
}

// unknownEdge answers outcomes of an upstream that the job does not have. While
// its upstreams change they wait. Else the upstream may forget the edge: that
// answer goes out behind a write, so that only the true owner gives it.
func (s *State) unknownEdge(id string, n *belfryv1.Notify) (*change, *belfryv1.Answer) {
	if w := s.wirings[id]; w != nil && !w.settling && slices.Contains(w.upstreams, n.GetUpstream()) {
		return nil, takenAnswer(0, false)
	}
	return s.changeOf(id).row(s.linkRow(id, persistence.UpstreamItem(n.GetUpstream()), nil)), takenAnswer(0, true)
}

func takenAnswer(n int64, none bool) *belfryv1.Answer {
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Taken{Taken: &belfryv1.Taken{N: n, None: none}}}
}

// notified takes outcomes of an upstream, in order, as far as there are places.
// What was taken before changes nothing.
func (s *State) notified(j *jobRec, n *belfryv1.Notify) (*change, *belfryv1.Answer) {
	u := j.ups()[n.GetUpstream()]
	if u == nil || u.GetEdge() > n.GetEdge() {
		if u != nil {
			return s.refuse(belfryv1.Refusal_CODE_INVALID, "", "the edge is number %d, not %d", u.GetEdge(), n.GetEdge())
		}
		return s.unknownEdge(j.id, n)
	}
	t := &taking{s: s, j: j, upstream: n.GetUpstream(), pressed: n.GetPressed()}
	for _, o := range n.GetOutcomes() {
		if o.GetN() <= u.GetTaken() {
			continue
		}
		if !t.take(u, o) {
			break
		}
		u.Taken = o.GetN()
	}
	if t.c != nil {
		t.c.row(s.upRow(j, n.GetUpstream())).row(s.row(j, nil))
	}
	return t.c, takenAnswer(u.GetTaken(), false)
}

// taking is the taking of outcomes of one upstream.
type taking struct {
	s        *State
	j        *jobRec
	c        *change // nil: nothing has changed
	upstream string
	pressed  bool
}

func (t *taking) change() *change {
	if t.c == nil {
		t.c = t.s.change(t.j)
	}
	return t.c
}

// take judges one outcome; false: the job has no place for what it triggers.
func (t *taking) take(u *belfryv1.Upstream, o *belfryv1.Outcome) bool {
	if root := o.GetRun().GetRoot(); root != "" {
		u.Root = root
	}
	shared, known := t.j.roots()
	if shared {
		return t.byRun(u, o, known)
	}
	return t.byNewest(u, o)
}

// roots tells whether all upstreams have part in the runs of one job, as far as
// is known: then they are joined run by run; and whether it is known of all.
func (j *jobRec) roots() (shared, known bool) {
	root := ""
	shared, known = true, true
	for _, u := range j.links.ups {
		switch r := u.GetRoot(); {
		case r == "":
			known = false
		case root == "":
			root = r
		case r != root:
			shared = false
		}
	}
	return shared, known
}

// byRun joins outcomes of one run. The job runs once for each run in which all
// upstreams succeeded, and skips each in which one did not.
func (t *taking) byRun(u *belfryv1.Upstream, o *belfryv1.Outcome, known bool) bool {
	l, run := t.j.links, o.GetRun()
	at := slices.IndexFunc(l.joins, func(x *belfryv1.Join) bool { return x.GetRun().GetId() == run.GetId() })
	if at < 0 && o.GetAgain() {
		t.change() // the run has been joined, or is forgotten
		return true
	}
	x := &belfryv1.Join{Run: run, Generation: t.j.gen, Wired: l.wired, At: t.s.now}
	if at >= 0 {
		x = l.joins[at]
	}
	if u.Newest = nil; o.GetStatus() != string(job.Succeeded) {
		t.change()
		t.breakOff(x, at, o.GetCause())
		return true
	}
	if !known { // the others may turn out to follow other jobs
		u.Newest = o
	}
	missing := 0
	for id := range l.ups {
		if id != t.upstream && !slices.Contains(x.GetSucceeded(), id) {
			missing++
		}
	}
	if missing > 0 {
		if !slices.Contains(x.Succeeded, t.upstream) {
			x.Succeeded = append(x.Succeeded, t.upstream)
		}
		t.keep(x, at)
		return true
	}
	if !t.trigger(run, job.CommandHash(run.GetId()), x.GetCause() != "") {
		return false
	}
	if at >= 0 {
		t.drop(at)
	}
	return true
}

// breakOff notes in a run that an upstream did not succeed. The first time the
// run is skipped; it is kept, since the upstream may be replayed.
func (t *taking) breakOff(x *belfryv1.Join, at int, cause string) {
	x.Succeeded = slices.DeleteFunc(x.Succeeded, func(id string) bool { return id == t.upstream })
	if x.GetCause() == "" {
		x.Cause = cause
		t.s.skipRun(t.c, t.j, x.GetRun(), job.CommandHash(x.GetRun().GetId()), "upstream "+cause, cause)
	}
	t.keep(x, at)
}

// keep stores a run that waits. When there are too many, or they are too old,
// the oldest are given up.
func (t *taking) keep(x *belfryv1.Join, at int) {
	l := t.j.links
	if at < 0 {
		l.joins = append(l.joins, x)
	}
	t.change().row(t.s.linkRow(t.j.id, joinItem(x.GetRun()), x))
	for len(l.joins) > maxJoins || t.s.now-l.joins[0].GetAt() > joinWindow.Milliseconds() {
		if oldest := l.joins[0]; oldest.GetCause() == "" {
			t.s.passRun(t.c, t.j, oldest.GetRun(), job.CommandHash(oldest.GetRun().GetId()), job.Missed, "waited too long for "+strings.Join(t.j.lacks(oldest), ", "), t.j.id)
		}
		t.drop(0)
	}
}

func (t *taking) drop(at int) {
	l := t.j.links
	t.change().row(t.s.linkRow(t.j.id, joinItem(l.joins[at].GetRun()), nil))
	l.joins = slices.Delete(l.joins, at, at+1)
}

// lacks are the upstreams that a run waits for.
func (j *jobRec) lacks(x *belfryv1.Join) []string {
	return slices.DeleteFunc(j.upstreams(), func(id string) bool { return slices.Contains(x.GetSucceeded(), id) })
}

// byNewest keeps the newest success of each upstream. When each has one, the job
// runs once and they are used up. It begins a run of its own then.
func (t *taking) byNewest(u *belfryv1.Upstream, o *belfryv1.Outcome) bool {
	if len(t.j.links.joins) > 0 {
		t.change() // the edge is of another root now, and that is durable first
		t.s.dropJoins(t.j)
	}
	before := u.GetNewest()
	if u.Newest = nil; o.GetStatus() == string(job.Succeeded) {
		u.Newest = o
	}
	run, name := &belfryv1.Run{Root: t.j.id}, ""
	for _, id := range t.j.upstreams() {
		newest := t.j.links.ups[id].GetNewest()
		if newest == nil {
			t.change()
			return true
		}
		run.Instant = max(run.Instant, newest.GetRun().GetInstant())
		name += fmt.Sprintf("%s:%d,", id, newest.GetN())
	}
	hash := job.CommandHash(name)
	run.Id = job.DependentID(t.j.id, t.j.gen, hash, job.Instant(run.GetInstant()))
	if !t.trigger(run, hash, false) {
		u.Newest = before
		return false
	}
	for _, id := range t.j.upstreams() {
		t.j.links.ups[id].Newest = nil
		t.c.row(t.s.upRow(t.j, id))
	}
	return true
}

// trigger runs the job for a run; false: it has no place for another execution.
func (t *taking) trigger(run *belfryv1.Run, hash string, again bool) bool {
	s, j := t.s, t.j
	sp, err := j.decodeSpec()
	f := s.launch(j, sp, run.GetInstant(), s.now)
	f.kind, f.hash, f.run, f.again = job.Dependent, hash, run, again
	full := err == nil && (j.outstanding() >= places(sp) || !f.fits())
	switch {
	case full && !t.pressed:
		return false
	case full:
		s.skipRun(t.change(), j, run, hash, "backlog", j.id)
	case j.status == job.Paused:
		s.skipRun(t.change(), j, run, hash, "paused", j.id)
	case j.status != job.Active || err != nil:
		t.change() // what it is in error for is said at the job
	default:
		f.id = job.DependentID(j.id, j.gen, hash, job.Instant(run.GetInstant()))
		if s.running[f.id] == nil {
			s.closeRange(t.change(), j)
			s.enter(f, t.c)
		}
	}
	return true
}

// skipRun records that a job does not run in a run, and passes that on.
func (s *State) skipRun(c *change, j *jobRec, run *belfryv1.Run, hash, reason, cause string) {
	s.passRun(c, j, run, hash, job.Skipped, reason, cause)
}

func (s *State) passRun(c *change, j *jobRec, run *belfryv1.Run, hash string, status job.ExecutionStatus, reason, cause string) {
	id := job.DependentID(j.id, j.gen, hash, job.Instant(run.GetInstant()))
	s.closeRange(c, j)
	c.record(j, run.GetInstant(), id, 0, s.life, &belfryv1.Record{
		Generation: j.gen, Status: string(status), Reason: reason, FinishedAt: s.now, Revision: j.rev, Node: s.cfg.Node, Trigger: "dependency",
	})
	p := j.history()
	p.count(status, 1)
	p.last = &belfryv1.LastExecution{ExecutionId: id, ScheduledFor: run.GetInstant(), Status: string(status), FinishedAt: s.now}
	c.publish(&belfryv1.Event{Type: "execution." + string(status), JobId: j.id, ExecutionId: id, ScheduledFor: run.GetInstant(), At: s.now, Reason: reason})
	s.putOut(c, j, &belfryv1.Outcome{ExecutionId: id, Run: run, Status: string(status), Cause: cause})
}

// missing says why a job that upstreams trigger does not run; "": it is not one.
func (j *jobRec) missing() string {
	if !j.dependent() {
		return ""
	}
	lacking := j.upstreams()
	shared, _ := j.roots()
	switch l := j.links; {
	case !shared:
		lacking = slices.DeleteFunc(lacking, func(id string) bool { return l.ups[id].GetNewest() != nil })
	default:
		for _, x := range slices.Backward(l.joins) {
			if x.GetCause() == "" {
				lacking = j.lacks(x)
				break
			}
		}
	}
	return "waiting for the success of " + strings.Join(lacking, ", ")
}

// edgesTo are a job's dependents, with the number of the edge of each.
func (j *jobRec) edgesTo() map[string]int64 {
	out := map[string]int64{}
	for id := range maps.Keys(j.downs()) {
		out[id] = j.links.downs[id].edge
	}
	return out
}
