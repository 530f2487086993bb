package partition

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// wiring is a change of a job's upstreams, see "Dependencies" in the package
// comment. There need not be a job yet.
type wiring struct {
	id        string // of the job
	number    int64
	settling  bool
	edges     []string // what the system partition is told
	upstreams []string // that get the edge, or settling lose it
	cmd       *belfryv1.Command
	by        asker

	left   int // commands without an answer
	no     *belfryv1.Refusal
	noFrom int      // which of them it answers: the first counts
	parked []parked // what was asked of the job meanwhile
}

// parked is a command that waits: for a wiring to end, or for a dead letter to be
// read.
type parked struct {
	by  asker
	cmd *belfryv1.Command
}

const maxParked = 64

// ofEdges tells that a command may change which jobs follow which.
func ofEdges(cmd *belfryv1.Command) bool { return cmd.GetRegister() != nil || cmd.GetDelete() != nil }

// wire tells that a command waits: it gives a job new upstreams, which are asked
// first, or has to wait for another that does.
func (s *State) wire(by asker, cmd *belfryv1.Command) bool {
	id := cmd.GetJobId()
	if w := s.wirings[id]; w != nil && ofEdges(cmd) {
		s.park(w, parked{by, cmd})
		return true
	}
	r, j := cmd.GetRegister(), s.jobs[id]
	if r == nil || job.PartitionOf(id, s.cfg.Partitions) != s.cfg.Partition || s.unfit(j, id, r) != nil {
		return false
	}
	had, added := j.upstreams(), []string(nil)
	for _, u := range r.GetSpec().GetDependsOn() {
		if !slices.Contains(had, u) {
			added = append(added, u)
		}
	}
	if len(added) == 0 {
		return false
	}
	w := &wiring{id: id, number: s.draw(), edges: slices.Concat(had, added), upstreams: added, cmd: cmd, by: by}
	s.wirings[id] = w
	s.changeOf(id).row(s.wiringRow(w)).afterwards(func() { s.inquireWiring(w, 0) })
	s.queue.lines.hurry(id)
	return true
}

func (s *State) park(w *wiring, p parked) {
	if len(w.parked) >= maxParked {
		s.answer(p.by, p.cmd, s.changeOf(w.id), refusal("", belfryv1.Refusal_CODE_BUSY, "", "too many changes of job %q wait for one of its upstreams: try again", w.id))
		return
	}
	w.parked = append(w.parked, p)
}

func (s *State) wiringRow(w *wiring) persistence.Row {
	m := &belfryv1.Wiring{Number: w.number, Settling: w.settling, Edges: w.edges, Upstreams: w.upstreams, Single: w.by.single}
	if w.cmd != nil {
		m.Command = encode(w.cmd)
	}
	return s.linkRow(w.id, persistence.WiringItem, m)
}

func (s *State) loadWiring(r persistence.Row) {
	m := new(belfryv1.Wiring)
	if proto.Unmarshal(r.State, m) != nil {
		return
	}
	w := &wiring{id: r.JobID, number: m.GetNumber(), settling: m.GetSettling(), edges: m.GetEdges(), upstreams: m.GetUpstreams()}
	w.by.single = m.GetSingle()
	if !w.settling {
		w.cmd = new(belfryv1.Command)
		if proto.Unmarshal(m.GetCommand(), w.cmd) != nil {
			return
		}
	}
	s.wirings[w.id] = w
}

// inquireWiring tells everybody who is concerned.
func (s *State) inquireWiring(w *wiring, after int64) {
	step, cmds := "ask", []*belfryv1.Command{{JobId: edgesOf(w.id), Action: &belfryv1.Command_SetEdges{SetEdges: &belfryv1.SetEdges{Upstreams: w.edges}}}}
	for _, u := range w.upstreams {
		c := &belfryv1.Command{JobId: u, Action: &belfryv1.Command_Attach{Attach: &belfryv1.Attach{Dependent: w.id, Edge: w.number}}}
		if w.settling {
			c.Action = &belfryv1.Command_Detach{Detach: &belfryv1.Detach{Dependent: w.id, Edge: w.number}}
		}
		cmds = append(cmds, c)
	}
	if w.settling {
		step = "settle"
	}
	w.left, w.no = len(cmds), nil
	for i, c := range cmds {
		c.Id, c.Keyed = fmt.Sprintf("wiring/%s/%d/%s/%s", w.id, w.number, step, c.GetJobId()), true
		s.setOut(w.id, c, after, func(a *belfryv1.Answer) { s.wired(w, i, a.GetRefusal()) })
	}
}

