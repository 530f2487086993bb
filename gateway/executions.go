package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/listing"
)

// listExecutions is GET /v1/jobs/{id}/executions.
func (g *Gateway) listExecutions(c *call) error {
	jobID, err := c.jobID()
	if err != nil {
		return err
	}
	size, err := c.pageSize()
	if err != nil {
		return err
	}
	at := executionToken{AsOf: g.cfg.Now().UnixMilli()}
	if err := g.openToken(c, "executions\x00"+jobID, &at); err != nil {
		return err
	}
	s, err := g.read(c.r.Context(), jobID)
	if err != nil {
		return noSuchJob(err, jobID)
	}
	page, err := g.executionPage(c.r.Context(), s, at, size+1)
	if err != nil {
		return err
	}
	if len(page) > size {
		page = page[:size]
		last := page[size-1]
		at.ScheduledFor, at.ExecutionID = last.ScheduledFor.UnixMilli(), last.ExecutionID
		g.linkNext(c, "executions\x00"+jobID, at)
	}
	return c.answer(http.StatusOK, page)
}

// executionToken is a place in the merged list. AsOf is the instant of the
// first page: slots that are counted by the clock stay where they were.
type executionToken struct {
	ScheduledFor int64  `json:"s,omitzero"`
	ExecutionID  string `json:"e,omitzero"`
	AsOf         int64  `json:"t"`
}

func (t executionToken) cursor() *persistence.Cursor {
	if t.ExecutionID == "" {
		return nil
	}
	return &persistence.Cursor{ScheduledFor: t.ScheduledFor, ExecutionID: t.ExecutionID}
}

// executionPage returns at most n executions that are older than the token.
func (g *Gateway) executionPage(ctx context.Context, s *stored, at executionToken, n int) ([]api.Execution, error) {
	page, err := g.listing().Page(ctx, s.listed(), at.cursor(), job.Instant(at.AsOf), n)
	if err != nil {
		return nil, err
	}
	g.askRunning(ctx, s, page)
	out := make([]api.Execution, len(page))
	for i, e := range page {
		out[i] = viewExecution(e)
	}
	return out, nil
}

// askRunning asks the owner which of a page's executions run at this moment.
// Without an answer the page says of what instant it is.
func (g *Gateway) askRunning(ctx context.Context, s *stored, page []*belfryv1.ExecutionView) {
	if listing.Undecided(page) {
		listing.MarkRunning(page, g.describe(ctx, s.row.JobID), g.cfg.Now())
	}
}

func (g *Gateway) listing() listing.Reader {
	compile := func(t job.Timing) (*job.Schedule, error) {
		p, err := g.schedules.compile(t)
		if err != nil {
			return nil, err
		}
		return p.schedule, nil
	}
	return listing.Reader{History: g.cfg.Store, Partitions: g.partitions, Compile: compile}
}

// listed is the row in the form that listings are made of.
func (s *stored) listed() *listing.Job {
	return &listing.Job{ID: s.row.JobID, Status: s.row.Status, Spec: s.spec, State: s.state}
}

// getExecution is GET /v1/executions/{id}.
func (g *Gateway) getExecution(c *call) error {
	id, ref, err := c.executionID()
	if err != nil {
		return err
	}
	out, err := g.execution(c.r.Context(), id, ref)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, out)
}

// execution is an execution with its attempts.
func (g *Gateway) execution(ctx context.Context, id string, ref job.ExecutionRef) (*api.ExecutionDetail, error) {
	s, err := g.read(ctx, ref.JobID)
	if err != nil {
		return nil, noSuchJob(err, ref.JobID)
	}
	at := ref.At.UnixMilli()
	rows, err := g.cfg.Store.Attempts(ctx, g.partition(ref.JobID), job.DayOfMillis(at), ref.JobID, at, id)
	if err != nil {
		return nil, err
	}
	out := &api.ExecutionDetail{Attempts: []api.Attempt{}}
	for i := range rows {
		if rows[i].Attempt == 0 {
			out.Execution = viewExecution(listing.FromHistory(&rows[i]))
			if only := onlyAttempt(&rows[i]); only != nil {
				out.Attempts = append(out.Attempts, *only)
			}
			continue
		}
		out.Attempts = append(out.Attempts, viewAttempt(&rows[i]))
	}
	if out.ExecutionID == "" && !g.addLive(ctx, s, id, out) {
		return nil, refuse(api.CodeNoExecution, "there is no execution %q: its slot is not armed yet, is part of a range that is listed under its last slot, or its history has expired", id)
	}
	return out, nil
}

// executionID is pathID, taken apart as the id of an execution.
func (c *call) executionID() (string, job.ExecutionRef, error) {
	id, err := c.pathID()
	if err != nil {
		return "", job.ExecutionRef{}, err
	}
	ref, ok := job.ParseExecutionID(id)
	if !ok {
		return "", ref, invalid("path.id", "it is not the id of an execution: take one from GET /v1/jobs/{id}/executions")
	}
	return id, ref, nil
}

// addLive fills in an execution that is not decided yet.
func (g *Gateway) addLive(ctx context.Context, s *stored, id string, out *api.ExecutionDetail) bool {
	live := g.listing().Live(s.listed(), g.cfg.Now())
	i := slices.IndexFunc(live, func(e *belfryv1.ExecutionView) bool { return e.GetExecutionId() == id })
	if i < 0 {
		return false
	}
	g.askRunning(ctx, s, live[i:i+1])
	out.Execution = viewExecution(live[i])
	if e := out.Execution; e.Status == string(job.Running) && e.AsOf == nil {
		out.Attempts = append(out.Attempts, api.Attempt{Attempt: e.AttemptCount, Outcome: string(job.Running), Due: e.Due, SentAt: e.SentAt, Worker: e.Worker})
	}
	return true
}
