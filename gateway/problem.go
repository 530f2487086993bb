package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// problem is a refusal on its way to the client.
type problem struct {
	api.Problem
	retryAfter time.Duration // 0: no Retry-After
	cause      error         // for the log only
}

func (p *problem) Error() string { return p.Problem.Error() }

// status is the HTTP status of each code: one code, one status.
var status = map[string]int{
	api.CodeInvalid:        http.StatusBadRequest,
	api.CodeMalformed:      http.StatusBadRequest,
	api.CodeCrossOrigin:    http.StatusForbidden,
	api.CodeJobNotFound:    http.StatusNotFound,
	api.CodeNoExecution:    http.StatusNotFound,
	api.CodeNoBackfill:     http.StatusNotFound,
	api.CodeNoMember:       http.StatusNotFound,
	api.CodeNoRoute:        http.StatusNotFound,
	api.CodeMethod:         http.StatusMethodNotAllowed,
	api.CodeRequestTimeout: http.StatusRequestTimeout,
	api.CodeJobExists:      http.StatusConflict,
	api.CodeConflict:       http.StatusConflict,
	api.CodeWrongState:     http.StatusConflict,
	api.CodeInFlight:       http.StatusConflict,
	api.CodeLeaseLost:      http.StatusConflict,
	api.CodeCancelled:      http.StatusConflict,
	api.CodeFormatUnknown:  http.StatusConflict,
	api.CodeFormatMoved:    http.StatusConflict,
	api.CodePrecondition:   http.StatusPreconditionFailed,
	api.CodeTooLarge:       http.StatusRequestEntityTooLarge,
	api.CodeMediaType:      http.StatusUnsupportedMediaType,
	api.CodeKeyReused:      http.StatusUnprocessableEntity,
	api.CodeFormatRefused:  http.StatusUnprocessableEntity,
	api.CodeOverloaded:     http.StatusTooManyRequests,
	api.CodeInternal:       http.StatusInternalServerError,
	api.CodeNoCluster:      http.StatusNotImplemented,
	api.CodeOwnerAway:      http.StatusServiceUnavailable,
	api.CodeStoreAway:      http.StatusServiceUnavailable,
	api.CodeNodeAway:       http.StatusServiceUnavailable,
	api.CodeNotReady:       http.StatusServiceUnavailable,
}

var titles = map[string]string{
	api.CodeInvalid:        "The request is not valid",
	api.CodeMalformed:      "The body is not strict JSON",
	api.CodeCrossOrigin:    "A page of another origin may not do this",
	api.CodeJobNotFound:    "No such job",
	api.CodeNoExecution:    "No such execution",
	api.CodeNoBackfill:     "No such backfill",
	api.CodeNoMember:       "No such node",
	api.CodeNoRoute:        "No such address",
	api.CodeMethod:         "Method not allowed here",
	api.CodeRequestTimeout: "The request did not arrive in time",
	api.CodeJobExists:      "The job exists",
	api.CodeConflict:       "The job changed meanwhile",
	api.CodeWrongState:     "The job's state does not allow it",
	api.CodeInFlight:       "The first request under this key is not answered yet",
	api.CodeLeaseLost:      "The lease is over",
	api.CodeCancelled:      "The execution was cancelled",
	api.CodeFormatUnknown:  "Not every node knows the format",
	api.CodeFormatMoved:    "The format was raised meanwhile",
	api.CodePrecondition:   "The precondition does not hold",
	api.CodeTooLarge:       "The body is too large",
	api.CodeMediaType:      "The body is of a type that is not read",
	api.CodeKeyReused:      "The Idempotency-Key belongs to another request",
	api.CodeFormatRefused:  "The format cannot be had",
	api.CodeOverloaded:     "Too much at once",
	api.CodeInternal:       "Internal error",
	api.CodeNoCluster:      "No cluster",
	api.CodeOwnerAway:      "The owner of this job is not reachable",
	api.CodeStoreAway:      "The store is not available",
	api.CodeNodeAway:       "A node does not answer",
	api.CodeNotReady:       "Not ready",
}

// retryable codes tell when to come back.
var retryable = map[string]bool{
	api.CodeInFlight: true, api.CodeOverloaded: true, api.CodeOwnerAway: true,
	api.CodeStoreAway: true, api.CodeNodeAway: true, api.CodeNotReady: true,
}

// refuse makes a problem.
func refuse(code, format string, args ...any) *problem {
	p := &problem{Problem: api.Problem{
		Type: "urn:belfry:problem:" + code, Title: titles[code], Status: status[code],
		Detail: fmt.Sprintf(format, args...), Code: code,
	}}
	if retryable[code] {
		p.retryAfter = retryAfter
	}
	return p
}

// invalid is a 400 about one place in the request.
func invalid(location, format string, args ...any) *problem {
	message := fmt.Sprintf(format, args...)
	p := refuse(api.CodeInvalid, "%s: %s", location, message)
	p.Errors = []api.FieldProblem{{Location: location, Message: message}}
	return p
}

// fromInvalid is a 400 about the fields of a body, or of another part when
// prefix says so.
func fromInvalid(prefix string, bad *job.Invalid) *problem {
	p := refuse(api.CodeInvalid, "nothing was stored")
	for _, f := range bad.Problems {
		p.Errors = append(p.Errors, api.FieldProblem{Location: join(prefix, f.Field), Message: f.Message})
	}
	if len(p.Errors) > 0 {
		p.Detail = p.Errors[0].Location + ": " + p.Errors[0].Message
		if n := len(p.Errors) - 1; n > 0 {
			p.Detail += fmt.Sprintf(" (and %d more, see errors)", n)
		}
	}
	return p
}

func join(prefix, field string) string {
	switch {
	case field == "":
		return prefix
	case prefix == "":
		return field
	}
	return prefix + "." + field
}

