package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// maxCancelReason is less than maxReason: it is kept with the execution in its
// job's row.
const maxCancelReason = 200

// cancelExecution is POST /v1/executions/{id}/cancel.
func (g *Gateway) cancelExecution(c *call) error {
	var req api.CancelRequest
	cmd, ref, id, err := c.executionAction(&req)
	if err != nil {
		return err
	}
	if err := checkText(req.Reason, maxCancelReason); err != nil {
		return err
	}
	cmd.Action = &belfryv1.Command_Cancel{Cancel: &belfryv1.Cancel{ExecutionId: id, Reason: req.Reason}}
	answer, err := g.ask(c.r.Context(), cmd, condition{})
	if err != nil {
		return g.notInFlight(c.r.Context(), err, id, ref)
	}
	e := answer.GetExecution()
	code := http.StatusOK
	if e.GetStatus() != string(job.Cancelled) {
		code = http.StatusAccepted
	}
	return c.answer(code, api.Cancelled{ExecutionID: e.GetExecutionId(), JobID: cmd.GetJobId(), Status: e.GetStatus()})
}

// executionAction reads the optional body of an action on an execution and makes
// its command.
func (c *call) executionAction(req any) (*belfryv1.Command, job.ExecutionRef, string, error) {
	id, ref, err := c.executionID()
	if err != nil {
		return nil, ref, "", err
	}
	if err := c.unconditional(); err != nil {
		return nil, ref, "", err
	}
	body, err := c.optionalBody(req)
	if err != nil {
		return nil, ref, "", err
	}
	named, err := c.identify(ref.JobID, body)
	if err != nil {
		return nil, ref, "", err
	}
	return named.command(ref.JobID), ref, id, nil
}

// notInFlight tells an execution that has ended from one that never was.
func (g *Gateway) notInFlight(ctx context.Context, err error, id string, ref job.ExecutionRef) error {
	var p *problem
	if !errors.As(err, &p) || p.Code != api.CodeNoExecution {
		return err
	}
	e, err := g.execution(ctx, id, ref)
	if err != nil {
		return err
	}
	return refuse(api.CodeWrongState, "the execution %q has ended: it is %s", id, e.Status)
}
