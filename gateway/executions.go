package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
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
		return err
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
		markRunning(e, running[e.ExecutionID], d.GetWaiting())
	}
}

func markRunning(e *api.Execution, r *belfryv1.Description_Running, waiting string) {
	switch {
	case r != nil:
		e.Status, e.AttemptCount, e.SentAt = string(job.Running), int(r.GetAttempt()), instant(r.GetSentAt())
		e.NextAttemptAt = nil
	case e.Status == string(job.Running): // sent, as far as the row goes, and not begun
		e.Status, e.Reason = string(job.Pending), orElse(e.Reason, waiting)
	default:
		e.Reason = orElse(e.Reason, waiting)
	}
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
		return err
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

// fromHistory is a summary as the API shows it.
func fromHistory(row *persistence.HistoryRow) api.Execution {
	e := api.Execution{ExecutionID: row.ExecutionID, JobID: row.JobID, ScheduledFor: job.Instant(row.ScheduledFor)}
	rec, err := decodeRecord(row)
	if err != nil {
		e.Status, e.Reason = "unreadable", err.Error()
		return e
	}
	e.Status, e.Reason, e.Trigger = rec.GetStatus(), rec.GetReason(), rec.GetTrigger()
	e.AttemptCount, e.UnknownAttempts = int(rec.GetAttempts()), int(rec.GetUnknownAttempts())
	e.Due, e.SentAt, e.FinishedAt = instant(rec.GetDue()), instant(rec.GetSentAt()), instant(rec.GetFinishedAt())
	if rec.GetDue() != 0 && rec.GetSentAt() != 0 {
		late := rec.GetSentAt() - rec.GetDue()
		e.LatenessMS = &late
	}
	e.Error, e.Generation, e.Revision = rec.GetError(), rec.GetGeneration(), rec.GetRevision()
	if r := rec.GetRange(); r.GetCount() > 1 {
		e.Range = viewRange(r)
	}
	return e
}

func viewRange(r *belfryv1.SlotRange) *api.Range {
	return &api.Range{First: job.Instant(r.GetFirst()), Last: job.Instant(r.GetLast()), Count: r.GetCount()}
}

func viewAttempt(row *persistence.HistoryRow) api.Attempt {
	a := api.Attempt{Attempt: int(row.Attempt), Epoch: row.Epoch}
	rec, err := decodeRecord(row)
	if err != nil {
		a.Outcome, a.Reason = "unreadable", err.Error()
		return a
	}
	a.Outcome, a.Reason, a.Error, a.Output = rec.GetStatus(), rec.GetReason(), rec.GetError(), rec.GetOutput()
	a.Due, a.SentAt, a.AnsweredAt = instant(rec.GetDue()), instant(rec.GetSentAt()), instant(rec.GetFinishedAt())
	a.StatusCode, a.Node = int(rec.GetStatusCode()), rec.GetNode()
	return a
}

// inFlight is an execution that is not decided, as its job's row has it.
func inFlight(s *stored, f *belfryv1.InFlight) api.Execution {
	st := s.state
	e := api.Execution{
		ExecutionID:  messages.ExecutionID(s.row.JobID, st.GetGeneration(), f),
		JobID:        s.row.JobID,
		ScheduledFor: job.Instant(f.GetScheduledFor()),
		Status:       string(job.Pending), Trigger: trigger(f), Due: instant(f.GetDue()),
		AttemptCount: max(0, int(f.GetAttempt())-1), UnknownAttempts: int(f.GetUnknownAttempts()),
		NextAttemptAt: instant(f.GetRetryAt()), Error: f.GetLastError(),
		Generation: st.GetGeneration(), Revision: f.GetRevision(),
	}
	if ref, ok := job.ParseExecutionID(e.ExecutionID); ok {
		e.Generation = ref.Generation // of a job deleted and made again, not the present one
	}
	switch {
	case len(f.GetEpochs()) > 0: // sent, as far as is stored
		e.Status, e.AttemptCount, e.NextAttemptAt = string(job.Running), int(f.GetAttempt()), nil
	case f.GetAttempt() > 1 || f.GetRetryAt() > 0:
		e.Status = string(job.Retrying)
	}
	return e
}

func trigger(f *belfryv1.InFlight) string {
	switch {
	case f.GetKind() == belfryv1.InFlight_KIND_MANUAL:
		return "manual"
	case f.GetCatchUp():
		return "catch_up"
	}
	return "schedule"
}
