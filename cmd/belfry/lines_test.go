package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func TestEventLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.Local)
	for want, h := range map[string]happening{
		"03:04:05.006  job                   succeeded      3 ms late  attempt 1":                {at: at, job: "job", kind: "execution.succeeded", attempt: 1, late: 3 * time.Millisecond},
		"03:04:05.006  job                   retrying     120 ms late  attempt 2  HTTP 500":      {at: at, job: "job", kind: "execution.retrying", attempt: 2, late: 120 * time.Millisecond, reason: "HTTP 500"},
		"03:04:05.006  job                   succeeded   7000 ms late  attempt 1  catch-up":      {at: at, job: "job", kind: "execution.succeeded", attempt: 1, late: 7 * time.Second, catchUp: true},
		"03:04:05.006  job                   missed        7 slots":                              {at: at, job: "job", kind: "execution.missed", reason: "7 slots"},
		"03:04:05.006  job                   job.paused    by\\n\\x1b[31mhand":                   {at: at, job: "job", kind: "job.paused", reason: "by\n\x1b[31mhand"},
		"03:04:05.006  a-job-with-a-rather-long-name  failed         0 ms late  attempt 5  gone": {at: at, job: "a-job-with-a-rather-long-name", kind: "execution.failed", attempt: 5, reason: "gone"},
	} {
		if got := eventLine(h, false); got != want {
			t.Errorf("line = %q\nwant   %q", got, want)
		}
		if got := eventLine(h, true); strings.Count(got, "\x1b") != 2 {
			t.Errorf("coloured line = %q", got)
		}
	}
}

// stuck is a terminal that takes nothing until it is let.
type stuck struct {
	bytes.Buffer
	let chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.let
	return s.Buffer.Write(b)
}

func TestASlowTerminalHoldsNobodyUp(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w := &stuck{let: make(chan struct{})}
	p := newEventPrinter(w)
	p.event(&belfryv1.Event{Type: "job.created"})
	const sent = 3 * eventQueue
	for range sent {
		p.event(&belfryv1.Event{Type: "execution.succeeded", JobId: "j", Attempt: 1})
	}
	close(w.let)
	p.stop()
	lines := strings.Count(w.String(), "succeeded")
	if lines < eventQueue || lines > eventQueue+1 || !strings.Contains(w.String(), "more that came too fast") || strings.Contains(w.String(), "job.created") {
		t.Errorf("%d of %d events were printed", lines, sent)
	}
}
