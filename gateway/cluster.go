package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// Cluster is what a node knows of the nodes, and what it can have them do. Each
// method may also answer job.ErrUnavailable, when the store is away, or
// job.ErrNoOwner, when a node that had to be asked did not answer.
type Cluster interface {
	// Members are the processes that seem to be alive. One that has not been
	// heard of and still shows signs of life in the store is among them; one
	// that has died is not.
	Members(ctx context.Context) ([]api.Member, error)
	// Partitions are all partitions, in order.
	Partitions(ctx context.Context) ([]api.PartitionOwner, error)
	// Drain tells a node to hand over what it has and to stop. It returns when
	// the node has been told, and may be repeated. ErrNoMember.
	Drain(ctx context.Context, node string) error
	// Format is FormatOf the stored format and the members.
	Format(ctx context.Context) (api.ClusterFormat, error)
	// RaiseFormat raises the stored format, and tells every node. That all of
	// them know it has been checked. It may be repeated.
	// persistence.ErrFormatMoved, persistence.ErrInDoubt.
	RaiseFormat(ctx context.Context, to int) (api.ClusterFormat, error)
}

// ErrNoMember is the answer to a request about a node that is not there.
var ErrNoMember = errors.New("no such node")

// FormatOf sums up which formats the members know. One that has not said which
// counts as knowing none.
func FormatOf(stored int, members []api.Member) api.ClusterFormat {
	out := api.ClusterFormat{Format: stored, Known: stored, Newest: stored}
	for i, m := range members {
		out.Newest = max(out.Newest, m.Format)
		if i == 0 || m.Format < out.Known {
			out.Known = m.Format
		}
	}
	for _, m := range members {
		if m.Format < out.Newest {
			out.Behind = append(out.Behind, api.NodeFormat{Node: m.Node, Format: m.Format})
		}
	}
	slices.SortFunc(out.Behind, func(a, b api.NodeFormat) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

func (g *Gateway) clusterRoutes() []*route {
	node := param{in: "path", name: "node", about: "The name of the node.", required: true}
	return []*route{
		{
			method: http.MethodGet, path: "/v1/cluster/members", name: "listMembers", summary: "The nodes of the cluster", handle: g.onCluster(listMembers),
			details: "As the node that answers sees them, by name.",
			answers: map[int]any{200: []api.Member{}}, errors: []int{501, 503},
		}, {
			method: http.MethodGet, path: "/v1/cluster/partitions", name: "listPartitions", summary: "Who owns which partition", handle: g.onCluster(listPartitions),
			details: "As the node that answers sees it; during a change of owner it may be behind.",
			answers: map[int]any{200: []api.PartitionOwner{}}, errors: []int{501, 503},
		}, {
			method: http.MethodPost, path: "/v1/cluster/members/{node}/drain", name: "drainMember", summary: "Have a node hand over what it owns, and stop", handle: g.onCluster(drainMember),
			details: "The answer comes when the node has been told; the list of members shows how far it is. A repeat does no harm.",
			params:  []param{node},
			answers: map[int]any{202: api.Draining{}}, errors: []int{404, 415, 501, 503},
		}, {
			method: http.MethodGet, path: "/v1/cluster/format", name: "getFormat", summary: "The format of stored messages, and which formats the nodes know", handle: g.onCluster(getFormat),
			answers: map[int]any{200: api.ClusterFormat{}}, errors: []int{501, 503},
		}, {
			method: http.MethodPut, path: "/v1/cluster/format", name: "raiseFormat", summary: "Raise the format of stored messages, the last step of an upgrade", handle: g.onCluster(raiseFormat),
			details: "There is no way back: nodes that do not know the format do not start any more. The one that there is already changes nothing.",
			body:    api.FormatRequest{},
			answers: map[int]any{200: api.ClusterFormat{}}, errors: []int{409, 413, 415, 422, 501, 503},
		},
	}
}

// onCluster is a route that looks at the nodes, or has them do something. It is
// cut off after the time that an owner has.
func (g *Gateway) onCluster(do func(context.Context, *call, Cluster) error) func(*call) error {
	return func(c *call) error {
		if g.cfg.Cluster == nil {
			return refuse(api.CodeNoCluster, "this process is alone: it is no node of a cluster that could be shown or changed")
		}
		ctx, cancel := context.WithTimeout(c.r.Context(), g.cfg.Limits.Ask)
		defer cancel()
		return fromCluster(do(ctx, c, g.cfg.Cluster))
	}
}

// listMembers is GET /v1/cluster/members.
func listMembers(ctx context.Context, c *call, cl Cluster) error {
	members, err := cl.Members(ctx)
	if err != nil {
		return err
	}
	members = slices.SortedFunc(slices.Values(members), func(a, b api.Member) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return c.answer(http.StatusOK, members)
}

// listPartitions is GET /v1/cluster/partitions.
func listPartitions(ctx context.Context, c *call, cl Cluster) error {
	owners, err := cl.Partitions(ctx)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, owners)
}

// drainMember is POST /v1/cluster/members/{node}/drain.
func drainMember(ctx context.Context, c *call, cl Cluster) error {
	node, err := c.pathPart("node")
	if err != nil {
		return err
	}
	if _, err := c.optionalBody(&struct{}{}); err != nil {
		return err
	}
	err = cl.Drain(ctx, node)
	if errors.Is(err, ErrNoMember) {
		return refuse(api.CodeNoMember, "there is no node %q in the cluster: GET /v1/cluster/members lists those that are there", clip(node))
	}
	if err != nil {
		return fmt.Errorf("drain %s: %w", node, err)
	}
	return c.answer(http.StatusAccepted, api.Draining{Node: node, State: api.MemberDraining})
}

// getFormat is GET /v1/cluster/format.
func getFormat(ctx context.Context, c *call, cl Cluster) error {
	format, err := cl.Format(ctx)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, format)
}

// raiseFormat is PUT /v1/cluster/format.
func raiseFormat(ctx context.Context, c *call, cl Cluster) error {
	body, err := c.body(false, typeJSON)
	if err != nil {
		return err
	}
	var req api.FormatRequest
	if err := decode(body, c.g.cfg.Limits.Depth, &req); err != nil {
		return err
	}
	now, err := cl.Format(ctx)
	if err != nil {
		return err
	}
	if err := checkRaise(now, req.Format); err != nil {
		return err
	}
	if req.Format != now.Format {
		if now, err = cl.RaiseFormat(ctx, req.Format); err != nil {
			return fmt.Errorf("raise the format to %d: %w", req.Format, err)
		}
	}
	return c.answer(http.StatusOK, now)
}

// checkRaise tells whether a format may be raised. A node that starts after the
// look at the nodes, and does not know the format, is refused by the store or
// gives up what it owns when it hears of it: the check spares that.
func checkRaise(now api.ClusterFormat, to int) error {
	switch {
	case to == 0:
		return invalid("body.format", "it is missing, or 0: the format now is %d, and every node knows formats up to %d", now.Format, now.Known)
	case to < now.Format:
		return refuse(api.CodeFormatRefused, "the format is %d and is only ever raised: rows of it are stored, which nodes of format %d cannot read", now.Format, to)
	case to > now.Newest:
		return refuse(api.CodeFormatRefused, "no node knows format %d, the newest that any knows is %d: upgrade the nodes first", to, now.Newest)
	}
	if to == now.Format {
		return nil
	}
	p := refuse(api.CodeFormatUnknown, "not every node knows format %d: upgrade those that do not, or drain them; see errors", to)
	for _, n := range now.Behind {
		if n.Format < to {
			p.Errors = append(p.Errors, api.FieldProblem{Location: "body.format", Message: fmt.Sprintf("node %s knows formats up to %d", n.Node, n.Format)})
		}
	}
	if len(p.Errors) == 0 {
		return nil
	}
	return p
}

// fromCluster is asProblem for what is asked of nodes instead of owners.
func fromCluster(err error) error {
	code, detail := "", ""
	switch {
	case errors.Is(err, persistence.ErrFormatMoved):
		code, detail = api.CodeFormatMoved, "the format was raised by others meanwhile: look at what it is now, and decide anew"
	case errors.Is(err, persistence.ErrInDoubt):
		code, detail = api.CodeStoreAway, "the store did not answer in time: whether the format was raised is not known. Repeat the request"
	case errors.Is(err, job.ErrNoOwner), errors.Is(err, context.DeadlineExceeded):
		code, detail = api.CodeNodeAway, "a node that had to be asked did not answer: whether it heard the request is not known. Repeat it"
	default:
		return err
	}
	p := refuse(code, "%s", detail)
	p.cause = err
	return p
}
