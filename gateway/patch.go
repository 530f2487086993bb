package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// How often a patch is tried again when the job changes under it, and the
// first pause, which doubles: a change becomes readable with its commit.
const (
	patchTries = 8
	patchPause = 2 * time.Millisecond
)

// patchJob is PATCH /v1/jobs/{id}: the patch is merged at one revision, and
// stored only while the job still is at it.
func (g *Gateway) patchJob(c *call) error {
	jobID, err := c.jobID()
	if err != nil {
		return err
	}
	patch, err := c.patchBody()
	if err != nil {
		return err
	}
	cond, err := c.condition()
	if err != nil {
		return err
	}
	dry, err := c.flag("validate_only")
	if err != nil {
		return err
	}
	pause := patchPause
	for try := 1; ; try++ {
		req, reg, revision, err := g.merge(c.r.Context(), jobID, patch, cond)
		if err != nil {
			return err
		}
		if dry {
			return c.preview(req, reg)
		}
		err = c.patchAt(jobID, patch, reg, revision, cond)
		var p *problem
		if !errors.As(err, &p) || p.Code != api.CodeConflict || try == patchTries {
			return err
		}
		if err := sleep(c.r.Context(), pause); err != nil {
			return err
		}
		pause *= 2
	}
}

func (c *call) patchAt(jobID string, patch []byte, reg *registration, revision int64, cond condition) error {
	id, err := c.identify(jobID, patch)
	if err != nil {
		return err
	}
	cmd := id.command(jobID)
	cmd.Action = &belfryv1.Command_Register{Register: &belfryv1.Register{
		Spec: reg.spec, Mode: belfryv1.Register_MODE_REPLACE, IfRevision: revision, Paused: reg.paused, RunPast: reg.runPast,
	}}
	answer, err := c.g.ask(c.r.Context(), cmd, condition{revision: cond.revision})
	if err != nil {
		return err
	}
	return c.jobAnswer(answer, reg.notes...)
}

// patchBody reads a merge patch: an object in strict JSON.
func (c *call) patchBody() ([]byte, error) {
	body, err := c.body(false, typeMerge, typeJSON)
	if err != nil {
		return nil, err
	}
	var patch jsontext.Value
	if err := decode(body, c.g.cfg.Limits.Depth, &patch); err != nil {
		return nil, err
	}
	if patch.Kind() != '{' {
		return nil, malformed("", "a merge patch is an object with the fields to change (RFC 7396)")
	}
	return body, nil
}

// merge applies a patch to the job as it is stored, and checks the result.
func (g *Gateway) merge(ctx context.Context, jobID string, patch []byte, cond condition) (*api.JobRequest, *registration, int64, error) {
	s, err := g.readJob(ctx, jobID)
	if err != nil {
		return nil, nil, 0, noSuchJob(err, jobID)
	}
	if s.unreadable && s.row.Status != job.Faulty {
		return nil, nil, 0, refuse(api.CodeNotReady, "the job %q was written by a newer version of Belfry, which this node cannot merge with: send the patch to a node of that version", jobID)
	}
	if s.unreadable {
		return nil, nil, 0, refuse(api.CodeWrongState, "the job %q is stored in a form that cannot be read, so there is nothing to merge with: replace it with PUT", jobID)
	}
	revision := s.state.GetRevision()
	if cond.revision != 0 && cond.revision != revision {
		return nil, nil, 0, fromRefusal(&belfryv1.Refusal{Code: belfryv1.Refusal_CODE_REVISION}, jobID, cond)
	}
	base, err := patchBase(s, patch)
	if err != nil {
		return nil, nil, 0, err
	}
	req := new(api.JobRequest)
	if err := decode(mergePatch(base, patch), g.cfg.Limits.Depth, req); err != nil {
		return nil, nil, 0, err
	}
	if req.JobID != "" && req.JobID != jobID {
		return nil, nil, 0, invalid("body.job_id", "a job keeps its id: make a new one under the other id, and delete %q", jobID)
	}
	req.JobID = jobID
	reg, err := g.check(req, func() (*stored, error) { return s, nil }, g.cfg.Now())
	return req, reg, revision, err
}

// patchBase is the stored job in the API's form, with its payload under the name
// that the patch uses. Its secrets are ***, which keeps what is stored unless the
// target moves.
func patchBase(s *stored, patch []byte) ([]byte, error) {
	spec := viewSpec(s.spec)
	if spec.Target != nil && spec.Target.HTTP != nil {
		var names struct {
			Target struct {
				HTTP map[string]jsontext.Value `json:"http"`
			} `json:"target"`
		}
		_ = lenient(patch, &names) // a patch of another shape names neither
		_, body := names.Target.HTTP["body"]
		_, payload := names.Target.HTTP["json"]
		if body != payload {
			usePayload(spec.Target.HTTP, payload)
		}
	}
	useSchedule(&spec, patch)
	base, err := encode(api.JobRequest{JobSpec: spec})
	if err != nil {
		return nil, fmt.Errorf("encode %s for a patch: %w", s.row.JobID, err)
	}
	return base, nil
}

// useSchedule leaves out schedule_expr or schedule_exprs for a patch that gives
// the other.
func useSchedule(spec *api.JobSpec, patch []byte) {
	var names map[string]jsontext.Value
	_ = lenient(patch, &names) // it is an object
	gives := func(name string) bool { v, ok := names[name]; return ok && v.Kind() != 'n' }
	switch one, many := gives("schedule_expr"), gives("schedule_exprs"); {
	case one && !many:
		spec.ScheduleExprs = nil
	case many && !one:
		spec.ScheduleExpr = ""
	}
}

// usePayload shows a payload as json, or as body, for a patch that names that.
func usePayload(h *api.HTTPTarget, asJSON bool) {
	switch {
	case !asJSON && h.JSON != nil:
		text := string(h.JSON)
		h.Body, h.JSON = &text, nil
	case asJSON:
		h.Body = nil
	}
}

// sleep waits, or ends with the request.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
