package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

func TestTooManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Limits.InFlight = 1 })
	inside, leave := make(chan struct{}), make(chan struct{})
	b.owners.before = func(proto.Message) error {
		inside <- struct{}{}
		<-leave
		return nil
	}
	done := make(chan response)
	go func() { done <- b.do("POST", "/v1/jobs", spec("")) }()
	<-inside
	b.do("GET", "/v1/jobs", "").problem(api.CodeOverloaded)
	b.do("GET", "/healthz", "").want(200)
	b.do("GET", "/metrics", "").want(200)
	close(leave)
	(<-done).want(201)
	b.do("GET", "/v1/jobs", "").want(200)
}

func TestTooOften(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Limits.PerSecond, c.Limits.Burst = 0.001, 3 })
	ask := func(remote string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/v1/jobs", nil)
		r.RemoteAddr = remote
		w := httptest.NewRecorder()
		b.gw.Handler().ServeHTTP(w, r)
		return w
	}
	for i := range 5 {
		want := http.StatusOK
		if i >= 3 {
			want = http.StatusTooManyRequests
		}
		if w := ask(fmt.Sprintf("192.0.2.1:%d", 1000+i)); w.Code != want || w.Code == 429 && w.Header().Get("Retry-After") == "" {
			t.Errorf("request %d: %d %v", i, w.Code, w.Header())
		}
		if w := ask("127.0.0.1:1000"); w.Code != 200 {
			t.Errorf("loopback: %d", w.Code)
		}
	}
	if w := ask("192.0.2.2:1"); w.Code != 200 {
		t.Errorf("another client: %d", w.Code)
	}
	for i := range maxBuckets + 10 {
		b.gw.limits.buckets.take(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
	}
	if n := len(b.gw.limits.buckets.of); n > maxBuckets {
		t.Errorf("%d addresses are remembered", n)
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	ready, why := false, "3 of 16 partitions have no owner yet"
	b := setup(t, func(c *Config) { c.Ready = func() (bool, string) { return ready, why }; c.Version = "1.2.3" })
	if p := b.do("GET", "/readyz", "").problem(api.CodeNotReady); p.Detail != why {
		t.Errorf("reason %q", p.Detail)
	}
	ready = true
	b.do("GET", "/readyz", "").want(200)
	if r := b.do("GET", "/healthz", "").want(200); r.text != `{"status":"ok","version":"1.2.3"}` {
		t.Errorf("health %s", r.text)
	}
}

func TestUnhealthyStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("GET", "/readyz", "").want(200)
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	b.do("GET", "/readyz", "").problem(api.CodeNotReady)
	b.do("GET", "/v1/jobs", "").problem(api.CodeStoreAway)
	b.do("GET", "/v1/jobs/a", "").problem(api.CodeStoreAway)
	b.do("GET", "/healthz", "").want(200)
}

// A panic ends its request, is counted, and says nothing to the client.
func TestPanic(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.owners.before = func(proto.Message) error { panic("inner-detail") }
	p := b.do("POST", "/v1/jobs", spec(""), "X-Request-Id", "mine-1").problem(api.CodeInternal)
	if strings.Contains(p.Detail, "inner-detail") || p.RequestID != "mine-1" {
		t.Errorf("problem %+v", p)
	}
	if !strings.Contains(b.log.String(), "inner-detail") || !strings.Contains(b.log.String(), "mine-1") {
		t.Error("the panic is not logged under its request")
	}
	b.owners.before = nil
	if text := b.do("GET", "/metrics", "").text; !strings.Contains(text, "belfry_http_panics_total 1") {
		t.Error("the panic is not counted")
	}
	b.do("POST", "/v1/jobs", spec("")).want(201)
	if r := b.do("GET", "/healthz", "", "X-Request-Id", "a b\t"); r.Header.Get("X-Request-Id") == "a b" {
		t.Error("an odd request id is taken over")
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"canary-job"`)
	b.do("GET", "/v1/jobs/canary-job", "").want(200)
	b.do("GET", "/v1/jobs/none", "").want(404)
	b.raw("BREW /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	b.imports(importLineOf("a", "") + "\nx\n")
	text := b.do("GET", "/metrics", "").want(200).text
	for _, want := range []string{
		`belfry_http_requests_total{code="201",method="POST",route="/v1/jobs"} 1`,
		`belfry_http_requests_total{code="404",method="GET",route="/v1/jobs/{id}"} 1`,
		`belfry_http_requests_total{code="405",method="other",route="none"} 1`,
		`belfry_imported_jobs_total{result="created"} 1`, `belfry_imported_jobs_total{result="failed"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "canary-job") {
		t.Error("a metric has a label of a job")
	}
	families, err := b.gw.cfg.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "belfry_") {
			t.Errorf("%s has another prefix", f.GetName())
		}
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestConfigNamesTheField(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good := b.gw.cfg
	for want, spoil := range map[string]func(*Config){
		"Owners":     func(c *Config) { c.Owners = nil },
		"Store":      func(c *Config) { c.Store = nil },
		"partitions": func(c *Config) { c.Owners = oddOwners{} },
		"count":      func(c *Config) { c.Limits.Streams = -1 },
		"duration":   func(c *Config) { c.Limits.Ask = -1 },
	} {
		bad := good
		spoil(&bad)
		if _, err := New(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := New(good); err == nil {
		t.Error("metrics were registered twice without an error")
	}
}

type oddOwners struct{ Owners }

func (oddOwners) Partitions() int { return 17 }
