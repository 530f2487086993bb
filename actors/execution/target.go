package execution

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
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

	idleTimeout = 30 * time.Second // less than most servers keep a connection
	maxStale    = 16               // kept connections that may turn out dead before a delivery fails

	eventType = "belfry.execution.due"
	instant   = "2006-01-02T15:04:05.000Z"
)

// TargetConfig is what a Target needs.
type TargetConfig struct {
	// Guard connects.
	Guard *Guard
	// Slots is how many calls may run at once: so many connections to one host
	// are kept.
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
	policy            job.AddressPolicy
	source, userAgent string
	plain, secure     *http.Transport
}

var _ Deliverer = (*Target)(nil)

// NewTarget makes the client of a node. Close it at the end.
func NewTarget(cfg TargetConfig) *Target {
	t := &Target{policy: cfg.Guard.policy, source: cfg.Source, userAgent: cfg.UserAgent}
	if t.source == "" {
		t.source = "/belfry"
	}
	if t.userAgent == "" {
		t.userAgent = "Belfry"
	}
	t.plain, t.secure = transport(cfg, true), transport(cfg, false)
	return t
}

// transport speaks HTTP/1.1 alone, takes no proxy, and asks for no
// compression, so that 64 KiB read are 64 KiB received.
func transport(cfg TargetConfig, plain bool) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            cfg.Guard.dialer(plain),
		Proxy:                  nil,
		TLSClientConfig:        cfg.TLS.Clone(),
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           2 * cfg.Slots,
		MaxIdleConnsPerHost:    cfg.Slots,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaders,
		DisableCompression:     true,
		Protocols:              &protocols,
	}
}

// Close drops kept connections.
func (t *Target) Close() {
	t.plain.CloseIdleConnections()
	t.secure.CloseIdleConnections()
}

// Deliver implements Deliverer: one request.
func (t *Target) Deliver(ctx context.Context, d *belfryv1.Delivery, epoch int64) *belfryv1.Result {
	h := d.GetTarget().GetHttp()
	if h == nil {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Final: true, Error: "this node does not know the kind of target"}
	}
	if refused := t.policy.CheckURL("target.http.url", h.GetUrl()); refused != nil {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Error: clip(refused.Error(), maxError)}
	}
	limit := time.Duration(d.GetTimeoutMs()) * time.Millisecond
	if limit <= 0 {
		limit = job.DefaultTimeout
	}
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	secrets := findSecrets(d)
	sent := &sending{}
	res, err := t.send(call, d, epoch, sent)
	if err != nil {
		return sent.broken(call, ctx, err, limit, secrets)
	}
	return sent.answered(call, ctx, res, limit, secrets)
}

// send makes the request. A kept connection that turns out to be closed, with
// nothing written to it, cost nothing: the next is tried.
func (t *Target) send(ctx context.Context, d *belfryv1.Delivery, epoch int64, s *sending) (*http.Response, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: s.got})
	for try := 1; ; try++ {
		req, err := t.request(ctx, d, epoch)
		if err != nil {
			return nil, err
		}
		via := t.secure
		if req.URL.Scheme == "http" {
			via = t.plain
		}
		res, err := via.RoundTrip(req)
		if err == nil {
			return res, nil
		}
		if stale := s.reused() && !s.written(); !stale || try == maxStale || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (t *Target) request(ctx context.Context, d *belfryv1.Delivery, epoch int64) (*http.Request, error) {
	h := d.GetTarget().GetHttp()
	req, err := http.NewRequestWithContext(ctx, h.GetMethod(), h.GetUrl(), nil)
	if err != nil {
		return nil, errors.New("the target is not a request that can be made")
	}
	for name, value := range h.GetHeaders() {
		if !job.ReservedHeader(name) {
			req.Header.Set(name, value)
		}
	}
	setDefault(req.Header, "User-Agent", t.userAgent)
	if len(h.GetBody()) > 0 && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", contentType(h.GetBody()))
	}
	t.identify(req.Header, d, epoch)
	setBody(req, h.GetBody())
	return req, nil
}

// identify sets the headers that tell a target which delivery this is. They
// are the same on each attempt, but for the attempt's number and the epoch.
func (t *Target) identify(h http.Header, d *belfryv1.Delivery, epoch int64) {
	at := time.UnixMilli(d.GetScheduledFor()).UTC().Format(instant)
	names := [...][2]string{
		{"Idempotency-Key", d.GetKey()},
		{"Webhook-Id", d.GetKey()},
		{"Belfry-Execution-Id", d.GetExecutionId()},
		{"Belfry-Job-Id", d.GetJobId()},
		{"Belfry-Scheduled-For", at},
		{"Belfry-Attempt", strconv.Itoa(int(d.GetAttempt()))},
		{"Belfry-Epoch", strconv.FormatInt(epoch, 10)},
		{"Ce-Specversion", "1.0"},
		{"Ce-Type", eventType},
		{"Ce-Source", t.source},
		{"Ce-Id", d.GetKey()},
		{"Ce-Time", at},
	}
	values := make([]string, len(names)) // one allocation for all
	for i, pair := range names {
		values[i] = pair[1]
		h[pair[0]] = values[i : i+1 : i+1]
	}
}

// setBody attaches the body so that Go's Transport cannot send the request a
// second time by itself. A body without GetBody does that. No body would be
// read as repeatable: where a request usually has none, an empty reader stands
// in for it and nothing is sent; elsewhere the key is spelt in a way that the
// Transport does not look for (names of headers have no case).
func setBody(req *http.Request, body []byte) {
	switch {
	case len(body) > 0:
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	case req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodDelete:
		req.Body = io.NopCloser(bytes.NewReader(nil))
	default:
		req.Header["idempotency-key"] = req.Header["Idempotency-Key"]
		delete(req.Header, "Idempotency-Key")
	}
}

func setDefault(h http.Header, name, value string) {
	if h.Get(name) == "" {
		h.Set(name, value)
	}
}

func contentType(body []byte) string {
	if json.Valid(body) {
		return "application/json"
	}
	return "application/octet-stream"
}

// sending is what is known of a request on its way. The Transport calls got
// from goroutines of its own.
type sending struct {
	mu     sync.Mutex
	conn   *countedConn
	before int64 // what had been written to conn
	kept   bool  // conn had been used before
}

func (s *sending) got(info httptrace.GotConnInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.kept = counted(info.Conn), info.Reused
	if s.conn != nil {
		s.before = s.conn.written.Load()
	}
}

func (s *sending) reused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// written reports whether any byte of the request may have left.
func (s *sending) written() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil && s.conn.written.Load() > s.before
}

// sentAt is when the request was written, 0 when it was not.
func (s *sending) sentAt() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || s.conn.written.Load() <= s.before {
		return 0
	}
	return s.conn.last.Load()
}

// broken is the result of a call without an answer.
func (s *sending) broken(call, parent context.Context, err error, limit time.Duration, secrets secrets) *belfryv1.Result {
	r := &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, SentAt: s.sentAt(), FinishedAt: time.Now().UnixMilli()}
	written := s.written()
	switch {
	case parent.Err() == nil && call.Err() != nil:
		r.Outcome = belfryv1.Result_OUTCOME_TIMEOUT
		r.Error = fmt.Sprintf("no complete answer within %v", limit)
		return r
	case parent.Err() != nil:
		err = context.Cause(parent)
	}
	text := err.Error()
	if written {
		r.Outcome = belfryv1.Result_OUTCOME_UNKNOWN
		text = "the request was sent, and the answer was lost: " + text
	} else {
		text = "nothing was sent: " + text
	}
	r.Error = secrets.mask(text, maxError)
	return r
}
