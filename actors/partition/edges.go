package partition

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// edgesOf is the id, in the system partition, of the upstreams of a job.
func edgesOf(jobID string) string { return edgesPrefix + jobID }

const edgesPrefix = "/edges/"

// maxGraph is how many edges an answer shows.
const maxGraph = 2000

// setEdges is what the system partition is asked: may the job have these
// upstreams, beside all that others may have?
func (s *State) setEdges(id string, e *belfryv1.SetEdges) (*change, *belfryv1.Answer) {
	of, ok := strings.CutPrefix(id, edgesPrefix)
	if !ok || e == nil {
		return s.refuse(belfryv1.Refusal_CODE_INVALID, "", "this node does not know what the command asks for: it is older than the one that sent it")
	}
	if bad := s.graph.Set(of, e.GetUpstreams()); bad != nil {
		return s.refuse(belfryv1.Refusal_CODE_INVALID, bad.Problems[0].Field, "%s", bad.Problems[0].Message)
	}
	row := persistence.Row{Slice: s.slice(id), JobID: id, Delete: len(e.GetUpstreams()) == 0}
	if !row.Delete {
		row.State = encode(&belfryv1.Edges{Upstreams: e.GetUpstreams()})
	}
	return s.changeOf(id).row(row), done()
}

func done() *belfryv1.Answer {
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Done{Done: &belfryv1.Done{}}}
}

func (s *State) loadEdges(r persistence.Row) {
	e := new(belfryv1.Edges)
	switch {
	case s.graph == nil:
	case strings.HasPrefix(r.Item, "cmd/"):
		s.loadCommand(r)
	case r.Item == "" && proto.Unmarshal(r.State, e) == nil:
		s.graph.Load(strings.TrimPrefix(r.JobID, edgesPrefix), e.GetUpstreams())
	}
}

func (s *State) graphed(e Graphed) {
	g := &belfryv1.Graph{}
	if s.graph != nil {
		edges, all := s.graph.Around(e.Of, maxGraph)
		g.Truncated = !all
		if bad := s.graph.Check(e.Of, e.Upstreams); bad != nil {
			g.Refusal = bad.Problems[0].Message
		}
		for _, x := range edges {
			g.Edges = append(g.Edges, &belfryv1.Edge{Upstream: x.Upstream, Dependent: x.Dependent})
		}
	}
	s.emit(Reply{To: e.Ref, Answer: g})
}
