package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// DeadFilter selects dead letters; all that is given must hold. Instants are
// RFC 3339.
type DeadFilter struct {
	JobID, Reason, Attempts, Since, Until string
	Labels                                []string // k=v
}

// Empty reports whether it selects all.
func (f DeadFilter) Empty() bool { return len(f.query()) == 0 }

func (f DeadFilter) query() url.Values {
	q := url.Values{}
	for _, l := range f.Labels {
		q.Add("label", l)
	}
	for name, value := range map[string]string{"job_id": f.JobID, "reason": f.Reason, "attempts": f.Attempts, "since": f.Since, "until": f.Until} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// DeadLetters lists dead letters, page after page, as far as the caller reads.
func (c *Client) DeadLetters(ctx context.Context, f DeadFilter, pageSize int) iter.Seq2[Doc[api.DeadLetter], error] {
	return pages[api.DeadLetter](ctx, c, "/v1/dead-letters", f.query(), pageSize)
}

// Retry replays a dead letter.
func (c *Client) Retry(ctx context.Context, id string, req api.ReplayRequest) (Doc[api.Replayed], error) {
	return one[api.Replayed](c.postKeyed(ctx, executionPath(id)+"/retry", req))
}

// Purge forgets a dead letter.
func (c *Client) Purge(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/v1/dead-letters/" + segment(id)})
	return err
}
