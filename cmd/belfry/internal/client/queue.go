package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// Claim claims one execution of a queue; nil: none came within the wait.
func (c *Client) Claim(ctx context.Context, req api.ClaimRequest) (*api.Claimed, error) {
	a, err := c.post(ctx, "/internal/executions/claim", req)
	if err != nil || a.status == http.StatusNoContent {
		return nil, err
	}
	doc, err := decode[api.Claimed](a.body)
	return &doc.Value, err
}

// Complete says how a claimed execution ended. It may be repeated.
func (c *Client) Complete(ctx context.Context, id string, req api.CompleteRequest) error {
	_, err := c.post(ctx, "/internal/executions/"+segment(id)+"/complete", req)
	return err
}

// Heartbeat keeps a claimed execution for longer.
func (c *Client) Heartbeat(ctx context.Context, id string, req api.HeartbeatRequest) error {
	_, err := c.post(ctx, "/internal/executions/"+segment(id)+"/heartbeat", req)
	return err
}

// Release gives a claimed execution back.
func (c *Client) Release(ctx context.Context, id string, req api.ReleaseRequest) error {
	_, err := c.post(ctx, "/internal/executions/"+segment(id)+"/release", req)
	return err
}

func (c *Client) post(ctx context.Context, path string, req any) (answer, error) {
	return c.postJSON(ctx, path, req, false)
}

// postKeyed is post under an Idempotency-Key.
func (c *Client) postKeyed(ctx context.Context, path string, req any) (answer, error) {
	return c.postJSON(ctx, path, req, true)
}

func (c *Client) postJSON(ctx context.Context, path string, req any, changes bool) (answer, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return answer{}, fmt.Errorf("encode %s: %w", path, err)
	}
	return c.do(ctx, call{method: http.MethodPost, path: path, body: body, header: http.Header{"Content-Type": {jsonType}}, changes: changes})
}
