package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

const (
	typeMermaid   = "text/vnd.mermaid"
	graphParallel = 16 // jobs read at once
)

// getGraph is GET /v1/jobs/{id}/graph.
func (g *Gateway) getGraph(c *call) error {
	jobID, err := c.jobID()
	if err != nil {
		return err
	}
	mermaid, err := c.wantsMermaid()
	if err != nil {
		return err
	}
	if _, err := g.readJob(c.r.Context(), jobID); err != nil {
		return noSuchJob(err, jobID)
	}
	edges, err := g.edges(c.r.Context(), jobID, nil)
	if err != nil {
		return err
	}
	out := g.viewGraph(c.r.Context(), jobID, edges)
	if mermaid {
		c.write(http.StatusOK, typeMermaid+"; charset=utf-8", []byte(Mermaid(out)))
		return nil
	}
	return c.answer(http.StatusOK, out)
}

// wantsMermaid reads ?format=, else Accept.
func (c *call) wantsMermaid() (bool, error) {
	switch format := c.query.Get("format"); format {
	case "":
		return strings.Contains(c.r.Header.Get("Accept"), typeMermaid), nil
	case "json", "mermaid":
		return format == "mermaid", nil
	default:
		return false, invalid("query.format", "%q is not known: write json or mermaid", clip(format))
	}
}

// edges asks the owner of the system partition for the dependencies around a job,
// and whether it may have upstreams.
func (g *Gateway) edges(ctx context.Context, jobID string, upstreams []string) (*belfryv1.Graph, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Limits.Ask)
	defer cancel()
	msg, err := g.cfg.Owners.Ask(ctx, job.SystemPartition, &belfryv1.GetGraph{Of: jobID, Upstreams: upstreams})
	if err != nil {
		return nil, g.unreachable(err)
	}
	edges, ok := msg.(*belfryv1.Graph)
	if !ok {
		return nil, fmt.Errorf("the owner answered a question for edges with %T", msg)
	}
	return edges, nil
}

// judgeUpstreams tells a request that stores nothing what it would be told if it
// did: what the graph cannot take is refused by its owner. A job that is not there
// is only a warning, because the jobs of one file are validated before any of them
// is stored.
func (g *Gateway) judgeUpstreams(ctx context.Context, jobID string, upstreams []string) ([]string, error) {
	var warnings []string
	for _, u := range upstreams {
		switch _, err := g.readJob(ctx, u); {
		case errors.Is(err, job.ErrNotFound):
			warnings = append(warnings, fmt.Sprintf("there is no job %q to depend on: create it first", u))
		case err != nil:
			return nil, err
		}
	}
	if len(upstreams) == 0 {
		return warnings, nil
	}
	graph, err := g.edges(ctx, jobID, upstreams)
	if err != nil {
		return nil, err
	}
	if why := graph.GetRefusal(); why != "" {
		return nil, job.Refuse("depends_on", "%s", why)
	}
	return warnings, nil
}

func (g *Gateway) viewGraph(ctx context.Context, jobID string, edges *belfryv1.Graph) *api.Graph {
	out := &api.Graph{JobID: jobID, Edges: []api.GraphEdge{}, Truncated: edges.GetTruncated()}
	ids := map[string]bool{jobID: true}
	for _, e := range edges.GetEdges() {
		out.Edges = append(out.Edges, api.GraphEdge{Upstream: e.GetUpstream(), Dependent: e.GetDependent()})
		ids[e.GetUpstream()], ids[e.GetDependent()] = true, true
	}
	slices.SortFunc(out.Edges, func(a, b api.GraphEdge) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Dependent, b.Dependent))
	})
	out.Jobs = make([]api.GraphJob, len(ids))
	var reads errgroup.Group
	reads.SetLimit(graphParallel)
	for i, id := range slices.Sorted(maps.Keys(ids)) {
		reads.Go(func() error {
			out.Jobs[i].JobID = id
			if s, err := g.readJob(ctx, id); err == nil {
				out.Jobs[i].Status, out.Jobs[i].Last = string(s.row.Status), s.state.GetLast().GetStatus()
			}
			return nil
		})
	}
	_ = reads.Wait() // a job that cannot be read is shown without its status
	return out
}

// Mermaid draws a graph as a flow chart in the language of that name.
func Mermaid(g *api.Graph) string {
	var b strings.Builder
	b.WriteString("graph LR\n")
	name := map[string]string{}
	for i, j := range g.Jobs {
		name[j.JobID] = fmt.Sprintf("j%d", i)
		label := j.JobID
		if j.Last != "" {
			label += "<br/>" + j.Last
		}
		fmt.Fprintf(&b, "  %s[\"%s\"]\n", name[j.JobID], label)
	}
	for _, e := range g.Edges {
		fmt.Fprintf(&b, "  %s --> %s\n", name[e.Upstream], name[e.Dependent])
	}
	return b.String()
}

// deleteCascade deletes all jobs that depend on a job, each after those that
// depend on it, and says which edges of the job itself are gone with them.
func (g *Gateway) deleteCascade(ctx context.Context, id identity, jobID string) (map[string]int64, error) {
	edges, err := g.edges(ctx, jobID, nil)
	if err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for _, next := range dependentsFirst(edges.GetEdges(), jobID) {
		cmd := id.forJob(next).command(next)
		cmd.Action = &belfryv1.Command_Delete{Delete: &belfryv1.Delete{Without: g.edgesTo(ctx, next, gone)}}
		_, err := g.ask(ctx, cmd, condition{})
		if missing := (*problem)(nil); err != nil && (!errors.As(err, &missing) || missing.Code != api.CodeJobNotFound) {
			return nil, err
		}
		gone[next] = true
	}
	return g.edgesTo(ctx, jobID, gone), nil
}

// edgesTo are the edges from a job to jobs that were deleted.
func (g *Gateway) edgesTo(ctx context.Context, jobID string, gone map[string]bool) map[string]int64 {
	edges := g.describe(ctx, jobID).GetDependents()
	maps.DeleteFunc(edges, func(id string, _ int64) bool { return !gone[id] })
	return edges
}

// dependentsFirst orders the jobs that follow a job, it not among them: each
// comes after those that follow it.
func dependentsFirst(edges []*belfryv1.Edge, jobID string) []string {
	next, waits := map[string][]string{}, map[string]int{}
	for _, e := range edges {
		next[e.GetUpstream()] = append(next[e.GetUpstream()], e.GetDependent())
	}
	for reach := []string{jobID}; len(reach) > 0; reach = reach[1:] {
		for _, d := range next[reach[0]] {
			if waits[d]++; waits[d] == 1 {
				reach = append(reach, d)
			}
		}
	}
	var order []string
	for free := []string{jobID}; len(free) > 0; free = free[1:] {
		order = append(order, free[0])
		for _, d := range next[free[0]] {
			if waits[d]--; waits[d] == 0 {
				free = append(free, d)
			}
		}
	}
	slices.Reverse(order)
	return order[:len(order)-1]
}
