package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a node with a target that tells what it receives.
type bench struct {
	t      *testing.T
	cfg    Config
	node   *Node
	target *httptest.Server
	got    chan http.Header
	events chan *belfryv1.Event
	reply  func(http.ResponseWriter, *http.Request)
}

func setup(t *testing.T) *bench {
	b := &bench{t: t, got: make(chan http.Header, 1000), events: make(chan *belfryv1.Event, 10_000)}
	b.target = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		b.got <- r.Header.Clone()
		if b.reply != nil {
			b.reply(w, r)
		}
	}))
	t.Cleanup(b.target.Close)
	b.cfg = DefaultConfig()
	b.cfg.DataDir, b.cfg.Listen, b.cfg.Partitions = t.TempDir(), "127.0.0.1:0", 16
	b.cfg.AllowTargets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	b.cfg.DrainTimeout = 10 * time.Second
	b.cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	b.cfg.OnEvent = func(e *belfryv1.Event) { b.events <- e }
	return b
}

func (b *bench) start() {
	b.t.Helper()
	n, err := Start(context.Background(), b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.node = n
	for ok := false; !ok; ok, _ = n.Ready() {
		select {
		case err := <-n.Failed():
			b.t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
}

func (b *bench) stop() {
	b.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	if err := b.node.Stop(context.Background()); err != nil {
		b.t.Fatal(err)
	}
}

// call sends a request and decodes the answer.
func (b *bench) call(method, path string, body, into any, want int) {
	b.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	req, err := http.NewRequest(method, b.node.URL()+path, bytes.NewReader(raw))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != want {
		b.t.Fatalf("%s %s: %d, not %d: %s", method, path, resp.StatusCode, want, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			b.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
}

// ended waits for the end of an execution of a job.
func (b *bench) ended(jobID string) *belfryv1.Event {
	b.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case e := <-b.events:
			if e.GetJobId() == jobID && (e.GetType() == "execution.succeeded" || e.GetType() == "execution.failed") {
				return e
			}
		case <-deadline:
			b.t.Fatalf("no execution of %s ended", jobID)
		}
	}
}

type executionView struct {
	ExecutionID  string    `json:"execution_id"`
	ScheduledFor time.Time `json:"scheduled_for"`
	Status       string    `json:"status"`
	AttemptCount int       `json:"attempt_count"`
}

func TestJobIsRegisteredFiredAndRecorded(t *testing.T) {
	b := setup(t)
	b.start()
	var made struct {
		JobID string `json:"job_id"`
	}
	due := time.Now().Add(1500 * time.Millisecond).Truncate(time.Millisecond).UTC()
	b.call("POST", "/v1/jobs", map[string]any{"job_id": "hello", "schedule_expr": due.Format("2006-01-02T15:04:05.000Z07:00"), "target": b.target.URL}, &made, 201)

	e := b.ended("hello")
	if at := time.UnixMilli(e.GetScheduledFor()).UTC(); !at.Equal(due) {
		t.Errorf("fired for %s, not %s", at, due)
	}
	h := <-b.got
	if h.Get("Idempotency-Key") != e.GetExecutionId() || h.Get("Belfry-Attempt") != "1" {
		t.Errorf("headers: %v", h)
	}
	var list []executionView
	b.call("GET", "/v1/jobs/hello/executions", nil, &list, 200)
	if len(list) != 1 || list[0].Status != "succeeded" || list[0].AttemptCount != 1 || !list[0].ScheduledFor.Equal(due) {
		t.Errorf("executions: %+v", list)
	}
	b.stop()
}

// TestRestartGoesOn: what was registered is there after a restart, nothing fires
// twice, and a retry keeps its number.
func TestRestartGoesOn(t *testing.T) {
	b := setup(t)
	b.reply = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Belfry-Attempt") == "1" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	b.start()
	b.call("POST", "/v1/jobs", map[string]any{
		"job_id": "again", "schedule_expr": "0 0 1 1 *", "target": b.target.URL,
		"retry": map[string]any{"initial_backoff": "2s", "jitter": 0},
	}, nil, 201)
	var run struct {
		ExecutionID string `json:"execution_id"`
	}
	b.call("POST", "/v1/jobs/again/trigger", map[string]any{}, &run, 202)
	if h := <-b.got; h.Get("Belfry-Attempt") != "1" {
		t.Fatalf("first delivery: %v", h)
	}
	for e := range b.events {
		if e.GetType() == "execution.retrying" {
			break
		}
	}
	b.stop()
	b.start()
	e := b.ended("again")
	if e.GetExecutionId() != run.ExecutionID || e.GetAttempt() != 2 || e.GetType() != "execution.succeeded" {
		t.Errorf("ended as %v, for %s", e, run.ExecutionID)
	}
	if h := <-b.got; h.Get("Belfry-Attempt") != "2" || h.Get("Idempotency-Key") != run.ExecutionID {
		t.Errorf("second delivery: %v", h)
	}
	if n := len(b.got); n != 0 {
		t.Errorf("%d deliveries more", n)
	}
	b.stop()
}

// TestStopLetsCallsEnd: a call that runs when the node stops is recorded.
func TestStopLetsCallsEnd(t *testing.T) {
	b := setup(t)
	release := make(chan struct{})
	b.reply = func(http.ResponseWriter, *http.Request) { <-release }
	b.start()
	b.call("POST", "/v1/jobs", map[string]any{"job_id": "slow", "schedule_expr": "0 0 1 1 *", "target": b.target.URL}, nil, 201)
	b.call("POST", "/v1/jobs/slow/trigger", map[string]any{}, nil, 202)
	<-b.got
	stopped := make(chan struct{})
	go func() { defer close(stopped); b.stop() }()
	for {
		if ok, _ := b.node.Ready(); !ok {
			break
		}
	}
	close(release)
	if e := b.ended("slow"); e.GetType() != "execution.succeeded" {
		t.Errorf("ended as %v", e)
	}
	<-stopped
}

func TestConfigIsChecked(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"data-dir":   func(c *Config) { c.DataDir = "" },
		"partitions": func(c *Config) { c.Partitions = 100 },
		"slots":      func(c *Config) { c.Slots = 0 },
		"loopback":   func(c *Config) { c.Listen = "0.0.0.0:0" },
		"retention":  func(c *Config) { c.Retention = time.Second },
	} {
		cfg := DefaultConfig()
		cfg.DataDir = t.TempDir()
		edit(&cfg)
		if _, err := Start(context.Background(), cfg); err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestTwoNodesOneDirectory: the second is refused, and a changed constant too.
func TestTwoNodesOneDirectory(t *testing.T) {
	b := setup(t)
	b.start()
	if _, err := Start(context.Background(), b.cfg); err == nil {
		t.Error("a second node opened the same directory")
	}
	b.stop()
	other := b.cfg
	other.Partitions = 32
	if n, err := Start(context.Background(), other); err == nil {
		t.Error("a node with another partition count started", n.Stop(context.Background()))
	} else if !bytes.Contains([]byte(err.Error()), fmt.Append(nil, "partitions 16")) {
		t.Errorf("the refusal does not name the stored value: %v", err)
	}
}

// TestMetricsAreWellNamed: by Prometheus' own rules, under one prefix, and none
// has a label whose values grow with the jobs.
func TestMetricsAreWellNamed(t *testing.T) {
	b := setup(t)
	b.start()
	b.call("POST", "/v1/jobs", map[string]any{"job_id": "one", "schedule_expr": "0 0 1 1 *", "target": b.target.URL}, nil, 201)
	b.call("POST", "/v1/jobs/one/trigger", map[string]any{}, nil, 202)
	b.ended("one")
	problems, err := testutil.GatherAndLint(b.node.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := b.node.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, f := range families {
		have[f.GetName()] = true
		if name := f.GetName(); !strings.HasPrefix(name, "belfry_") && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s has another prefix", name)
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.Contains(l.GetName(), "job") || l.GetValue() == "one" {
					t.Errorf("%s has a label for a job: %s=%s", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
	for _, must := range []string{
		"belfry_schedule_delay_seconds", "belfry_executions_total", "belfry_attempts_total", "belfry_attempt_duration_seconds",
		"belfry_jobs", "belfry_partitions_owned", "belfry_overdue_jobs", "belfry_oldest_overdue_seconds",
		"belfry_fence_acquired_total", "belfry_fence_refused_total", "belfry_commit_rows", "belfry_commit_duration_seconds", "belfry_build_info",
	} {
		if !have[must] {
			t.Errorf("%s is not there", must)
		}
	}
	b.stop()
}
