package gateway

import (
	"context"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// bulkParallel is how many jobs of one bulk action are worked on at once.
const bulkParallel = 32

// bulkJobs is POST /v1/jobs:bulk: it selects one page, names the next one in
// its Link header, then acts on each job and writes a line for it.
func (g *Gateway) bulkJobs(c *call) error {
	body, err := c.body(false, typeJSON)
	if err != nil {
		return err
	}
	req := new(api.BulkRequest)
	if err := decode(body, g.cfg.Limits.Depth, req); err != nil {
		return err
	}
	f, err := checkBulk(req)
	if err != nil {
		return err
	}
	size, err := c.pageSize()
	if err != nil {
		return err
	}
	id, err := c.identify("", body)
	if err != nil {
		return err
	}
	page, err := g.page(c, f, size)
	if err != nil {
		return err
	}
	return c.runBulk(req, id, page)
}

func checkBulk(req *api.BulkRequest) (*filter, error) {
	f := &filter{}
	if req.Filter != nil {
		f.Filter = *req.Filter
	}
	if !slices.Contains([]string{api.BulkPause, api.BulkResume, api.BulkDelete, api.BulkTrigger}, req.Action) {
		return nil, invalid("body.action", "%q is not one of pause, resume, delete, trigger", clip(req.Action))
	}
	if f.all() != req.All {
		if req.All {
			return nil, invalid("body.all", "it contradicts the filter: leave one of the two out")
		}
		return nil, invalid("body.filter", `it selects every job: give a filter, or say "all": true if every job is meant`)
	}
	if err := checkReason(req.Reason); err != nil {
		return nil, err
	}
	return f, f.check("body.filter")
}

// runBulk acts on the jobs of a page, several at once, and writes their lines in
// the page's order.
func (c *call) runBulk(req *api.BulkRequest, id identity, page []*stored) error {
	results := make([]chan api.BulkResult, len(page))
	for i := range results {
		results[i] = make(chan api.BulkResult, 1)
	}
	var workers errgroup.Group
	workers.SetLimit(bulkParallel)
	ctx := c.r.Context()
	go func() {
		for i, s := range page {
			workers.Go(func() error {
				results[i] <- c.g.bulkOne(ctx, req, id, s.row.JobID)
				return nil
			})
		}
	}()
	out := newLines(c)
	for _, r := range results {
		out.add(<-r)
	}
	return out.end()
}

func (g *Gateway) bulkOne(ctx context.Context, req *api.BulkRequest, id identity, jobID string) api.BulkResult {
	res := api.BulkResult{JobID: jobID, Action: req.Action, Result: api.BulkWould}
	if req.DryRun {
		return res
	}
	cmd := id.forJob(jobID).command(jobID)
	switch req.Action {
	case api.BulkPause:
		cmd.Action = &belfryv1.Command_Pause{Pause: &belfryv1.Pause{Reason: req.Reason}}
	case api.BulkResume:
		cmd.Action = &belfryv1.Command_Resume{Resume: &belfryv1.Resume{Reason: req.Reason}}
	case api.BulkDelete:
		cmd.Action = &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}
	case api.BulkTrigger:
		cmd.Action = &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}
	}
	answer, err := g.ask(ctx, cmd, condition{})
	if err != nil {
		res.Result, res.Error = api.BulkFailed, &asProblem(err).Problem
		return res
	}
	res.Result, res.ExecutionID = api.BulkDone, answer.GetExecution().GetExecutionId()
	return res
}

// lines is an answer of one JSON value a line, each sent as soon as it is known.
type lines struct {
	c   *call
	rc  *http.ResponseController
	err error
}

func newLines(c *call) *lines {
	c.w.Header().Set("Content-Type", typeNDJSON)
	c.w.WriteHeader(http.StatusOK)
	return &lines{c: c, rc: http.NewResponseController(c.w)}
}

func (l *lines) add(v any) {
	if l.err != nil {
		return
	}
	b, err := encode(v)
	if err != nil {
		l.err = err
		return
	}
	l.write(append(b, '\n'))
}

// write sends bytes now; a client that does not take them in time is cut off.
func (l *lines) write(b []byte) {
	if l.err != nil {
		return
	}
	l.c.extendWrite(l.rc)
	if _, l.err = l.c.w.Write(b); l.err == nil {
		l.err = l.rc.Flush()
	}
}

func (l *lines) end() error { return l.err }
