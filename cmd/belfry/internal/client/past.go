package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// Backfill runs the slots of a range again; with change.ValidateOnly it answers
// how many there are.
func (c *Client) Backfill(ctx context.Context, jobID string, req api.BackfillRequest, change Change) (Doc[api.Backfill], error) {
	body, err := json.Marshal(req)
	if err != nil {
		return Doc[api.Backfill]{}, fmt.Errorf("encode backfill: %w", err)
	}
	return one[api.Backfill](c.do(ctx, call{
		method: http.MethodPost, path: jobPath(jobID) + "/backfill", body: body, header: change.header(jsonType), query: change.query(), changes: true,
	}))
}

// BackfillOf reads how far a backfill is.
func (c *Client) BackfillOf(ctx context.Context, jobID, id string) (Doc[api.Backfill], error) {
	return one[api.Backfill](c.do(ctx, call{method: http.MethodGet, path: backfillPath(jobID, id)}))
}

// CancelBackfill runs nothing more of a backfill.
func (c *Client) CancelBackfill(ctx context.Context, jobID, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: backfillPath(jobID, id), changes: true})
	return err
}

func backfillPath(jobID, id string) string { return jobPath(jobID) + "/backfills/" + segment(id) }

// Explain asks why a job did or did not run at an instant; zero: why it does not
// run now.
func (c *Client) Explain(ctx context.Context, jobID string, at time.Time) (Doc[api.Explanation], error) {
	query := url.Values{}
	if !at.IsZero() {
		query.Set("at", at.Format(time.RFC3339Nano))
	}
	return one[api.Explanation](c.do(ctx, call{method: http.MethodGet, path: jobPath(jobID) + "/explain", query: query}))
}

// AwaitBackfill looks at a backfill until it has ended, and tells of each look.
func (c *Client) AwaitBackfill(ctx context.Context, jobID, id string, look func(api.Backfill)) (Doc[api.Backfill], error) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		b, err := c.BackfillOf(ctx, jobID, id)
		if err != nil || b.Value.EndedAt != nil {
			return b, err
		}
		look(b.Value)
		if !wait(ctx, pause) {
			<-ctx.Done()
			return b, ctx.Err()
		}
	}
}
