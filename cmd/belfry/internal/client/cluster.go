package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"syscall"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// Members lists the nodes of the cluster.
func (c *Client) Members(ctx context.Context) ([]Doc[api.Member], error) {
	return list[api.Member](ctx, c, "/v1/cluster/members")
}

// Partitions lists who owns which partition.
func (c *Client) Partitions(ctx context.Context) ([]Doc[api.PartitionOwner], error) {
	return list[api.PartitionOwner](ctx, c, "/v1/cluster/partitions")
}

// list reads a list that has no pages.
func list[T any](ctx context.Context, c *Client, path string) (out []Doc[T], err error) {
	for d, err := range pages[T](ctx, c, path, url.Values{}, 0) {
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Drain tells a node to hand over what it owns and to stop.
func (c *Client) Drain(ctx context.Context, node string) (Doc[api.Draining], error) {
	return one[api.Draining](c.do(ctx, call{method: http.MethodPost, path: "/v1/cluster/members/" + segment(node) + "/drain"}))
}

// AwaitDrained looks at the members until the process m has left, or owns
// nothing, and tells which. seen is told of it whenever it owns another number
// of partitions. Where m itself is asked, it has left when nothing listens
// there any more.
func (c *Client) AwaitDrained(ctx context.Context, m api.Member, seen func(api.Member)) (left bool, err error) {
	owned := -1
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		members, err := c.Members(ctx)
		if m.Self && errors.Is(err, syscall.ECONNREFUSED) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		now, ok := member(members, m.Node, m.Incarnation)
		if !ok {
			return true, nil
		}
		if now.Partitions != owned {
			owned = now.Partitions
			seen(now)
		}
		if owned == 0 {
			return false, nil
		}
		if !wait(ctx, pause) {
			<-ctx.Done()
			return false, ctx.Err()
		}
	}
}

func member(members []Doc[api.Member], node, incarnation string) (api.Member, bool) {
	for _, d := range members {
		if d.Value.Node == node && d.Value.Incarnation == incarnation {
			return d.Value, true
		}
	}
	return api.Member{}, false
}

// Format reads which format of stored messages the nodes write.
func (c *Client) Format(ctx context.Context) (Doc[api.ClusterFormat], error) {
	return one[api.ClusterFormat](c.do(ctx, call{method: http.MethodGet, path: "/v1/cluster/format"}))
}

// RaiseFormat raises it.
func (c *Client) RaiseFormat(ctx context.Context, to int) (Doc[api.ClusterFormat], error) {
	body, err := json.Marshal(api.FormatRequest{Format: to})
	if err != nil {
		return Doc[api.ClusterFormat]{}, fmt.Errorf("encode format: %w", err)
	}
	return one[api.ClusterFormat](c.do(ctx, call{method: http.MethodPut, path: "/v1/cluster/format", body: body, header: http.Header{"Content-Type": {jsonType}}}))
}
