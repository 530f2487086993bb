package execution

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// sending is a request on its way.
type sending struct {
	ctx     context.Context
	limit   time.Duration
	until   time.Time
	secrets secrets
	headers map[string]string // of the job, with secrets in the place of references
	signers signers
	pool    *pool
	conn    *conn
	unwatch func() bool // ends the watch of ctx over conn; false when it was done before
	whole   bool        // the answer was read to its end, and conn may carry another call
}

// reveal reads the secrets that a target refers to, so that they can be sent and
// cannot show.
func (s *sending) reveal(v *Vault, h *belfryv1.HTTPTarget) error {
	var put, keys []string
	var err error
	if s.headers, put, err = v.reveal(h.GetHeaders()); err != nil {
		return err
	}
	if s.signers, keys, err = v.signers(h.GetSigningSecretRef()); err != nil {
		return err
	}
	s.secrets = s.secrets.with(append(put, keys...))
	return nil
}

// connect takes or makes a connection, which from here on ends with the time
// and the context of the call.
func (s *sending) connect(to *place) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	c := s.pool.take(to)
	if c == nil {
		ctx, cancel := context.WithDeadline(s.ctx, s.until)
		defer cancel()
		var err error
		if c, err = s.pool.dial(ctx, to); err != nil {
			return err
		}
	}
	s.conn = c
	c.under.written = 0        // of this request
	_ = c.SetDeadline(s.until) // fails only where writing fails too
	s.unwatch = context.AfterFunc(s.ctx, func() { _ = c.SetDeadline(longAgo) })
	return nil
}

var longAgo = time.Unix(1, 0)

// receive reads the head of an answer, also when the target closed before it
// had read all of the request: it may have answered all the same.
func (s *sending) receive(method string, sent error) (*http.Response, error) {
	res, err := s.conn.receive(method)
	if err != nil && sent != nil {
		err = sent
	}
	return res, err
}

// finish lets go of the connection.
func (s *sending) finish() {
	if s.conn == nil {
		return
	}
	if s.unwatch() && s.whole && s.conn.reusable() {
		s.pool.keep(s.conn)
	} else {
		_ = s.conn.Close()
	}
	s.conn = nil
}

// written reports whether any byte of the request may have left.
func (s *sending) written() bool { return s.conn != nil && s.conn.under.written > 0 }

// sentAt is when the request was written, 0 when it was not.
func (s *sending) sentAt() int64 {
	if !s.written() {
		return 0
	}
	return s.conn.under.last
}

// late reports whether a call ended by its time or its context.
func (s *sending) late(err error) bool {
	return s.ctx.Err() != nil || !time.Now().Before(s.until) || s.conn != nil && errors.Is(err, os.ErrDeadlineExceeded)
}

// errMayNot is why a request was not written by a node that may send nothing.
var errMayNot = errors.New("this node may send nothing")

// broken is the result of a call without an answer; nil when nothing was sent,
// and that was not the target's fault.
func (s *sending) broken(err error) *belfryv1.Result {
	if !s.written() && (s.ctx.Err() != nil || errors.Is(err, errMayNot)) {
		return nil
	}
	r := &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, SentAt: s.sentAt(), FinishedAt: time.Now().UnixMilli()}
	switch {
	case s.ctx.Err() != nil:
		err = context.Cause(s.ctx)
	case s.late(err):
		r.Outcome, r.Unavailable = belfryv1.Result_OUTCOME_TIMEOUT, true
		r.Error = fmt.Sprintf("no complete answer within %v", s.limit)
		return r
	default:
		r.Unavailable = !errors.Is(err, job.ErrAddress)
	}
	text := err.Error()
	if s.written() {
		r.Outcome = belfryv1.Result_OUTCOME_UNKNOWN
		text = "the request was sent, and the answer was lost: " + text
	} else {
		text = "nothing was sent: " + text
	}
	r.Error = s.secrets.mask(text, maxError)
	return r
}
