package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// DefaultServer is where a server listens when nobody says otherwise.
const DefaultServer = "http://127.0.0.1:8380"

const (
	maxTries   = 5                // of a call that the server asks to repeat
	maxPause   = 10 * time.Second // whatever Retry-After says
	maxAnswer  = 64 << 20         // bytes of one answer that is no stream
	maxProblem = 1 << 20          // bytes of a problem
)

// Config is how to reach a server.
type Config struct {
	Server         string        // base URL; "" is DefaultServer
	Timeout        time.Duration // of one call with all its tries; 0: none
	UserAgent      string
	IdempotencyKey string            // of the first call that changes something; "" is a random one
	Transport      http.RoundTripper // nil: one of its own
}

// Client calls one server. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	http    *http.Client
	cfg     Config
	keys    string // random, so that keys of two clients differ
	counter atomic.Int64
}

// New checks the server's URL and returns a client for it.
func New(cfg Config) (*Client, error) {
	if cfg.Server == "" {
		cfg.Server = DefaultServer
	}
	base, err := url.Parse(strings.TrimRight(cfg.Server, "/"))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" {
		return nil, fmt.Errorf("%q is not the URL of a server; write it like %s", cfg.Server, DefaultServer)
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second}
	}
	return &Client{base: base, http: &http.Client{Transport: cfg.Transport}, cfg: cfg, keys: rand.Text()}, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Server is the base URL.
func (c *Client) Server() string { return c.base.String() }

// Unreachable is a server that did not answer: it cannot be known whether it
// did what it was asked.
type Unreachable struct {
	Server string
	Err    error
}

func (e *Unreachable) Error() string {
	why := e.Err.Error()
	var op *url.Error
	if errors.As(e.Err, &op) {
		why = op.Err.Error()
	}
	switch {
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no server answers at %s: connection refused; start one with `belfry dev` or `belfry server`, or name another with --server or BELFRY_SERVER", e.Server)
	case errors.Is(e.Err, context.DeadlineExceeded):
		return fmt.Sprintf("%s did not answer in time; see --request-timeout", e.Server)
	}
	return fmt.Sprintf("no answer from %s: %s", e.Server, why)
}

func (e *Unreachable) Unwrap() error { return e.Err }

// call is one request before it is sent.
type call struct {
	method, path string // the path is escaped
	query        url.Values
	header       http.Header
	body         []byte
	changes      bool // gets an Idempotency-Key
}

// answer is a successful response, read to its end.
type answer struct {
	header http.Header
	status int
	body   []byte
}

// do sends a call, again when the server asks for it, and reads the answer.
func (c *Client) do(ctx context.Context, req call) (answer, error) {
	if c.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
	}
	resp, err := c.send(ctx, req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, c.unreachable(ctx, err)
	}
	return answer{header: resp.Header, status: resp.StatusCode, body: body}, nil
}

// send returns a successful response whose body the caller closes.
func (c *Client) send(ctx context.Context, req call) (*http.Response, error) {
	if req.changes && req.header.Get("Idempotency-Key") == "" {
		req.header = withKey(req.header, c.key())
	}
	for try := 1; ; try++ {
		resp, err := c.once(ctx, req)
		if err != nil {
			return nil, c.unreachable(ctx, err)
		}
		if resp.StatusCode < 300 {
			return resp, nil
		}
		problem := readProblem(resp)
		pause, again := retryAfter(resp, problem)
		if !again || try == maxTries || !wait(ctx, pause) {
			return nil, problem
		}
	}
}

func (c *Client) once(ctx context.Context, req call) (*http.Response, error) {
	target := *c.base
	target.RawPath = c.base.EscapedPath() + req.path
	path, err := url.PathUnescape(target.RawPath)
	if err != nil {
		return nil, err
	}
	target.Path, target.RawQuery = path, req.query.Encode()
	var body io.Reader
	if req.body != nil {
		body = bytes.NewReader(req.body)
	}
	r, err := http.NewRequestWithContext(ctx, req.method, target.String(), body)
	if err != nil {
		return nil, err
	}
	for name, values := range req.header {
		r.Header[name] = values
	}
	if c.cfg.UserAgent != "" {
		r.Header.Set("User-Agent", c.cfg.UserAgent)
	}
	return c.http.Do(r)
}

// segment is an id as one segment of a path, whatever it holds: a slash in it
// must not lead to another address.
func segment(id string) string { return url.PathEscape(id) }

// unreachable wraps what went wrong on the way, unless the caller gave up.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		err = dns
	}
	return &Unreachable{Server: c.base.String(), Err: err}
}

// key names one change, so that sending it again does not make it twice.
func (c *Client) key() string {
	n := c.counter.Add(1)
	if n == 1 && c.cfg.IdempotencyKey != "" {
		return c.cfg.IdempotencyKey
	}
	return "cli-" + c.keys + "-" + strconv.FormatInt(n, 10)
}

func withKey(h http.Header, key string) http.Header {
	h = h.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Idempotency-Key", key)
	return h
}

// readProblem reads the answer that is not a success, whoever wrote it.
func readProblem(resp *http.Response) *api.Problem {
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	problem := &api.Problem{}
	if err != nil || json.Unmarshal(text, problem) != nil || problem.Title == "" && problem.Detail == "" {
		problem = &api.Problem{Title: http.StatusText(resp.StatusCode), Detail: "the server answered " + resp.Status}
		if line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n"); line != "" {
			problem.Detail += ": " + line
		}
	}
	problem.Status = resp.StatusCode
	return problem
}

// retryAfter reports whether the answer asks to try again, and when.
func retryAfter(resp *http.Response, p *api.Problem) (time.Duration, bool) {
	switch {
	case p.Status == http.StatusServiceUnavailable, p.Status == http.StatusTooManyRequests, p.Code == api.CodeInFlight:
	default:
		return 0, false
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0, false
	}
	return min(time.Duration(seconds)*time.Second, maxPause), true
}

// wait pauses; false when there is no time for it.
func wait(ctx context.Context, pause time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
