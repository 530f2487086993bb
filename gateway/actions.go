package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// pauseJob is POST /v1/jobs/{id}/pause.
func (g *Gateway) pauseJob(c *call) error {
	var req api.PauseRequest
	cmd, err := c.action(&req)
	if err != nil {
		return err
	}
	if err := checkReason(req.Reason); err != nil {
		return err
	}
	cmd.Action = &belfryv1.Command_Pause{Pause: &belfryv1.Pause{Reason: req.Reason}}
	answer, err := g.ask(c.r.Context(), cmd, condition{})
	if err != nil {
		return err
	}
	return c.jobAnswer(answer)
}

// resumeJob is POST /v1/jobs/{id}/resume.
func (g *Gateway) resumeJob(c *call) error {
	var req api.ResumeRequest
	cmd, err := c.action(&req)
	if err != nil {
		return err
	}
	if err := checkReason(req.Reason); err != nil {
		return err
	}
	cmd.Action = &belfryv1.Command_Resume{Resume: &belfryv1.Resume{Reason: req.Reason, CatchUp: req.CatchUp}}
	answer, err := g.ask(c.r.Context(), cmd, condition{})
	if err != nil {
		return err
	}
	return c.jobAnswer(answer)
}

// triggerJob is POST /v1/jobs/{id}/trigger.
func (g *Gateway) triggerJob(c *call) error {
	cmd, err := c.action(&struct{}{})
	if err != nil {
		return err
	}
	cmd.Action = &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}
	answer, err := g.ask(c.r.Context(), cmd, condition{})
	if err != nil {
		return err
	}
	e := answer.GetExecution()
	c.w.Header().Set("Location", "/v1/executions/"+url.PathEscape(e.GetExecutionId()))
	return c.answer(http.StatusAccepted, api.Triggered{
		ExecutionID: e.GetExecutionId(), JobID: cmd.GetJobId(), ScheduledFor: job.Instant(e.GetScheduledFor()),
	})
}

// action reads an action's optional body and makes its command.
func (c *call) action(req any) (*belfryv1.Command, error) {
	jobID, err := c.jobID()
	if err != nil {
		return nil, err
	}
	if err := c.unconditional(); err != nil {
		return nil, err
	}
	body, err := c.optionalBody(req)
	if err != nil {
		return nil, err
	}
	id, err := c.identify(jobID, body)
	if err != nil {
		return nil, err
	}
	return id.command(jobID), nil
}

// checkReason bounds the text that is kept with a job's status.
func checkReason(reason string) error {
	return checkText(reason, maxReason)
}

func checkText(reason string, most int) error {
	switch {
	case len(reason) > most:
		return invalid("body.reason", "it has %d bytes, and at most %d are allowed", len(reason), most)
	case !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl):
		return invalid("body.reason", "it must be one line of text without control characters")
	}
	return nil
}