// refusedForGood tells that the refusal of a command is remembered as well, so
// that it does not have an effect when it comes again late.
func refusedForGood(cmd *belfryv1.Command) bool {
	return cmd.GetSetEdges() != nil || cmd.GetAttach() != nil
}

// wired takes one of the answers.
func (s *State) wired(w *wiring, from int, no *belfryv1.Refusal) {
	if no != nil && (w.no == nil || from < w.noFrom) {
		w.no, w.noFrom = no, from
	}
	if w.left--; w.left > 0 {
		return
	}
	switch {
	case w.settling:
		s.changeOf(w.id).row(s.linkRow(w.id, persistence.WiringItem, nil)).afterwards(func() { s.unpark(w) })
	case w.no != nil:
		s.unwire(w, &belfryv1.Answer{Outcome: &belfryv1.Answer_Refusal{Refusal: w.no}})
	default:
		s.commitWiring(w)
	}
}

// commitWiring carries out the command that all have agreed to. It settles the
// wiring itself, by relink.
func (s *State) commitWiring(w *wiring) {
	cmd := w.cmd
	s.single = w.by.single
	c, answer := s.command(cmd)
	if answer.GetRefusal() != nil {
		s.unwire(w, answer)
		return
	}
	if c == nil {
		c = s.changeOf(w.id)
	}
	if !w.settling { // nothing had to change after all
		s.settleWiring(c, w, s.jobs[w.id].upstreams(), nil)
	}
	s.answer(w.by, cmd, c, answer)
}

// unwire gives a wiring up. The refusal is decided when it is durable, and then
// answered: an owner that came later would else ask again.
func (s *State) unwire(w *wiring, answer *belfryv1.Answer) {
	cmd, c := w.cmd, s.changeOf(w.id)
	s.settleWiring(c, w, s.jobs[w.id].upstreams(), w.upstreams)
	s.answer(w.by, cmd, c, answer)
}

// settleWiring ends the part of a wiring that can fail: what is left is to tell
// others what holds.
func (s *State) settleWiring(c *change, w *wiring, edges, gone []string) {
	told := slices.Equal(edges, w.edges) && len(gone) == 0
	w.settling, w.cmd, w.edges, w.upstreams = true, nil, edges, gone
	if told {
		c.row(s.linkRow(w.id, persistence.WiringItem, nil)).afterwards(func() { s.unpark(w) })
		return
	}
	c.row(s.wiringRow(w)).afterwards(func() { s.inquireWiring(w, 0) })
}

// unpark ends a wiring, and goes on with what waited for it.
func (s *State) unpark(w *wiring) {
	delete(s.wirings, w.id)
	for _, p := range w.parked {
		s.carryOut(p.by, p.cmd)
	}
}

// relink gives a job the upstreams of its new spec, all of which have agreed; nil:
// it is deleted.
func (s *State) relink(c *change, j *jobRec, upstreams []string) {
	had, w := j.upstreams(), s.wirings[j.id]
	if slices.Equal(had, upstreams) && w == nil {
		return
	}
	var gone []string
	for _, u := range had {
		if !slices.Contains(upstreams, u) {
			gone = append(gone, u)
			delete(j.links.ups, u)
			c.row(s.upRowGone(j, u))
		}
	}
	for _, u := range upstreams {
		if j.ups()[u] == nil {
			j.linked().ups[u] = &belfryv1.Upstream{Edge: w.number}
			c.row(s.upRow(j, u))
		}
	}
	if w == nil {
		w = &wiring{id: j.id, number: s.draw(), edges: had}
		s.wirings[j.id] = w
	}
	s.settleWiring(c, w, upstreams, gone)
	s.rewired(j)
}

func (s *State) upRowGone(j *jobRec, id string) persistence.Row {
	return s.linkRow(j.id, persistence.UpstreamItem(id), nil)
}
