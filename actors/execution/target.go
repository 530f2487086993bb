package execution

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

const (
	maxAnswer  = 64 << 10 // of a body; the rest is not read
	maxHeaders = 32 << 10
	maxOutput  = 1 << 10 // of a body, kept
	maxError   = 500

	maxStale   = 16      // kept connections that may turn out dead before a delivery fails
	keptBuffer = 8 << 10 // of a request: longer ones are not used again
)

// TargetConfig is what a Target needs.
type TargetConfig struct {
	// Guard connects.
	Guard *Guard
	// Slots is how many calls may run at once: twice as many connections are
	// kept.
	Slots int
	// Source is this cluster's name in ce-source, a URI or a path. Default
	// "/belfry".
	Source string
	// UserAgent is sent where a job sets none. Default "Belfry".
	UserAgent string
	// TLS, if set, replaces the defaults, for private certificate authorities.
	TLS *tls.Config
}

// Target calls HTTP targets. It is a Deliverer.
type Target struct {
	source, userAgent string
	places            places
	pool              *pool
	buffers           sync.Pool // of requests
}

var _ Deliverer = (*Target)(nil)

// NewTarget makes the client of a node. Close it at the end.
func NewTarget(cfg TargetConfig) *Target {
	t := &Target{source: cfg.Source, userAgent: cfg.UserAgent, places: places{policy: cfg.Guard.policy}, pool: newPool(cfg)}
	t.buffers.New = func() any { return new([]byte) }
	if t.source == "" {
		t.source = "/belfry"
	}
	if t.userAgent == "" {
		t.userAgent = "Belfry"
	}
	return t
}

// Close drops kept connections.
func (t *Target) Close() { t.pool.close() }

// Deliver implements Deliverer: one request.
func (t *Target) Deliver(ctx context.Context, d *belfryv1.Delivery, epoch int64) *belfryv1.Result {
	h := d.GetTarget().GetHttp()
	if h == nil {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Final: true, Error: "this node does not know the kind of target"}
	}
	to := t.places.of(h.GetUrl())
	if to.refused != nil {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Error: clip(to.refused.Error(), maxError)}
	}
	limit := time.Duration(d.GetTimeoutMs()) * time.Millisecond
	if limit <= 0 {
		limit = job.DefaultTimeout
	}
	s := &sending{ctx: ctx, limit: limit, until: time.Now().Add(limit), secrets: findSecrets(d)}
	res, err := t.send(s, to, d, epoch)
	if err != nil {
		s.drop()
		return s.broken(err)
	}
	r, whole := s.answered(res)
	if s.release() && whole {
		t.pool.keep(s.conn, res)
	} else {
		_ = s.conn.Close()
	}
	return r
}

// send makes the request. A kept connection that turns out to be closed, with
// nothing written to it, cost nothing: the next is tried.
func (t *Target) send(s *sending, to *place, d *belfryv1.Delivery, epoch int64) (*http.Response, error) {
	buf := t.buffers.Get().(*[]byte)
	request, err := t.request((*buf)[:0], to, d, epoch)
	if cap(request) <= keptBuffer {
		*buf = request
		defer t.buffers.Put(buf)
	}
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		if err := s.connect(t.pool, to); err != nil {
			return nil, err
		}
		err := s.conn.send(request)
		if err != nil && !s.written() {
			if s.conn.kept && try < maxStale && s.ctx.Err() == nil && !s.late(err) {
				s.drop()
				continue
			}
			return nil, err
		}
		// A target may answer and close before it has read all.
		res, failed := s.conn.receive(d.GetTarget().GetHttp().GetMethod())
		if failed != nil && err == nil {
			err = failed
		}
		if failed != nil {
			return nil, err
		}
		return res, nil
	}
}

// sending is a request on its way.
type sending struct {
	ctx     context.Context
	limit   time.Duration
	until   time.Time
	secrets secrets
	conn    *conn
	release func() bool // ends the watch over ctx; false when it came too late
}

// connect takes or makes a connection. From here on the connection ends with
// the time or the context of the call.
func (s *sending) connect(p *pool, to *place) (err error) {
	if s.conn = p.take(to); s.conn == nil {
		ctx, cancel := context.WithDeadline(s.ctx, s.until)
		defer cancel()
		if s.conn, err = p.dial(ctx, to); err != nil {
			return err
		}
	}
	c := s.conn
	if err := c.SetDeadline(s.until); err != nil {
		return err
	}
	s.release = context.AfterFunc(s.ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return nil
}

func (s *sending) drop() {
	if s.release != nil {
		s.release()
		s.release = nil
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
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
	return s.ctx.Err() != nil || !time.Now().Before(s.until) || s.release != nil && errors.Is(err, os.ErrDeadlineExceeded)
}

// broken is the result of a call without an answer.
func (s *sending) broken(err error) *belfryv1.Result {
	r := &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, SentAt: s.sentAt(), FinishedAt: time.Now().UnixMilli()}
	switch {
	case s.ctx.Err() != nil:
		err = context.Cause(s.ctx)
	case s.late(err):
		r.Outcome = belfryv1.Result_OUTCOME_TIMEOUT
		r.Error = fmt.Sprintf("no complete answer within %v", s.limit)
		return r
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