// asProblem is the one place where errors become problems.
func asProblem(err error) *problem {
	var p *problem
	var bad *job.Invalid
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &bad):
		return fromInvalid("body", bad)
	case errors.As(err, &large):
		return refuse(api.CodeTooLarge, "the body has more than the %d bytes that are read: send less, or many jobs by POST /v1/jobs:import", large.Limit)
	case errors.Is(err, job.ErrNotFound):
		return refuse(api.CodeJobNotFound, "there is no such job: it was never made, or it has been deleted")
	case errors.Is(err, context.Canceled):
		return refuse(api.CodeRequestTimeout, "the client went away before the answer")
	case errors.Is(err, job.ErrNoOwner), errors.Is(err, context.DeadlineExceeded):
		p = refuse(api.CodeOwnerAway, "the owner of this job's partition did not answer: whether the request had effect is not known. Repeat it; with an Idempotency-Key a repeat is safe")
	case errors.Is(err, job.ErrUnavailable):
		p = refuse(api.CodeStoreAway, "the store does not answer: nothing was read and nothing was written. Repeat the request later")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(api.CodeRequestTimeout, "the body did not arrive in time: send it without pauses, or in smaller requests")
	default:
		p = refuse(api.CodeInternal, "something went wrong here, and it was logged under the request id")
	}
	p.cause = err
	return p
}

// noSuchJob names the job that an error did not find; other errors stay.
func noSuchJob(err error, jobID string) error {
	if !errors.Is(err, job.ErrNotFound) {
		return err
	}
	return refuse(api.CodeJobNotFound, "there is no job %q: it was never made, or it has been deleted", jobID)
}

// condition is what a request demanded of the job's revision.
type condition struct {
	revision int64 // If-Match: 0 none
	exists   bool  // If-Match: any revision will do, but there must be one
	absent   bool  // If-None-Match: *
}

// fromRefusal turns an owner's no into a problem.
func fromRefusal(r *belfryv1.Refusal, jobID string, cond condition) error {
	switch r.GetCode() {
	case belfryv1.Refusal_CODE_NOT_FOUND:
		if r.GetField() == "backfill_id" {
			return refuse(api.CodeNoBackfill, "%s", r.GetMessage())
		}
		if cond.exists || cond.revision != 0 {
			return refuse(api.CodePrecondition, "there is no job %q, and If-Match asks for one: leave the header out to create it", jobID)
		}
		return noSuchJob(job.ErrNotFound, jobID)
	case belfryv1.Refusal_CODE_EXISTS:
		if cond.absent {
			return refuse(api.CodePrecondition, "the job %q exists, and If-None-Match: * asks that it does not", jobID)
		}
		return refuse(api.CodeJobExists, "the job %q exists: choose another job_id, or replace it with PUT /v1/jobs/%s", jobID, jobID)
	case belfryv1.Refusal_CODE_REVISION:
		if cond.revision != 0 {
			if cond.revision == noSuchRevision {
				return refuse(api.CodePrecondition, "the ETag of If-Match is none of the job %q: read it again and decide on what it is now", jobID)
			}
			return refuse(api.CodePrecondition, "the job %q is no longer at revision %d: read it again and decide on what it is now", jobID, cond.revision)
		}
		return refuse(api.CodeConflict, "the job %q was changed by others each time this change was about to be stored: repeat it", jobID)
	case belfryv1.Refusal_CODE_KEY_REUSED:
		return refuse(api.CodeKeyReused, "this Idempotency-Key was used within the last 24 h with another body: use a new key for a new request, or send the first body again")
	case belfryv1.Refusal_CODE_IN_FLIGHT:
		return refuse(api.CodeInFlight, "a request with this Idempotency-Key is being worked on: repeat this one in a moment to get its answer")
	}
	return fromFailure(r)
}

// fromFailure is the part of fromRefusal that is about no job in particular.
func fromFailure(r *belfryv1.Refusal) *problem {
	switch r.GetCode() {
	case belfryv1.Refusal_CODE_INVALID:
		return fromInvalid("body", &job.Invalid{Problems: []job.Problem{{Field: r.GetField(), Message: r.GetMessage()}}})
	case belfryv1.Refusal_CODE_BUSY:
		return refuse(api.CodeOverloaded, "%s", orElse(r.GetMessage(), "too much of this is outstanding: repeat it later"))
	case belfryv1.Refusal_CODE_NOT_OWNER:
		return refuse(api.CodeOwnerAway, "the partition of this job is changing its owner: repeat the request in a moment")
	case belfryv1.Refusal_CODE_UNAVAILABLE:
		return refuse(api.CodeStoreAway, "%s", orElse(r.GetMessage(), "the owner cannot commit now: repeat the request later"))
	case belfryv1.Refusal_CODE_LEASE_LOST:
		return refuse(api.CodeLeaseLost, "the lease is over (%s): nothing was changed. Stop the work, and claim again", orElse(r.GetMessage(), "it is not known"))
	case belfryv1.Refusal_CODE_CANCELLED:
		return refuse(api.CodeCancelled, "the execution was cancelled, and its lease is over: stop the work, and claim again")
	case belfryv1.Refusal_CODE_NO_EXECUTION:
		return refuse(api.CodeNoExecution, "%s", r.GetMessage())
	case belfryv1.Refusal_CODE_STATE:
		return refuse(api.CodeWrongState, "%s", orElse(r.GetMessage(), "the job's state does not allow it: read the job to see why"))
	}
	p := refuse(api.CodeInternal, "the owner refused for a reason that this gateway does not know")
	p.cause = fmt.Errorf("refusal %s: %s", r.GetCode(), r.GetMessage())
	return p
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// seconds is a Retry-After header: whole seconds, at least one.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}
