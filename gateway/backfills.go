package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// The rules of overlap in a backfill.
const (
	overlapQueue = "queue"
	overlapAllow = "allow"
)

// backfillJob is POST /v1/jobs/{id}/backfill.
func (g *Gateway) backfillJob(c *call) error {
	var req api.BackfillRequest
	cmd, err := c.action(&req)
	if err != nil {
		return err
	}
	dry, err := c.flag("validate_only")
	if err != nil {
		return err
	}
	ask, err := backfillOf(&req)
	if err != nil {
		return err
	}
	if dry {
		ask.DryRun, cmd.Keyed = true, false // nothing to remember
	}
	cmd.Action = &belfryv1.Command_Backfill{Backfill: ask}
	answer, err := g.ask(c.r.Context(), cmd, condition{})
	if err != nil {
		return err
	}
	out := viewBackfill(cmd.GetJobId(), answer.GetBackfill())
	if dry {
		return g.previewBackfill(c, &out)
	}
	c.w.Header().Set("Location", backfillPath(out.JobID, out.BackfillID))
	return c.answer(http.StatusAccepted, out)
}

func backfillPath(jobID, id string) string {
	return jobPath(jobID) + "/backfills/" + url.PathEscape(id)
}

// backfillOf checks what of a request is not the owner's to judge.
func backfillOf(req *api.BackfillRequest) (*belfryv1.AskBackfill, error) {
	notes := &notes{}
	if req.From == nil {
		notes.add("from", "it is missing: give the first instant of the range, such as \"2026-01-01T00:00:00Z\"")
	}
	n := 1
	switch req.Overlap {
	case "", overlapQueue:
		if req.Concurrency != nil {
			notes.add("concurrency", `only one execution runs at a time: set "overlap": "allow" for more, or leave it out`)
		}
	case overlapAllow:
		n = job.BackfillConcurrency
		if req.Concurrency != nil {
			n = *req.Concurrency
		}
		if n < 2 || n > job.MaxBackfillConcurrency {
			notes.add("concurrency", "%d is not from 2 to %d", n, job.MaxBackfillConcurrency)
		}
	default:
		notes.add("overlap", "%q is not one of queue, allow", clip(req.Overlap))
	}
	if notes.problems != nil {
		return nil, &job.Invalid{Problems: notes.problems}
	}
	ask := &belfryv1.AskBackfill{From: job.CeilMillis(*req.From), Concurrency: int32(n), NewKey: req.NewKey}
	if req.To != nil {
		ask.To = job.CeilMillis(*req.To)
	}
	return ask, nil
}

// previewBackfill answers validate_only: what would run, and nothing is stored.
func (g *Gateway) previewBackfill(c *call, out *api.Backfill) error {
	const shown = 10
	s, err := g.readJob(c.r.Context(), out.JobID)
	if err != nil {
		return noSuchJob(err, out.JobID)
	}
	p, err := g.schedules.compile(messages.TimingOf(out.JobID, s.spec))
	if err != nil {
		return err
	}
	slots, _ := nextRuns(messages.Given(p.schedule, s.state), out.From.Add(-time.Millisecond), shown)
	out.Status, out.CreatedAt = "", nil
	out.Slots = slices.DeleteFunc(slots, func(at time.Time) bool { return !at.Before(out.To) })
	return c.answer(http.StatusOK, out)
}

// getBackfill is GET /v1/jobs/{id}/backfills/{backfill}.
func (g *Gateway) getBackfill(c *call) error {
	jobID, id, err := c.backfillID()
	if err != nil {
		return err
	}
	s, err := g.readJob(c.r.Context(), jobID)
	if err != nil {
		return noSuchJob(err, jobID)
	}
	for _, b := range s.state.GetBackfills() {
		if b.GetId() == id {
			return c.answer(http.StatusOK, viewBackfill(jobID, b))
		}
	}
	return noSuchBackfill(jobID, id)
}

// cancelBackfill is DELETE /v1/jobs/{id}/backfills/{backfill}.
func (g *Gateway) cancelBackfill(c *call) error {
	jobID, id, err := c.backfillID()
	if err != nil {
		return err
	}
	who, err := c.identify(jobID, nil)
	if err != nil {
		return err
	}
	cmd := who.command(jobID)
	cmd.Action = &belfryv1.Command_CancelBackfill{CancelBackfill: &belfryv1.CancelBackfill{Id: id}}
	if _, err := g.ask(c.r.Context(), cmd, condition{}); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *call) backfillID() (jobID, id string, err error) {
	if jobID, err = c.jobID(); err != nil {
		return "", "", err
	}
	id, err = c.pathPart("backfill")
	return jobID, id, err
}

func noSuchBackfill(jobID, id string) error {
	return refuse(api.CodeNoBackfill, "the job %q has no backfill %q: take an id from GET %s; a few of those that have ended are kept", jobID, clip(id), jobPath(jobID))
}

func viewBackfill(jobID string, b *belfryv1.Backfill) api.Backfill {
	out := api.Backfill{
		BackfillID: b.GetId(), JobID: jobID, Status: api.BackfillRunning, Reason: b.GetReason(),
		From: job.Instant(b.GetFrom()), To: job.Instant(b.GetTo()), Next: instant(b.GetNext()),
		Total: b.GetTotal(), Done: b.GetSucceeded() + b.GetFailed() + b.GetCancelled(),
		Succeeded: b.GetSucceeded(), Failed: b.GetFailed(), Cancelled: b.GetCancelled(),
		Overlap: overlapQueue, Concurrency: int(b.GetConcurrency()), NewKey: b.GetNewKey(), Revision: b.GetRevision(),
		CreatedAt: instant(b.GetAskedAt()), EndedAt: instant(b.GetEndedAt()),
	}
	if b.GetNumber() == 0 { // a dry run
		out.BackfillID = ""
	}
	if out.Concurrency > 1 {
		out.Overlap = overlapAllow
	}
	switch {
	case b.GetReason() != "":
		out.Status = api.BackfillCancelled
	case b.GetEndedAt() != 0:
		out.Status = api.BackfillFinished
	}
	return out
}
