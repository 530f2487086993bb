package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// Change says under which condition a change is made, and whether at all.
type Change struct {
	IfMatch      string // ETag that the job must have; "" is any
	CreateOnly   bool   // PUT: refuse when the job exists
	ValidateOnly bool   // check and answer, store nothing
	Cascade      bool   // DELETE: with the jobs that depend on it
}

func (c Change) header(contentType string) http.Header {
	h := http.Header{}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	if c.IfMatch != "" {
		h.Set("If-Match", c.IfMatch)
	}
	if c.CreateOnly {
		h.Set("If-None-Match", "*")
	}
	return h
}

func (c Change) query() url.Values {
	switch {
	case c.ValidateOnly:
		return url.Values{"validate_only": {"true"}}
	case c.Cascade:
		return url.Values{"cascade": {"true"}}
	}
	return nil
}

// Result is a job after a change, and whether the change made it.
type Result struct {
	Doc[api.Job]
	Created bool
}

const jsonType = "application/json"

func jobPath(id string) string { return "/v1/jobs/" + segment(id) }

// Create makes a job; the server refuses when it exists. The body is a
// JobRequest in JSON.
func (c *Client) Create(ctx context.Context, body []byte, change Change) (Result, error) {
	return c.change(ctx, call{method: http.MethodPost, path: "/v1/jobs", body: body, header: change.header(jsonType), query: change.query()})
}

// Put makes or replaces the job of that id. The body is a JobRequest in JSON.
func (c *Client) Put(ctx context.Context, id string, body []byte, change Change) (Result, error) {
	return c.change(ctx, call{method: http.MethodPut, path: jobPath(id), body: body, header: change.header(jsonType), query: change.query()})
}

// Patch changes what the merge patch names.
func (c *Client) Patch(ctx context.Context, id string, patch []byte, change Change) (Result, error) {
	return c.change(ctx, call{method: http.MethodPatch, path: jobPath(id), body: patch, header: change.header("application/merge-patch+json"), query: change.query()})
}

func (c *Client) change(ctx context.Context, req call) (Result, error) {
	req.changes = true
	a, err := c.do(ctx, req)
	doc, err := one[api.Job](a, err)
	return Result{Doc: doc, Created: a.status == http.StatusCreated}, err
}

// Get reads a job.
func (c *Client) Get(ctx context.Context, id string) (Doc[api.Job], error) {
	return one[api.Job](c.do(ctx, call{method: http.MethodGet, path: jobPath(id)}))
}

// Delete removes a job.
func (c *Client) Delete(ctx context.Context, id string, change Change) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: jobPath(id), header: change.header(""), query: change.query(), changes: true})
	return err
}

// Graph reads what a job follows, and what follows it.
func (c *Client) Graph(ctx context.Context, id string) (Doc[api.Graph], error) {
	return one[api.Graph](c.do(ctx, call{method: http.MethodGet, path: jobPath(id) + "/graph"}))
}

// Mermaid reads the same as a flow chart.
func (c *Client) Mermaid(ctx context.Context, id string) (string, error) {
	a, err := c.do(ctx, call{method: http.MethodGet, path: jobPath(id) + "/graph", query: url.Values{"format": {"mermaid"}}})
	return string(a.body), err
}

// Pause stops a job from being due.
func (c *Client) Pause(ctx context.Context, id string, req api.PauseRequest) (Doc[api.Job], error) {
	return one[api.Job](c.act(ctx, id, "pause", req))
}

// Resume lets a paused job be due again.
func (c *Client) Resume(ctx context.Context, id string, req api.ResumeRequest) (Doc[api.Job], error) {
	return one[api.Job](c.act(ctx, id, "resume", req))
}

// Trigger runs a job now, beside its schedule.
func (c *Client) Trigger(ctx context.Context, id string) (Doc[api.Triggered], error) {
	return one[api.Triggered](c.act(ctx, id, "trigger", nil))
}

// Cancel ends an execution, or tells its worker to.
func (c *Client) Cancel(ctx context.Context, id string, req api.CancelRequest) (Doc[api.Cancelled], error) {
	return one[api.Cancelled](c.post(ctx, executionPath(id)+"/cancel", req))
}

func executionPath(id string) string { return "/v1/executions/" + segment(id) }

func (c *Client) act(ctx context.Context, id, action string, req any) (answer, error) {
	r := call{method: http.MethodPost, path: jobPath(id) + "/" + action, changes: true}
	if req != nil {
		body, err := json.Marshal(req)
		if err != nil {
			return answer{}, fmt.Errorf("encode %s: %w", action, err)
		}
		r.body, r.header = body, http.Header{"Content-Type": {jsonType}}
	}
	return c.do(ctx, r)
}

// Preview asks what a schedule means.
func (c *Client) Preview(ctx context.Context, req api.PreviewRequest) (Doc[api.Preview], error) {
	body, err := json.Marshal(req)
	if err != nil {
		return Doc[api.Preview]{}, fmt.Errorf("encode schedule: %w", err)
	}
	return one[api.Preview](c.do(ctx, call{method: http.MethodPost, path: "/v1/schedules/preview", body: body, header: http.Header{"Content-Type": {jsonType}}}))
}

// Execution reads an execution with its attempts.
func (c *Client) Execution(ctx context.Context, id string) (Doc[api.ExecutionDetail], error) {
	return one[api.ExecutionDetail](c.do(ctx, call{method: http.MethodGet, path: executionPath(id)}))
}

// Ready reports nil when the server takes requests.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/readyz"})
	return err
}

// Pauses between looks at an execution that has not ended.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second
)

// Await looks at an execution until it has ended.
func (c *Client) Await(ctx context.Context, id string) (Doc[api.ExecutionDetail], error) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		e, err := c.Execution(ctx, id)
		if err != nil {
			return e, err
		}
		switch job.ExecutionStatus(e.Value.Status) {
		case job.Pending, job.Running, job.Retrying:
		default:
			return e, nil
		}
		if !wait(ctx, pause) {
			<-ctx.Done()
			return e, ctx.Err()
		}
	}
}
