package partition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// links are a job's dependencies, each with a row of its own.
type links struct {
	ups     map[string]*belfryv1.Upstream // by job id: it follows them
	downs   map[string]*downstream        // by job id: they follow it
	outs    []*belfryv1.Outcome           // that some of downs have not taken. Invariant: in the order of n, without others.
	durable int64                         // newest of outs that is in the store
	joins   []*belfryv1.Join              // runs that wait for more upstreams, or were skipped, oldest first. Invariant: none waits for upstreams that the job had before.
	wired   int64                         // number of the last change of ups under which runs waited
}

// downstream is a job that follows another.
type downstream struct {
	edge, acked int64
	busy        bool // an errand to it is under way
}

// linked returns the job's links, made when they are needed for the first time.
func (j *jobRec) linked() *links {
	if j.links == nil {
		j.links = &links{ups: map[string]*belfryv1.Upstream{}, downs: map[string]*downstream{}}
	}
	return j.links
}

// dependent tells that upstreams trigger the job.
func (j *jobRec) dependent() bool { return len(j.ups()) > 0 }

func (j *jobRec) ups() map[string]*belfryv1.Upstream {
	if j == nil || j.links == nil {
		return nil
	}
	return j.links.ups
}

func (j *jobRec) downs() map[string]*downstream {
	if j.links == nil {
		return nil
	}
	return j.links.downs
}

// upstreams are the jobs that a job follows, sorted.
func (j *jobRec) upstreams() []string { return slices.Sorted(maps.Keys(j.ups())) }

// linkRow is a row beside the job's; m nil removes it.
func (s *State) linkRow(jobID, item string, m proto.Message) persistence.Row {
	r := persistence.Row{Slice: job.SideSliceOffset + s.slice(jobID), JobID: jobID, Item: item, Delete: m == nil}
	if m != nil {
		r.State = encode(m)
	}
	return r
}

func (s *State) upRow(j *jobRec, id string) persistence.Row {
	return s.linkRow(j.id, persistence.UpstreamItem(id), j.links.ups[id])
}

func (s *State) downRow(j *jobRec, id string) persistence.Row {
	d := j.links.downs[id]
	return s.linkRow(j.id, persistence.DownstreamItem(id), &belfryv1.Downstream{Edge: d.edge, Acked: d.acked})
}

func (s *State) outRow(j *jobRec, o *belfryv1.Outcome) persistence.Row {
	return s.linkRow(j.id, persistence.OutcomeItem(o.GetN()), o)
}

func joinItem(r *belfryv1.Run) string { return persistence.JoinItem(job.CommandHash(r.GetId())) }

// dropRows removes rows whose absence no other row relies on: not all at once,
// since a batch has an end.
func (s *State) dropRows(rows []persistence.Row) {
	const some = 100
	for part := range slices.Chunk(rows, some) {
		c := s.changeOf(part[0].JobID)
		for _, r := range part {
			c.row(persistence.Row{Slice: r.Slice, JobID: r.JobID, Item: r.Item, Delete: true})
		}
	}
}

// loadLink takes a row of a job's dependencies. What belongs to no registration
// that is there is dropped once all is loaded.
func (s *State) loadLink(r persistence.Row) {
	kind, id, _ := strings.Cut(r.Item, "/")
	if kind == persistence.WiringItem {
		s.loadWiring(r)
		return
	}
	j := s.jobs[r.JobID]
	read := map[string]func(*jobRec, string, []byte) bool{"up": loadUp, "down": loadDown, "out": loadOut, "join": loadJoin}[kind]
	switch {
	case read == nil:
		return
	case j == nil || j.status == job.Deleted || !read(j, id, r.State):
		s.strays = append(s.strays, r)
	}
}

func loadUp(j *jobRec, id string, state []byte) bool {
	u := new(belfryv1.Upstream)
	if proto.Unmarshal(state, u) != nil {
		return false
	}
	j.linked().ups[id] = u
	return true
}

func loadDown(j *jobRec, id string, state []byte) bool {
	d := new(belfryv1.Downstream)
	if proto.Unmarshal(state, d) != nil {
		return false
	}
	j.linked().downs[id] = &downstream{edge: d.GetEdge(), acked: d.GetAcked()}
	return true
}

// loadOut takes outcomes in their order: that of their items.
func loadOut(j *jobRec, _ string, state []byte) bool {
	o := new(belfryv1.Outcome)
	if proto.Unmarshal(state, o) != nil {
		return false
	}
	l := j.linked()
	l.outs, l.durable = append(l.outs, o), o.GetN()
	return true
}

func loadJoin(j *jobRec, _ string, state []byte) bool {
	x := new(belfryv1.Join)
	if proto.Unmarshal(state, x) != nil || x.GetGeneration() != j.gen {
		return false
	}
	j.linked().joins = append(j.links.joins, x)
	return true
}

// loadedLinks goes on with what the owner before had begun.
func (s *State) loadedLinks() {
	slices.SortStableFunc(s.strays, func(a, b persistence.Row) int { return strings.Compare(a.JobID, b.JobID) })
	for len(s.strays) > 0 {
		n := 1
		for n < len(s.strays) && s.strays[n].JobID == s.strays[0].JobID {
			n++
		}
		s.dropRows(s.strays[:n])
		s.strays = s.strays[n:]
	}
	for _, id := range slices.Sorted(maps.Keys(s.wirings)) {
		s.inquireWiring(s.wirings[id], 1)
	}
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		if j := s.jobs[id]; j.links != nil {
			slices.SortStableFunc(j.links.joins, func(a, b *belfryv1.Join) int { return int(a.GetAt() - b.GetAt()) })
			s.dropTaken(nil, j)
			s.rewires = append(s.rewires, j)
			s.pump(j, 1)
		}
	}
}

func (l *links) check() error {
	if l == nil {
		return nil
	}
	oldest := l.oldestAcked()
	for i, o := range l.outs {
		switch {
		case i > 0 && o.GetN() <= l.outs[i-1].GetN():
			return fmt.Errorf("outcome %d comes after %d", o.GetN(), l.outs[i-1].GetN())
		case len(l.downs) > 0 && o.GetN() <= oldest:
			return fmt.Errorf("outcome %d is kept, and all have taken it", o.GetN())
		}
	}
	if len(l.joins) > maxJoins {
		return fmt.Errorf("%d runs wait", len(l.joins))
	}
	return nil
}
