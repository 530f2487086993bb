package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
)

const (
	typeJSON   = "application/json"
	typeMerge  = "application/merge-patch+json"
	typeNDJSON = "application/x-ndjson"
)

// call is one request on its way through a route.
type call struct {
	g      *Gateway
	w      http.ResponseWriter
	r      *http.Request
	route  *route
	id     string // request id
	query  url.Values
	server http.ResponseWriter // the server's own, which closes a connection that sends too much
}

// pathID is the path's {id}.
func (c *call) pathID() (string, error) { return c.pathPart("id") }

// pathPart is a part of the path as the client meant it: percent-escapes
// undone, exactly once.
func (c *call) pathPart(name string) (string, error) {
	raw := chi.URLParam(c.r, name)
	if c.r.URL.RawPath == "" {
		return raw, nil
	}
	part, err := url.PathUnescape(raw)
	if err != nil {
		return "", invalid("path."+name, "the percent-escapes cannot be read: write %%25 for a percent sign")
	}
	return part, nil
}

// jobID is pathID, checked as the id of a job.
func (c *call) jobID() (string, error) {
	id, err := c.pathID()
	if err != nil {
		return "", err
	}
	if bad := job.CheckID(id); bad != nil {
		return "", invalid("path.id", "%s", bad.Problems[0].Message)
	}
	return id, nil
}

// parseQuery reads the query strictly: what the route does not know, or does
// not take twice, is refused instead of ignored. So is what is empty: it may be the
// variable of a script that was not set, and would select everything.
func (c *call) parseQuery() error {
	if c.r.URL.RawQuery == "" {
		return nil
	}
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return invalid("query", "the query cannot be read: escape %%, &, ; and + in values")
	}
	for name, values := range q {
		repeats, known := c.route.query[name]
		switch {
		case !known:
			return invalid("query."+clip(name), "there is no such parameter here: %s", knownParams(c.route.query))
		case len(values) > 1 && !repeats:
			return invalid("query."+name, "it is given %d times and has one value: leave the others out", len(values))
		case slices.Contains(values, ""):
			return invalid("query."+name, "it is empty: give it a value, or leave it out")
		}
	}
	c.query = q
	return nil
}

func knownParams(known map[string]bool) string {
	if len(known) == 0 {
		return "this address takes none"
	}
	names := make([]string, 0, len(known))
	for n := range known {
		names = append(names, n)
	}
	slices.Sort(names)
	return "known are " + strings.Join(names, ", ")
}

// clip shortens what a client sent before it is quoted back.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r > 0x7e {
			return '?'
		}
		return r
	}, s)
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// flag is a boolean parameter: true, false, or absent for false.
func (c *call) flag(name string) (bool, error) {
	switch v := c.query.Get(name); {
	case v == "true":
		return true, nil
	case v == "false", !c.query.Has(name):
		return false, nil
	default:
		return false, invalid("query."+name, "%q is neither true nor false", clip(v))
	}
}

// pageSize is the page_size (or its short name limit).
func (c *call) pageSize() (int, error) {
	name := "page_size"
	if c.query.Has("limit") {
		if c.query.Has(name) {
			return 0, invalid("query.limit", "limit is another name of page_size: give one of the two")
		}
		name = "limit"
	}
	if !c.query.Has(name) {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(c.query.Get(name))
	if err != nil || n < 1 || n > maxPage {
		return 0, invalid("query."+name, "%q is not a page size: write a number from 1 to %d, and follow the Link header for more", clip(c.query.Get(name)), maxPage)
	}
	return n, nil
}

// body reads the whole body of one of the content types. optional: it may be
// absent, and is nil then.
func (c *call) body(optional bool, types ...string) ([]byte, error) {
	if optional && (c.r.ContentLength == 0 || c.r.Body == http.NoBody) {
		return nil, nil
	}
	if err := c.checkType(types...); err != nil {
		return nil, err
	}
	limit := c.g.cfg.Limits.Body
	if c.r.ContentLength > limit {
		c.w.Header().Set("Connection", "close") // rather than read on to the end
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var buf bytes.Buffer
	if c.r.ContentLength > 0 {
		buf.Grow(int(c.r.ContentLength) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(http.MaxBytesReader(c.server, c.r.Body, limit)); err != nil {
		return nil, bodyError(err)
	}
	return buf.Bytes(), nil
}

// optionalBody reads a JSON body into req, and returns its bytes; an absent one
// leaves req as it is.
func (c *call) optionalBody(req any) ([]byte, error) {
	body, err := c.body(true, typeJSON)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	return body, decode(body, c.g.cfg.Limits.Depth, req)
}

// bodyError is a body that ended early: the client's doing, except where
// asProblem knows better.
func bodyError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(api.CodeMalformed, "the body ended before its announced length: send it again whole")
	}
	return fmt.Errorf("read the body: %w", err)
}

func (c *call) checkType(types ...string) error {
	if enc := c.r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return refuse(api.CodeMediaType, "Content-Encoding %q is not read: send the body as it is, without compression", clip(enc))
	}
	given := c.r.Header.Get("Content-Type")
	if given == types[0] { // the usual case
		return nil
	}
	kind, params, err := mime.ParseMediaType(given)
	charset := strings.ToLower(params["charset"])
	if err != nil || !slices.Contains(types, kind) || charset != "" && charset != "utf-8" {
		return refuse(api.CodeMediaType, "the Content-Type is %q, and this address reads %s in UTF-8: send the header Content-Type: %s",
			clip(given), strings.Join(types, " or "), types[0])
	}
	return nil
}

// answer writes v as JSON.
func (c *call) answer(code int, v any) error {
	out, err := encode(v)
	if err != nil {
		return err
	}
	c.write(code, typeJSON, out)
	return nil
}

func (c *call) write(code int, contentType string, body []byte) {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(code)
	_, _ = c.w.Write(body) // a client that has gone needs no answer
}

// fail writes a problem.
func (c *call) fail(err error) {
	p := asProblem(err)
	if p.cause != nil && p.Status >= http.StatusInternalServerError {
		c.g.logCause(c, p)
	}
	if p.retryAfter > 0 {
		c.w.Header().Set("Retry-After", seconds(p.retryAfter))
	}
	out := p.Problem
	out.RequestID = c.id
	body, err := encode(out)
	if err != nil {
		body = []byte(`{"title":"Internal error","status":500,"code":"internal"}`)
	}
	c.write(p.Status, "application/problem+json", body)
}

// encode is JSON whose bytes depend on the value alone: maps are sorted.
func encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true))
}
