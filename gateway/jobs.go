package gateway

import (
	"maps"
	"net/http"
	"net/url"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// createJob is POST /v1/jobs.
func (g *Gateway) createJob(c *call) error {
	req, body, err := c.jobRequest()
	if err != nil {
		return err
	}
	if cond, err := c.condition(); err != nil || cond != (condition{}) {
		return orError(err, invalid("header.If-Match", "a POST creates and never replaces: use PUT with this header"))
	}
	if req.JobID != "" {
		if bad := job.CheckID(req.JobID); bad != nil {
			return bad
		}
	}
	dry, err := c.flag("validate_only")
	if err != nil {
		return err
	}
	id, err := c.identify(req.JobID, body)
	if err != nil {
		return err
	}
	if req.JobID == "" && (id.keyed || !dry) {
		req.JobID = id.derivedJobID()
	}
	reg, err := c.checkNew(req, id)
	if err != nil {
		return err
	}
	if dry {
		return c.preview(req, reg)
	}
	return c.register(id.command(req.JobID), reg, belfryv1.Register_MODE_CREATE, condition{})
}

// replaceJob is PUT /v1/jobs/{id}.
func (g *Gateway) replaceJob(c *call) error {
	jobID, err := c.jobID()
	if err != nil {
		return err
	}
	req, body, err := c.jobRequest()
	if err != nil {
		return err
	}
	if req.JobID != "" && req.JobID != jobID {
		return invalid("body.job_id", "it is not the job of the address, %q: leave it out, or correct one of the two", jobID)
	}
	req.JobID = jobID
	cond, err := c.condition()
	if err != nil {
		return err
	}
	dry, err := c.flag("validate_only")
	if err != nil {
		return err
	}
	reg, err := g.check(req, g.priorOf(c.r.Context(), jobID), g.cfg.Now())
	if err != nil {
		return err
	}
	if dry {
		return c.preview(req, reg)
	}
	id, err := c.identify(jobID, body)
	if err != nil {
		return err
	}
	return c.register(id.command(jobID), reg, cond.mode(), cond)
}

// checkNew judges a registration by the clock as of now, and a repeat as of the
// instant of the first: it gets the first answer, however late it comes.
func (c *call) checkNew(req *api.JobRequest, id identity) (*registration, error) {
	reg, err := c.g.check(req, noPrior, c.g.cfg.Now())
	if err == nil || !id.keyed {
		return reg, err
	}
	side := job.SideSliceOffset + c.g.slice(req.JobID)
	row, missing := c.g.cfg.Store.Get(c.r.Context(), c.g.partition(req.JobID), side, req.JobID, persistence.CommandItem(id.commandID))
	first := new(belfryv1.RememberedCommand)
	if missing != nil || proto.Unmarshal(row.State, first) != nil {
		return nil, err
	}
	return c.g.check(req, noPrior, job.Instant(first.GetMark().GetAt()))
}

// mode is how a PUT under a condition is registered.
func (cond condition) mode() belfryv1.Register_Mode {
	switch {
	case cond.absent:
		return belfryv1.Register_MODE_CREATE
	case cond.exists:
		return belfryv1.Register_MODE_REPLACE
	}
	return belfryv1.Register_MODE_UNSPECIFIED
}

// jobRequest reads the body of a create or a replace.
func (c *call) jobRequest() (*api.JobRequest, []byte, error) {
	body, err := c.body(false, typeJSON)
	if err != nil {
		return nil, nil, err
	}
	req := new(api.JobRequest)
	if err := decode(body, c.g.cfg.Limits.Depth, req); err != nil {
		return nil, nil, err
	}
	return req, body, nil
}

// register sends a registration to its owner and answers with the job.
func (c *call) register(cmd *belfryv1.Command, reg *registration, mode belfryv1.Register_Mode, cond condition) error {
	cmd.Action = &belfryv1.Command_Register{Register: &belfryv1.Register{
		Spec: reg.spec, Mode: mode, IfRevision: cond.revision, Paused: reg.paused, RunPast: reg.runPast,
	}}
	answer, err := c.g.ask(c.r.Context(), cmd, cond)
	if err != nil {
		return err
	}
	return c.jobAnswer(answer, reg.notes...)
}

// jobAnswer shows the job in an owner's answer, as of the instant at which the
// owner accepted the command, and notes about the request.
func (c *call) jobAnswer(answer *belfryv1.Answer, notes ...string) error {
	code := http.StatusOK
	h := c.w.Header()
	if answer.GetCreated() {
		code = http.StatusCreated
		h.Set("Location", jobPath(answer.GetJob().GetJobId()))
	}
	h.Set("ETag", etag(answer.GetJob().GetState().GetRevision()))
	out := c.g.viewJob(answer.GetJob(), job.Instant(answer.GetAt()))
	out.Warnings = slices.Concat(notes, out.Warnings)
	return c.answer(code, out)
}

func jobPath(jobID string) string { return "/v1/jobs/" + url.PathEscape(jobID) }

// preview answers validate_only: what the job would be, and nothing is stored.
func (c *call) preview(req *api.JobRequest, reg *registration) error {
	out := &api.Job{JobID: req.JobID, JobSpec: viewSpec(reg.spec), Paused: reg.paused.GetPaused()}
	upstreams, err := c.g.judgeUpstreams(c.r.Context(), req.JobID, reg.spec.GetDependsOn())
	if err != nil {
		return err
	}
	out.Warnings, out.ScheduleDescription = reg.plan.wordsOf(reg.spec)
	out.Warnings = slices.Concat(reg.notes, upstreams, out.Warnings)
	out.NextRuns, out.NextRunsLocal = nextRuns(reg.schedule, c.g.cfg.Now(), previewRuns)
	return c.answer(http.StatusOK, out)
}

// getJob is GET /v1/jobs/{id}.
func (g *Gateway) getJob(c *call) error {
	jobID, err := c.jobID()
	if err != nil {
		return err
	}
	s, err := g.readJob(c.r.Context(), jobID)
	if err != nil {
		return noSuchJob(err, jobID)
	}
	out := g.viewJob(s.asJob(), g.cfg.Now())
	if dependent := len(out.DependsOn) > 0; out.NotRunning == "" && (dependent || len(s.state.GetInFlight()) > 0) || s.state.GetDependents() > 0 {
		d := g.describe(c.r.Context(), jobID)
		out.NotRunning = orElse(out.NotRunning, d.GetWaiting())
		out.Dependents = slices.Sorted(maps.Keys(d.GetDependents()))
	}
	c.w.Header().Set("ETag", etag(s.state.GetRevision()))
	return c.answer(http.StatusOK, out)
}

// deleteJob is DELETE /v1/jobs/{id}.
func (g *Gateway) deleteJob(c *call) error {
	jobID, err := c.jobID()
	if err != nil {
		return err
	}
	cond, err := c.condition()
	if err != nil {
		return err
	}
	id, err := c.identify(jobID, nil)
	if err != nil {
		return err
	}
	cascade, err := c.flag("cascade")
	if err != nil {
		return err
	}
	del := &belfryv1.Delete{IfRevision: cond.revision}
	if cascade {
		if del.Without, err = g.deleteCascade(c.r.Context(), id, jobID); err != nil {
			return err
		}
	}
	cmd := id.command(jobID)
	cmd.Action = &belfryv1.Command_Delete{Delete: del}
	if _, err := g.ask(c.r.Context(), cmd, condition{revision: cond.revision}); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func orError(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
