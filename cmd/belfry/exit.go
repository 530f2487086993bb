package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// Exit codes, part of the interface: scripts decide on them.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitNotAllowed  = 4
	exitConflict    = 5
	exitPartly      = 6   // some items failed, others did not
	exitUnavailable = 7   // no server, or one that cannot serve now
	exitRunFailed   = 8   // the execution that was waited for did not succeed
	exitInterrupted = 130 // SIGINT or SIGTERM
)

// coded is an error that knows its exit code.
type coded struct {
	code int
	err  error
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

// usage is a command line that is wrong.
func usage(format string, args ...any) error {
	return &coded{exitUsage, fmt.Errorf(format, args...)}
}

// exitCode maps an error to the code that a script sees.
func exitCode(ctx context.Context, err error) int {
	var (
		known   *coded
		problem *api.Problem
		away    *client.Unreachable
	)
	switch {
	case errors.As(err, &known):
		return known.code
	case ctx.Err() != nil, errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &problem):
		return problemCode(problem)
	case errors.As(err, &away):
		return exitUnavailable
	}
	return exitError
}

func problemCode(p *api.Problem) int {
	switch p.Status {
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitNotAllowed
	case http.StatusConflict, http.StatusPreconditionFailed:
		return exitConflict
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return exitUnavailable
	}
	if p.Code == api.CodeKeyReused {
		return exitConflict
	}
	return exitError
}

// report tells a person what went wrong and where.
func report(w io.Writer, code int, err error) {
	if code == exitInterrupted {
		fmt.Fprintln(w, "interrupted")
		return
	}
	var (
		problem *api.Problem
		invalid *job.Invalid
	)
	switch {
	case errors.As(err, &problem):
		reportProblem(w, err, problem)
	case errors.As(err, &invalid):
		fmt.Fprintln(w, "Error: the schedule is refused")
		for _, p := range invalid.Problems {
			fmt.Fprintf(w, "  %s: %s\n", p.Field, output.Printable(p.Message))
		}
	default:
		fmt.Fprintln(w, "Error: "+indent(err.Error()))
	}
	if code == exitUsage {
		fmt.Fprintln(w, "Add --help to the command to see how it is used.")
	}
}

// reportProblem shows the server's words, with what this side was doing when
// it got them.
func reportProblem(w io.Writer, err error, p *api.Problem) {
	doing := strings.TrimSuffix(err.Error(), p.Error())
	what := p.Detail
	if what == "" || len(p.Errors) > 0 && p.Title != "" {
		what = p.Title // the detail repeats the first of the errors
	}
	fmt.Fprintf(w, "Error: %s%s\n", doing, output.Printable(what))
	for _, e := range p.Errors {
		fmt.Fprintf(w, "  %s: %s\n", output.Printable(e.Location), output.Printable(e.Message))
	}
	if p.Status >= 500 && p.RequestID != "" {
		fmt.Fprintf(w, "  (status %d, request %s)\n", p.Status, output.Printable(p.RequestID))
	}
}

// indent keeps the lines of an error under its first one.
func indent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = output.Printable(lines[i])
	}
	return strings.Join(lines, "\n  ")
}

// tally counts what became of several items. One item that failed fails as
// itself; of several, some failed is partly, all failed is the last error.
type tally struct {
	done, failed int
	last         error
}

func (t *tally) add(w io.Writer, what string, err error) {
	if err == nil {
		t.done++
		return
	}
	if t.last != nil {
		report(w, exitError, t.last)
	}
	t.failed, t.last = t.failed+1, fmt.Errorf("%s: %w", what, err)
}

func (t *tally) err() error {
	if t.failed == 0 || t.done == 0 {
		return t.last
	}
	return &coded{exitPartly, fmt.Errorf("%d of %d failed: %w", t.failed, t.done+t.failed, t.last)}
}
