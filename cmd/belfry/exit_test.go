package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	problem := func(status int, code string) error {
		return fmt.Errorf("job x: %w", &api.Problem{Status: status, Code: code})
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want int
	}{
		"anything":        {t.Context(), errors.New("x"), exitError},
		"usage":           {t.Context(), usage("x"), exitUsage},
		"invalid":         {t.Context(), problem(400, api.CodeInvalid), exitError},
		"not found":       {t.Context(), problem(404, api.CodeJobNotFound), exitNotFound},
		"no credentials":  {t.Context(), problem(401, ""), exitNotAllowed},
		"not allowed":     {t.Context(), problem(403, ""), exitNotAllowed},
		"exists":          {t.Context(), problem(409, api.CodeJobExists), exitConflict},
		"other revision":  {t.Context(), problem(412, api.CodePrecondition), exitConflict},
		"other body":      {t.Context(), problem(422, api.CodeKeyReused), exitConflict},
		"too much":        {t.Context(), problem(429, api.CodeOverloaded), exitUnavailable},
		"away":            {t.Context(), problem(503, api.CodeOwnerAway), exitUnavailable},
		"internal":        {t.Context(), problem(500, api.CodeInternal), exitError},
		"nobody there":    {t.Context(), &client.Unreachable{Err: errors.New("x")}, exitUnavailable},
		"interrupted":     {ended, &client.Unreachable{Err: errors.New("x")}, exitInterrupted},
		"failed meantime": {ended, &coded{exitRunFailed, errors.New("x")}, exitRunFailed},
	} {
		if got := exitCode(c.ctx, c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestTally(t *testing.T) {
	t.Parallel()
	missing := &api.Problem{Status: 404, Detail: "no such job"}
	for name, c := range map[string]struct {
		results []error
		want    int
	}{
		"all well":    {[]error{nil, nil}, exitOK},
		"some failed": {[]error{missing, nil}, exitPartly},
		"one failed":  {[]error{missing}, exitNotFound},
		"all failed":  {[]error{missing, missing}, exitNotFound},
	} {
		var seen bytes.Buffer
		var all tally
		for i, err := range c.results {
			all.add(&seen, fmt.Sprintf("job-%d", i), err)
		}
		code := exitOK
		if err := all.err(); err != nil {
			code = exitCode(t.Context(), err)
			report(&seen, code, err)
		}
		if code != c.want {
			t.Errorf("%s: %d, want %d", name, code, c.want)
		}
		for i, err := range c.results {
			if want := fmt.Sprintf("job-%d: no such job", i); (err != nil) != bytes.Contains(seen.Bytes(), []byte(want)) {
				t.Errorf("%s: the report is\n%s", name, &seen)
			}
		}
	}
}

func TestAReportCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		errors.New("a\x1b[2Jb"),
		&api.Problem{Detail: "a\x1b[2Jb", Errors: []api.FieldProblem{{Location: "x\x1b", Message: "y\x1b"}}},
	} {
		var seen bytes.Buffer
		report(&seen, exitError, err)
		if bytes.ContainsRune(seen.Bytes(), '\x1b') {
			t.Errorf("report = %q", &seen)
		}
	}
}
