package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// listExecutions is GET /v1/jobs/{id}/executions.
//
// Three sources are merged by one key, (scheduled_for, execution_id), newest
// first: executions in flight and slots of one fate that are not written yet,
// both from the job's row, and history, day by day. The row is read first.
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
	before := at.cursor()
	history, err := g.history(ctx, s, before, n)
	if err != nil {
		return nil, err
	}
	live := g.live(s, job.Instant(at.AsOf))
	page := merge(live, history, before)
	page = page[:min(n, len(page))]
	if slices.ContainsFunc(page, func(e api.Execution) bool { return !decided(e.Status) }) {
		g.askRunning(ctx, s, page)
	}
	return page, nil
}

// merge puts both together, newest first. What is in both is decided by now,
// and history knows how; a range in the row that has been written since begins
// with the same slot there.
func merge(live, history []api.Execution, before *persistence.Cursor) []api.Execution {
	known := make(map[string]bool, len(history))
	starts := map[int64]bool{}
	for _, e := range history {
		known[e.ExecutionID] = true
		if e.Range != nil {
			starts[e.Range.First.UnixMilli()] = true
		}
	}
	out := make([]api.Execution, 0, len(live)+len(history))
	for _, e := range live {
		written := e.Range != nil && starts[e.Range.First.UnixMilli()]
		if !known[e.ExecutionID] && !written && olderThan(e, before) {
			known[e.ExecutionID] = true
			out = append(out, e)
		}
	}
	out = append(out, history...)
	slices.SortStableFunc(out, newestFirst)
	return out
}

func newestFirst(a, b api.Execution) int {
	if c := b.ScheduledFor.Compare(a.ScheduledFor); c != 0 {
		return c
	}
	switch {
	case a.ExecutionID > b.ExecutionID:
		return -1
	case a.ExecutionID < b.ExecutionID:
		return 1
	}
	return 0
}

func olderThan(e api.Execution, before *persistence.Cursor) bool {
	if before == nil {
		return true
	}
	at := e.ScheduledFor.UnixMilli()
	return at < before.ScheduledFor || at == before.ScheduledFor && e.ExecutionID < before.ExecutionID
}

// history reads at most n summaries older than a cursor, from the days that
// have any, newest first.
func (g *Gateway) history(ctx context.Context, s *stored, before *persistence.Cursor, n int) ([]api.Execution, error) {
	days := slices.Clone(s.state.GetDays())
	slices.Sort(days)
	out := make([]api.Execution, 0, min(n, maxPage))
	for _, d := range slices.Backward(days) {
		day, cursor := job.Day(d), before
		if before != nil {
			switch limit := job.DayOfMillis(before.ScheduledFor); {
			case day > limit:
				continue
			case day < limit:
				cursor = nil
			}
		}
		rows, err := g.cfg.Store.Executions(ctx, g.partition(s.row.JobID), day, s.row.JobID, cursor, n-len(out))
		if err != nil {
			return nil, err
		}
		for i := range rows {
			out = append(out, fromHistory(&rows[i]))
		}
		if len(out) >= n {
			break
		}
	}
	return out, nil
}

// askRunning asks the owner which of a page's executions run at this moment.
// Without an answer the page says of what instant it is.
func (g *Gateway) askRunning(ctx context.Context, s *stored, page []api.Execution) {
	d := g.describe(ctx, s.row.JobID)
	running := map[string]*belfryv1.Description_Running{}
	for _, r := range d.GetRunning() {
		running[r.GetExecutionId()] = r
	}
	now := g.cfg.Now().UTC()
	for i := range page {
		e := &page[i]
		if decided(e.Status) {
			continue
		}
		if d == nil {
			e.AsOf = &now
			continue
		}
		waiting := d.GetWaiting()
		if e.Due != nil && e.Due.After(now) || e.NextAttemptAt != nil && e.NextAttemptAt.After(now) {
			waiting = "" // its time has not come
		}
		markRunning(e, running[e.ExecutionID], waiting)
	}
}

func markRunning(e *api.Execution, r *belfryv1.Description_Running, waiting string) {
	if r == nil {
		e.Reason = orElse(e.Reason, waiting)
		return
	}
	e.Status, e.AttemptCount, e.SentAt, e.NextAttemptAt = string(job.Running), int(r.GetAttempt()), instant(r.GetSentAt()), nil
}

func decided(status string) bool {
	switch job.ExecutionStatus(status) {
	case job.Pending, job.Running, job.Retrying:
		return false
	}
	return true
}

// getExecution is GET /v1/executions/{id}.
func (g *Gateway) getExecution(c *call) error {
	id, err := c.pathID()
	if err != nil {
		return err
	}
	ref, ok := job.ParseExecutionID(id)
	if !ok {
		return invalid("path.id", "it is not the id of an execution: take one from GET /v1/jobs/{id}/executions")
	}
	ctx := c.r.Context()
	s, err := g.read(ctx, ref.JobID)
	if err != nil {
		return noSuchJob(err, ref.JobID)
	}
	at := ref.At.UnixMilli()
	rows, err := g.cfg.Store.Attempts(ctx, g.partition(ref.JobID), job.DayOfMillis(at), ref.JobID, at, id)
	if err != nil {
		return err
	}
	out := api.ExecutionDetail{Attempts: []api.Attempt{}}
	for i := range rows {
		if rows[i].Attempt == 0 {
			out.Execution = fromHistory(&rows[i])
			if only := onlyAttempt(&rows[i]); only != nil {
				out.Attempts = append(out.Attempts, *only)
			}
			continue
		}
		out.Attempts = append(out.Attempts, viewAttempt(&rows[i]))
	}
	if out.ExecutionID == "" && !g.addLive(ctx, s, id, &out) {
		return refuse(api.CodeNoExecution, "there is no execution %q: its slot is not armed yet, is part of a range that is listed under its last slot, or its history has expired", id)
	}
	return c.answer(http.StatusOK, out)
}

// addLive fills in an execution that is not decided yet.
func (g *Gateway) addLive(ctx context.Context, s *stored, id string, out *api.ExecutionDetail) bool {
	live := g.live(s, g.cfg.Now())
	i := slices.IndexFunc(live, func(e api.Execution) bool { return e.ExecutionID == id })
	if i < 0 {
		return false
	}
	one := live[i : i+1]
	if !decided(one[0].Status) {
		g.askRunning(ctx, s, one)
	}
	out.Execution = one[0]
	if e := one[0]; e.Status == string(job.Running) && e.AsOf == nil {
		out.Attempts = append(out.Attempts, api.Attempt{Attempt: e.AttemptCount, Outcome: string(job.Running), Due: e.Due, SentAt: e.SentAt})
	}
	return true
}
