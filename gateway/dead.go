package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// deadFilter selects dead letters.
type deadFilter struct{ api.DeadFilter }

// listDead is GET /v1/dead-letters.
func (g *Gateway) listDead(c *call) error {
	size, err := c.pageSize()
	if err != nil {
		return err
	}
	f, err := c.deadFilter()
	if err != nil {
		return err
	}
	page, err := g.deadPage(c, f, size)
	if err != nil {
		return err
	}
	out := make([]api.DeadLetter, len(page))
	for i, d := range page {
		out[i] = viewDead(d)
	}
	return c.answer(http.StatusOK, out)
}

// deadFilter reads a filter from the query.
func (c *call) deadFilter() (*deadFilter, error) {
	f := &deadFilter{api.DeadFilter{JobID: c.query.Get("job_id"), Reason: c.query.Get("reason"), Attempts: c.query.Get("attempts")}}
	labels, err := c.labels()
	if err != nil {
		return nil, err
	}
	f.Labels = labels
	for name, to := range map[string]**time.Time{"since": &f.Since, "until": &f.Until} {
		if !c.query.Has(name) {
			continue
		}
		at, err := c.instant(name)
		if err != nil {
			return nil, err
		}
		*to = &at
	}
	return f, f.check("query")
}

func (f *deadFilter) check(prefix string) error {
	if f.Attempts != "" && f.Attempts != "answered" && f.Attempts != "unknown" {
		return invalid(join(prefix, "attempts"), "%q is neither answered nor unknown", clip(f.Attempts))
	}
	if f.JobID != "" {
		if bad := job.CheckID(f.JobID); bad != nil {
			return invalid(join(prefix, "job_id"), "%s", bad.Problems[0].Message)
		}
	}
	return nil
}

func (f *deadFilter) all() bool {
	return f.JobID == "" && len(f.Labels) == 0 && f.Since == nil && f.Until == nil && f.Reason == "" && f.Attempts == ""
}

func (f *deadFilter) name() string {
	b, err := encode(f.DeadFilter)
	if err != nil {
		return "dead"
	}
	return "dead\x00" + string(b)
}

func (f *deadFilter) match(d *belfryv1.DeadLetter) bool {
	failed := job.Instant(d.GetFailedAt())
	switch {
	case f.JobID != "" && d.GetJobId() != f.JobID,
		f.Since != nil && failed.Before(*f.Since),
		f.Until != nil && !failed.Before(*f.Until),
		f.Attempts == "answered" && d.GetUnknownAttempts() > 0,
		f.Attempts == "unknown" && d.GetUnknownAttempts() == 0,
		!strings.Contains(d.GetReason(), f.Reason) && !strings.Contains(d.GetLastError(), f.Reason),
		!hasLabels(d.GetSpec().GetLabels(), f.Labels):
		return false
	}
	return true
}

// deadPage selects the next dead letters for a request, and sets its Link header
// when there may be more.
func (g *Gateway) deadPage(c *call, f *deadFilter, size int) ([]*belfryv1.DeadLetter, error) {
	at := persistence.Position{}
	if f.JobID != "" {
		at = persistence.Position{Partition: g.partition(f.JobID), Slice: job.DeadSliceOffset + g.slice(f.JobID), JobID: f.JobID}
	}
	if err := g.openToken(c, f.name(), &at); err != nil {
		return nil, err
	}
	var page []*belfryv1.DeadLetter
	for read := 0; read < maxRowsRead && len(page) < size; {
		rows, next, done, err := g.cfg.Store.Dead(c.r.Context(), at, min(size-len(page), maxRowsRead-read))
		if err != nil {
			return nil, err
		}
		read, at = read+len(rows), next
		for i := range rows {
			if f.JobID != "" && rows[i].JobID != f.JobID {
				return page, nil // all of the job's are read
			}
			if d, err := messages.DecodeDead(rows[i].Spec, rows[i].State); err == nil && f.match(d) {
				page = append(page, d)
			}
		}
		if done {
			return page, nil
		}
	}
	g.linkNext(c, f.name(), at)
	return page, nil
}

