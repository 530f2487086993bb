package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Gateway is the HTTP API of one node.
type Gateway struct {
	cfg        Config
	partitions int
	router     *chi.Mux
	openapi    []byte
	metrics    *metrics
	limits     *limiter
	schedules  *schedules
	ring       *ring
	origins    *http.CrossOriginProtection
	requestTag string // of this process, in front of request ids
	requests   atomic.Uint64
	closing    context.Context // ends with Close
	close      context.CancelFunc
}

// New makes a Gateway.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	g := &Gateway{
		cfg: cfg, partitions: cfg.Owners.Partitions(), router: chi.NewMux(),
		limits: newLimiter(cfg.Limits), schedules: newSchedules(),
		ring: newRing(cfg.Limits.EventRing, newTag()), origins: http.NewCrossOriginProtection(), requestTag: newTag(),
	}
	g.closing, g.close = context.WithCancel(context.Background())
	var err error
	if g.metrics, err = newMetrics(cfg.Registry); err != nil {
		return nil, fmt.Errorf("gateway metrics: %w", err)
	}
	if g.openapi, err = OpenAPI(); err != nil {
		return nil, err
	}
	g.mount()
	return g, nil
}

// Handler is the API as a handler; see NewServer for the limits around it.
func (g *Gateway) Handler() http.Handler { return http.HandlerFunc(g.serve) }

// Publish hands an event to everybody who watches /v1/events. It never blocks.
func (g *Gateway) Publish(e *belfryv1.Event) { g.ring.publish(e) }

func newTag() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// mount hands the table of routes to the router.
func (g *Gateway) mount() {
	surface := humachi.New(g.router, huma.Config{OpenAPI: &huma.OpenAPI{Info: &huma.Info{Title: apiTitle, Version: apiVersion}}})
	for _, rt := range g.routes() {
		rt.prepare()
		op := rt.operation(surface.OpenAPI().Components.Schemas)
		surface.Adapter().Handle(op, func(ctx huma.Context) {
			r, w := humachi.Unwrap(ctx)
			g.run(rt, w, r)
		})
	}
	g.router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		g.run(&route{path: "none", handle: noRoute}, w, r)
	})
	g.router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		g.run(&route{path: "none", handle: g.noMethod}, w, r)
	})
}

// serve is the first thing that sees a request.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead && r.URL.Path != "/v1/events" {
		rctx := chi.NewRouteContext() // HEAD is GET without the body, which net/http leaves out
		if path := routePath(r); g.router.Match(rctx, http.MethodGet, path) {
			g.router.ServeHTTP(w, headAsGet(r))
			return
		}
	}
	g.router.ServeHTTP(w, r)
}

func routePath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}

func headAsGet(r *http.Request) *http.Request {
	get := *r
	get.Method = http.MethodGet
	return &get
}

// run carries a request through one route: limits, the route itself, metrics;
// a panic ends the request and nothing else.
func (g *Gateway) run(rt *route, w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	rec := &recorder{ResponseWriter: w}
	c := &call{g: g, w: rec, server: w, r: r, route: rt, id: g.requestID(r)}
	h := w.Header()
	h.Set("X-Request-Id", c.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	defer func() {
		if p := recover(); p != nil {
			g.panicked(c, rec, p)
		}
		g.metrics.observe(rt, r.Method, rec.code(), time.Since(start))
	}()
	leave, err := g.limits.enter(r, rt)
	if err != nil {
		c.fail(err)
		return
	}
	defer leave()
	if err := c.handle(); err != nil {
		c.failOnce(rec, err)
	}
}

func (c *call) handle() error {
	if err := c.g.origins.Check(c.r); err != nil {
		return refuse(api.CodeCrossOrigin, "a browser sent this for a page of another origin: call the API from a program, or from a page of its own origin")
	}
	if err := c.parseQuery(); err != nil {
		return err
	}
	return c.route.handle(c)
}

// failOnce answers with a problem, unless an answer has begun: then the
// connection is cut, so that the client sees that the answer is not whole.
func (c *call) failOnce(rec *recorder, err error) {
	if rec.status != 0 {
		c.g.cfg.Logger.Debug("answer cut short", "request", c.id, "error", err)
		panic(http.ErrAbortHandler)
	}
	c.fail(err)
}

// panicked answers a request whose handler panicked.
func (g *Gateway) panicked(c *call, rec *recorder, p any) {
	if p == http.ErrAbortHandler {
		panic(p)
	}
	g.metrics.panics.Inc()
	g.cfg.Logger.Error("panic in a request", "request", c.id, "method", c.r.Method, "route", c.route.path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if rec.status == 0 {
		c.fail(refuse(api.CodeInternal, "something went wrong here, and it was logged under the request id"))
		return
	}
	panic(http.ErrAbortHandler)
}

func (g *Gateway) logCause(c *call, p *problem) {
	level := g.cfg.Logger.Warn
	if p.Status == http.StatusInternalServerError {
		level = g.cfg.Logger.Error
	}
	level("request failed", "request", c.id, "method", c.r.Method, "route", c.route.path, "code", p.Code, "error", p.cause)
}

// requestID is the client's X-Request-Id when it is a plain word, else a new one.
func (g *Gateway) requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 64 && plain(id) {
		return id
	}
	return g.requestTag + "-" + strconv.FormatUint(g.requests.Add(1), 36)
}

func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

func noRoute(c *call) error {
	return refuse(api.CodeNoRoute, "there is nothing at this address: see /openapi.json for what there is")
}

// noMethod is the answer to a method that an address does not have.
func (g *Gateway) noMethod(c *call) error {
	for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		as := m
		if m == "HEAD" {
			as = "GET"
		}
		if g.router.Match(chi.NewRouteContext(), as, routePath(c.r)) {
			c.w.Header().Add("Allow", m)
		}
	}
	return refuse(api.CodeMethod, "%s is not a method of this address: the Allow header lists what is", clip(c.r.Method))
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the first status.
func (r *recorder) WriteHeader(code int) {
	if r.status == 0 && code >= 200 {
		r.status = code
	}
	r.ResponseWriter.WriteHeader(code)
}

// Write implies status 200.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}
