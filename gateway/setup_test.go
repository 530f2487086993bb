package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when the clock of every test begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bundle is a gateway over a store in memory, with a server in front.
type bundle struct {
	t      testing.TB
	gw     *Gateway
	owners *owners
	store  *embedded.Store
	srv    *httptest.Server
	clock  *atomic.Int64
	log    *bytes.Buffer
}

func setup(t testing.TB, change ...func(*Config)) *bundle {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := embedded.Open(embedded.Config{Dir: "store", FS: vfs.NewMem(), MemTableBytes: 1 << 20, ReserveBytes: -1, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{t: t, store: store, clock: new(atomic.Int64), log: new(bytes.Buffer)}
	b.clock.Store(start.UnixMilli())
	b.owners = newOwners(t, store, b.now)
	cfg := Config{
		Owners: b.owners, Store: store, Policy: job.DevPolicy(), Now: b.now,
		Logger: slog.New(slog.NewJSONHandler(b.log, nil)), Limits: Limits{Describe: 2 * time.Second, Heartbeat: time.Hour},
	}
	for _, f := range change {
		f(&cfg)
	}
	if b.gw, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	b.srv = httptest.NewUnstartedServer(b.gw.Handler())
	b.srv.Config = NewServer("", b.gw.Handler())
	b.srv.Start()
	t.Cleanup(func() {
		b.gw.Close()
		b.srv.Client().CloseIdleConnections()
		b.srv.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bundle) now() time.Time { return time.UnixMilli(b.clock.Load()).UTC() }

func (b *bundle) advance(d time.Duration) { b.clock.Add(d.Milliseconds()) }

// response is an answer, read.
type response struct {
	*http.Response
	t    testing.TB
	text string
}

// do sends a request; body is JSON text. Headers come in pairs.
func (b *bundle) do(method, path, body string, headers ...string) response {
	b.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, b.srv.URL+path, in)
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.srv.Client().Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return response{resp, b.t, string(text)}
}

// want checks the status.
func (r response) want(code int) response {
	r.t.Helper()
	if r.StatusCode != code {
		r.t.Fatalf("%s %s: status %d, want %d: %s", r.Request.Method, r.Request.URL, r.StatusCode, code, r.text)
	}
	return r
}

// problem checks that the answer is a problem with a code, whole and helpful.
func (r response) problem(code string) api.Problem {
	r.t.Helper()
	p := read[api.Problem](r)
	if p.Code != code || p.Status != r.StatusCode || status[code] != r.StatusCode {
		r.t.Fatalf("%s %s: status %d and code %q, want %q: %s", r.Request.Method, r.Request.URL, r.StatusCode, p.Code, code, r.text)
	}
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		r.t.Errorf("a problem has Content-Type %q", got)
	}
	if p.RequestID == "" || p.RequestID != r.Header.Get("X-Request-Id") || p.Title == "" || len(p.Detail) < 20 {
		r.t.Errorf("a problem that does not help: %s", r.text)
	}
	if retry := r.Header.Get("Retry-After") != ""; retry != retryable[code] {
		r.t.Errorf("code %s: Retry-After is %q", code, r.Header.Get("Retry-After"))
	}
	return p
}

// refused checks a 400 about one place.
func (r response) refused(location string) api.FieldProblem {
	r.t.Helper()
	p := read[api.Problem](r)
	r.problem(p.Code)
	if r.StatusCode != http.StatusBadRequest {
		r.t.Fatalf("status %d, want 400: %s", r.StatusCode, r.text)
	}
	for _, e := range p.Errors {
		if e.Location == location {
			return e
		}
	}
	r.t.Fatalf("no error about %s in %s", location, r.text)
	return api.FieldProblem{}
}

// read decodes an answer into a type, strictly.
func read[T any](r response) T {
	r.t.Helper()
	var v T
	dec := json.NewDecoder(strings.NewReader(r.text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		r.t.Fatalf("%s %s: %v in %s", r.Request.Method, r.Request.URL, err, r.text)
	}
	return v
}

// spec is a good job, with more fields put in front.
func spec(fields string) string {
	if fields != "" {
		fields += ","
	}
	return "{" + fields + `"schedule_expr":"0 6 * * 1-5","target":"https://example.com/hook"}`
}

// create makes a job and returns it.
func (b *bundle) create(fields string) api.Job {
	b.t.Helper()
	return read[api.Job](b.do("POST", "/v1/jobs", spec(fields)).want(http.StatusCreated))
}

// count is how many jobs there are.
func (b *bundle) count() int {
	b.t.Helper()
	return len(b.all("/v1/jobs?page_size=500"))
}

// all follows the pages of a list of jobs.
func (b *bundle) all(path string) []api.Job {
	b.t.Helper()
	var out []api.Job
	for path != "" {
		r := b.do("GET", path, "").want(http.StatusOK)
		out = append(out, read[[]api.Job](r)...)
		path = next(r)
	}
	return out
}

// next is the address of the next page; "" when there is none.
func next(r response) string {
	link, rel, ok := strings.Cut(r.Header.Get("Link"), ">; ")
	if !ok || rel != `rel="next"` {
		return ""
	}
	return strings.TrimPrefix(link, "<")
}
