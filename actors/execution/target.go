package execution

import (
	"context"
	"crypto/tls"
	"net/http"
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

	defaultSource = "/belfry"
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
	// Vault reads the secrets that jobs refer to. Default: variables only.
	Vault *Vault
	// TLS, if set, replaces the defaults, for private certificate authorities.
	TLS *tls.Config
}

// Target calls HTTP targets. It is a Deliverer.
type Target struct {
	source, userAgent string
	places            places
	vault             *Vault
	pool              *pool
	buffers           sync.Pool // of requests
}

var _ Deliverer = (*Target)(nil)

// NewTarget makes the client of a node. Close it at the end.
func NewTarget(cfg TargetConfig) *Target {
	t := &Target{source: cfg.Source, userAgent: cfg.UserAgent, vault: cfg.Vault, places: places{policy: cfg.Guard.policy}, pool: newPool(cfg.Guard, cfg.TLS, 2*cfg.Slots)}
	t.buffers.New = func() any { return new([]byte) }
	if t.vault == nil {
		t.vault = &Vault{}
	}
	if t.source == "" {
		t.source = defaultSource
	}
	if t.userAgent == "" {
		t.userAgent = "Belfry"
	}
	return t
}

// Close drops kept connections.
func (t *Target) Close() { t.pool.close() }

// Deliver implements Deliverer: one request.
func (t *Target) Deliver(ctx context.Context, d *belfryv1.Delivery, epoch int64, may func() bool) *belfryv1.Result {
	h := d.GetTarget().GetHttp()
	if h == nil {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Final: true, Error: "this node does not know the kind of target"}
	}
	to := t.places.of(h.GetUrl())
	if to.refused != nil {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Error: clip(to.refused.Error(), maxError)}
	}
	limit := limitOf(d)
	s := &sending{ctx: ctx, limit: limit, until: time.Now().Add(limit), secrets: findSecrets(d), pool: t.pool}
	defer s.finish()
	if err := s.reveal(t.vault, h); err != nil {
		return s.broken(err)
	}
	res, err := t.send(s, to, d, epoch, may)
	if err != nil {
		return s.broken(err)
	}
	return s.answered(res)
}

// limitOf is the time that an attempt has.
func limitOf(d *belfryv1.Delivery) time.Duration {
	const most = int64(job.MaxTimeout / time.Millisecond)
	if ms := d.GetTimeoutMs(); ms > 0 {
		return time.Duration(min(ms, most)) * time.Millisecond
	}
	return job.DefaultTimeout
}

// send makes the request and reads the head of the answer. A kept connection
// that turns out to be closed, with nothing written to it, cost nothing: the
// next is tried.
func (t *Target) send(s *sending, to *place, d *belfryv1.Delivery, epoch int64, may func() bool) (*http.Response, error) {
	buf := t.buffers.Get().(*[]byte)
	request, err := t.request((*buf)[:0], s, to, d, epoch)
	if cap(request) <= keptBuffer {
		*buf = request
		defer t.buffers.Put(buf)
	}
	for try := 1; err == nil; try++ {
		if err = s.connect(to); err != nil {
			break
		}
		if !may() {
			return nil, errMayNot
		}
		err = s.conn.send(request)
		if err == nil || s.written() {
			return s.receive(d.GetTarget().GetHttp().GetMethod(), err)
		}
		if s.conn.kept && try < maxStale && !s.late(err) {
			s.finish()
			err = nil
		}
	}
	return nil, err
}