func viewDead(d *belfryv1.DeadLetter) api.DeadLetter {
	out := api.DeadLetter{
		ExecutionID: d.GetExecutionId(), JobID: d.GetJobId(), ScheduledFor: job.Instant(d.GetScheduledFor()), FailedAt: job.Instant(d.GetFailedAt()),
		Reason: d.GetReason(), Attempts: int(d.GetAttempts()), UnknownAttempts: int(d.GetUnknownAttempts()), Advice: "all attempts answered",
		LastError: d.GetLastError(), Key: orElse(d.GetKey(), d.GetExecutionId()), FirstSentAt: instant(d.GetFirstSent()),
		Generation: d.GetGeneration(), Revision: d.GetRevision(), Target: viewSpec(d.GetSpec()).Target,
	}
	if n := d.GetUnknownAttempts(); n > 0 {
		out.Advice = fmt.Sprintf("%d attempts unknown", n)
	}
	return out
}

// retryExecution is POST /v1/executions/{id}/retry.
func (g *Gateway) retryExecution(c *call) error {
	var req api.ReplayRequest
	cmd, _, id, err := c.executionAction(&req)
	if err != nil {
		return err
	}
	if err := checkReplay(req); err != nil {
		return err
	}
	answer, err := g.replay(c.r.Context(), cmd, id, req)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/v1/executions/"+url.PathEscape(answer.ExecutionID))
	return c.answer(http.StatusAccepted, answer)
}

func checkReplay(req api.ReplayRequest) error {
	if req.NewKey && req.SameKey {
		return invalid("body.new_key", "it contradicts same_key: say one of the two")
	}
	return nil
}

func (g *Gateway) replay(ctx context.Context, cmd *belfryv1.Command, id string, req api.ReplayRequest) (*api.Replayed, error) {
	cmd.Action = &belfryv1.Command_Replay{Replay: &belfryv1.ReplayDead{ExecutionId: id, NewKey: req.NewKey, SameKey: req.SameKey}}
	answer, err := g.ask(ctx, cmd, condition{})
	if err != nil {
		return nil, err
	}
	return &api.Replayed{ExecutionID: answer.GetExecution().GetExecutionId(), ReplayOf: id, JobID: cmd.GetJobId()}, nil
}

// purgeDead is DELETE /v1/dead-letters/{id}.
func (g *Gateway) purgeDead(c *call) error {
	id, ref, err := c.executionID()
	if err != nil {
		return err
	}
	named, err := c.identify(ref.JobID, nil)
	if err != nil {
		return err
	}
	cmd := named.command(ref.JobID)
	cmd.Action = &belfryv1.Command_Purge{Purge: &belfryv1.Purge{ExecutionId: id}}
	if _, err := g.ask(c.r.Context(), cmd, condition{}); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// Pauses between tries while a job has as many replays as it may have at once.
const (
	replayPause = 100 * time.Millisecond
	replayWait  = 20 * time.Second // for one dead letter
)

// retryDead is POST /v1/dead-letters:retry: one page, a line for each.
func (g *Gateway) retryDead(c *call) error {
	body, err := c.body(false, typeJSON)
	if err != nil {
		return err
	}
	req := new(api.DeadRetryRequest)
	if err := decode(body, g.cfg.Limits.Depth, req); err != nil {
		return err
	}
	f := &deadFilter{}
	if req.Filter != nil {
		f.DeadFilter = *req.Filter
	}
	switch {
	case f.all() && !req.All:
		return invalid("body.filter", `it selects every dead letter: give a filter, or say "all": true if every one is meant`)
	case !f.all() && req.All:
		return invalid("body.all", "it contradicts the filter: leave one of the two out")
	}
	if err := errors.Join(f.check("body.filter"), checkReplay(req.ReplayRequest)); err != nil {
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
	page, err := g.deadPage(c, f, size)
	if err != nil {
		return err
	}
	out := newLines(c)
	for _, d := range page {
		out.add(g.retryOne(c.r.Context(), req, id, d))
	}
	return out.end()
}

func (g *Gateway) retryOne(ctx context.Context, req *api.DeadRetryRequest, id identity, d *belfryv1.DeadLetter) api.DeadRetryResult {
	res := api.DeadRetryResult{ExecutionID: d.GetExecutionId(), JobID: d.GetJobId(), Result: api.BulkWould}
	if req.DryRun {
		return res
	}
	for until := time.Now().Add(replayWait); ; {
		r, err := g.replay(ctx, id.forJob(d.GetExecutionId()).command(d.GetJobId()), d.GetExecutionId(), req.ReplayRequest)
		if err == nil {
			res.Result, res.Replay = api.BulkDone, r.ExecutionID
			return res
		}
		p := asProblem(err)
		if p.Code != api.CodeOverloaded || time.Now().After(until) || sleep(ctx, replayPause) != nil {
			res.Result, res.Error = api.BulkFailed, &p.Problem
			return res
		}
	}
}
