package gateway

import (
	"net/http"
	"slices"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// previewSchedule is POST /v1/schedules/preview: what an expression means.
func (g *Gateway) previewSchedule(c *call) error {
	body, err := c.body(false, typeJSON)
	if err != nil {
		return err
	}
	var req api.PreviewRequest
	if err := decode(body, g.cfg.Limits.Depth, &req); err != nil {
		return err
	}
	notes := &notes{}
	spec := job.Spec{Schedule: notes.timing(req.Spec()), MaxRuns: notes.maxRuns(req.MaxRuns)}
	translated, bad := spec.Translate()
	if bad != nil {
		return &job.Invalid{Problems: append(notes.problems, bad.Problems...)}
	}
	timing := spec.Schedule
	if timing.Job = req.JobID; req.JobID != "" {
		if bad := job.CheckID(req.JobID); bad != nil {
			notes.problems = append(notes.problems, bad.Problems...)
		}
	}
	if spec.MaxRuns < 0 || spec.MaxRuns > job.MaxRuns {
		notes.add("max_runs", "%d is not from 0 to %d", spec.MaxRuns, job.MaxRuns)
	}
	from, n := g.cfg.Now().UTC(), previewRuns
	if req.From != nil {
		from = req.From.UTC()
	}
	if req.N != nil {
		if n = *req.N; n < 1 || n > maxPreviewRuns {
			notes.add("n", "%d is not from 1 to %d", n, maxPreviewRuns)
		}
	}
	if timing.Anchored() && timing.StartsAt.IsZero() {
		timing.Anchor = from // as if it were registered at that instant
	}
	p, err := g.schedules.compile(job.Spec{Schedule: timing}.Normalize().Schedule)
	if notes.problems = append(notes.problems, problemsOf(err)...); notes.problems != nil {
		return &job.Invalid{Problems: notes.problems}
	}
	out := api.Preview{Warnings: []string{}}
	schedule := p.schedule.First(spec.MaxRuns, timing.RunsFrom(from))
	out.NextRuns, out.NextRunsLocal = nextRuns(schedule, from, n)
	warnings, description := p.words()
	if len(out.NextRuns) == 0 {
		warnings = append([]string{"nothing is due after " + from.Format(time.RFC3339Nano)}, warnings...)
	}
	out.Warnings, out.Description = slices.Concat(out.Warnings, translated, warnings), description
	return c.answer(http.StatusOK, out)
}
