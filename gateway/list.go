package gateway

import (
	"context"
	"net/http"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/persistence"
)

// listJobs is GET /v1/jobs.
func (g *Gateway) listJobs(c *call) error {
	size, err := c.pageSize()
	if err != nil {
		return err
	}
	f, err := c.filter()
	if err != nil {
		return err
	}
	page, err := g.page(c, f, size)
	if err != nil {
		return err
	}
	out := make([]*api.Job, 0, len(page))
	for _, s := range page {
		out = append(out, viewRow(s.asJob()))
	}
	return c.answer(http.StatusOK, out)
}

// page selects the next jobs for a request, and sets its Link header when there
// are more.
func (g *Gateway) page(c *call, f *filter, size int) ([]*stored, error) {
	var at persistence.Position
	if err := g.openToken(c, f.name(), &at); err != nil {
		return nil, err
	}
	page, next, more, err := g.scan(c.r.Context(), f, at, size)
	if err != nil {
		return nil, err
	}
	if more {
		g.linkNext(c, f.name(), next)
	}
	return page, nil
}

// scan reads at most maxRowsRead rows from a position on, until a page is full.
// The page may be short, even empty, although more follows.
func (g *Gateway) scan(ctx context.Context, f *filter, at persistence.Position, size int) (page []*stored, next persistence.Position, more bool, err error) {
	for read := 0; read < maxRowsRead; {
		rows, after, done, err := g.cfg.Store.List(ctx, at, min(chunkFor(f, size), maxRowsRead-read))
		if err != nil {
			return nil, at, false, err
		}
		for i := range rows {
			s := f.match(rows[i])
			if s == nil {
				continue
			}
			if page = append(page, s); len(page) == size {
				last := i == len(rows)-1
				return page, g.positionOf(rows[i]), !last || !done, nil
			}
		}
		read += len(rows)
		if at = after; done {
			return page, at, false, nil
		}
	}
	return page, at, true, nil
}

// chunkFor is how many rows to read at once: the page when every row is wanted.
func chunkFor(f *filter, size int) int {
	if f.all() {
		return size + 1
	}
	return maxPage
}

func (g *Gateway) positionOf(row persistence.Row) persistence.Position {
	return persistence.Position{Partition: g.partition(row.JobID), Slice: row.Slice, JobID: row.JobID}
}
