package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// Filter selects jobs; all that is given must hold.
type Filter struct {
	Labels        []string // k=v
	State         string
	Target        string
	IDPrefix      string
	NextRunBefore time.Time
}

func (f Filter) query() url.Values {
	q := url.Values{}
	for _, l := range f.Labels {
		q.Add("label", l)
	}
	for name, value := range map[string]string{"state": f.State, "target": f.Target, "id_prefix": f.IDPrefix} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if !f.NextRunBefore.IsZero() {
		q.Set("next_run_before", f.NextRunBefore.UTC().Format(time.RFC3339Nano))
	}
	return q
}

// Jobs lists jobs, page after page, as far as the caller reads. A page size of
// 0 is the server's own.
func (c *Client) Jobs(ctx context.Context, f Filter, pageSize int) iter.Seq2[Doc[api.Job], error] {
	return pages[api.Job](ctx, c, "/v1/jobs", f.query(), pageSize)
}

// Executions lists the executions of a job, newest first.
func (c *Client) Executions(ctx context.Context, jobID string, pageSize int) iter.Seq2[Doc[api.Execution], error] {
	return pages[api.Execution](ctx, c, jobPath(jobID)+"/executions", url.Values{}, pageSize)
}

// pages follows the next links of a list. A page may be short, even empty,
// and still have a next one.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values, pageSize int) iter.Seq2[Doc[T], error] {
	return func(yield func(Doc[T], error) bool) {
		if pageSize > 0 {
			query.Set("page_size", strconv.Itoa(pageSize))
		}
		for query != nil {
			a, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query})
			if err == nil {
				query, err = next(a.header)
			}
			if err == nil {
				err = each(a.body, yield)
			}
			if err != nil {
				if err != errStop {
					yield(Doc[T]{}, err)
				}
				return
			}
		}
	}
}

var errStop = fmt.Errorf("the reader has enough")

func each[T any](body []byte, yield func(Doc[T], error) bool) error {
	var items []json.RawMessage
	if err := json.Unmarshal(body, &items); err != nil {
		return fmt.Errorf("read the server's list: %w", err)
	}
	for _, raw := range items {
		d, err := decode[T](raw)
		if err != nil {
			return err
		}
		if !yield(d, nil) {
			return errStop
		}
	}
	return nil
}

// next is the query of the link to the next page; nil when there is none.
// Only the query is taken: host and path stay what the user chose.
func next(h http.Header) (url.Values, error) {
	links := strings.Join(h.Values("Link"), ",")
	for {
		_, rest, ok := strings.Cut(links, "<")
		if !ok {
			return nil, nil
		}
		target, rest, _ := strings.Cut(rest, ">")
		params, _, _ := strings.Cut(rest, "<")
		links = rest
		if !strings.Contains(params, `rel="next"`) && !strings.Contains(params, "rel=next") {
			continue
		}
		u, err := url.Parse(target)
		if err != nil {
			return nil, fmt.Errorf("read the link to the next page: %w", err)
		}
		return u.Query(), nil
	}
}
