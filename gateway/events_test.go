package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// stream is an open event stream.
type stream struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Scanner
	last string // id of the newest event
}

// watch opens a stream and waits until it has begun.
func (b *bundle) watch(t *testing.T, query, lastID string) *stream {
	t.Helper()
	req, err := http.NewRequest("GET", b.srv.URL+"/v1/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := b.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, type %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return &stream{t: t, resp: resp, in: bufio.NewScanner(resp.Body)}
}

// next reads one block; name is its event, "" when it has none.
func (s *stream) next() (name, data string) {
	s.t.Helper()
	for s.in.Scan() {
		switch line := s.in.Text(); {
		case line == "":
			return name, data
		case strings.HasPrefix(line, "id: "):
			s.last = line[len("id: "):]
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		}
	}
	return "end", ""
}

// want reads one event and checks its type and job.
func (s *stream) want(kind, jobID string) api.Event {
	s.t.Helper()
	name, data := s.next()
	var e api.Event
	if err := json.Unmarshal([]byte(data), &e); name != kind || err != nil || e.Type != kind || e.JobID != jobID {
		s.t.Fatalf("event %q %s, want %s of %s", name, data, kind, jobID)
	}
	return e
}

func event(kind, jobID string) *belfryv1.Event {
	return &belfryv1.Event{Type: kind, JobId: jobID, At: start.UnixMilli(), LatenessMs: 3}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gw.Publish(event("job.created", "before"))
	all, one, kinds := b.watch(t, "", ""), b.watch(t, "?job_id=b", ""), b.watch(t, "?type=execution.", "")
	for _, s := range []*stream{all, one, kinds} {
		if name, _ := s.next(); name != "" || s.last == "" {
			t.Errorf("the stream begins with %q and place %q", name, s.last)
		}
	}
	b.gw.Publish(event("job.created", "a"))
	b.gw.Publish(event("execution.succeeded", "b"))
	all.want("job.created", "a")
	if e := all.want("execution.succeeded", "b"); e.LatenessMS != 3 || !e.At.Equal(start) {
		t.Errorf("event %+v", e)
	}
	one.want("execution.succeeded", "b")
	kinds.want("execution.succeeded", "b")
	b.do("GET", "/v1/events?job_id=a%2Fb", "").refused("query.job_id")
}

// A stream goes on exactly after the last event that was handled.
func TestEventsResume(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Limits.EventRing = 10 })
	s := b.watch(t, "", "")
	s.next()
	begin := s.last
	for i := range 8 {
		b.gw.Publish(event("job.updated", fmt.Sprintf("j%d", i)))
	}
	for i := range 3 {
		s.want("job.updated", fmt.Sprintf("j%d", i))
	}
	for _, from := range []struct {
		id    string
		first int
	}{{s.last, 3}, {begin, 0}} {
		again := b.watch(t, "", from.id)
		if name, _ := again.next(); name != "" {
			t.Fatalf("a known place begins with %q", name)
		}
		for i := from.first; i < 8; i++ {
			again.want("job.updated", fmt.Sprintf("j%d", i))
		}
	}
	for i := range 5 {
		b.gw.Publish(event("job.updated", fmt.Sprintf("k%d", i)))
	}
	for _, unknown := range []string{begin, "ffffffff-3", b.gw.ring.id(99), b.gw.ring.id(0), "x", b.gw.ring.tag + "-007", "-"} {
		again := b.watch(t, "", unknown)
		if name, data := again.next(); name != "reset" || data == "" {
			t.Errorf("place %q begins with %q %s", unknown, name, data)
		}
		b.gw.Publish(event("job.updated", "new"))
		again.want("job.updated", "new")
	}
}

// A client that falls out of the ring is dropped; it comes back with a place
// that is gone, and is told so.
func TestASlowClientIsDropped(t *testing.T) {
	t.Parallel()
	r := newRing(4, "tag")
	for range 6 {
		r.publish(event("job.updated", "a"))
	}
	if got, _, lost, _ := r.read(1, nil, 10); !lost || len(got) != 0 {
		t.Errorf("place 1 of 3 to 6: %d events, lost %v", len(got), lost)
	}
	if got, _, lost, _ := r.read(3, nil, 2); lost || len(got) != 2 {
		t.Errorf("place 3: %d events, lost %v", len(got), lost)
	}
	if _, ok := r.after("tag-1"); ok {
		t.Error("what follows event 1 is not known any more")
	}
	if at, ok := r.after("tag-2"); !ok || at != 3 {
		t.Errorf("after event 2: %d, %v", at, ok)
	}
	b := setup(t, func(c *Config) { c.Limits.EventRing = 4 })
	w := &stalled{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), goOn: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.gw.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/events", nil))
	}()
	<-w.begun
	for range 10 {
		b.gw.Publish(event("job.updated", "a"))
	}
	close(w.goOn)
	<-ended
	b.dropped()
}

// stalled is a client whose first write hangs until it is let go on.
type stalled struct {
	*httptest.ResponseRecorder
	begun, goOn chan struct{}
	once        sync.Once
}

func (s *stalled) Write(p []byte) (int, error) {
	s.once.Do(func() {
		close(s.begun)
		<-s.goOn
	})
	return s.ResponseRecorder.Write(p)
}

// dropped checks that one stream has been counted as dropped.
func (b *bundle) dropped() {
	b.t.Helper()
	if text := b.do("GET", "/metrics", "").text; !strings.Contains(text, "belfry_event_streams_dropped_total 1") {
		b.t.Errorf("the stream is not counted as dropped:\n%s", text)
	}
}

// A client that stops reading is cut off when a write to it takes too long.
func TestAClientThatStopsReading(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Limits.Write = 50 * time.Millisecond; c.Limits.EventRing = 4 })
	b.watch(t, "", "").next()
	huge := event("job.updated", "a")
	huge.Reason = strings.Repeat("x", 16<<20) // more than any socket holds
	b.gw.Publish(huge)
	b.gw.Publish(huge)
	b.gw.Close()
	for testutil.ToFloat64(b.gw.metrics.streams) > 0 {
		runtime.Gosched()
	}
	b.dropped()
}

func TestStreamsAreCapped(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Limits.Streams = 2 })
	one := b.watch(t, "", "")
	one.next()
	b.watch(t, "", "").next()
	b.do("GET", "/v1/events", "").problem(api.CodeOverloaded)
	b.do("POST", "/v1/jobs:import", "\n", "Content-Type", typeNDJSON).want(200)
	b.do("GET", "/v1/jobs", "").want(200)
}

func TestHeartbeatAndEnd(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Limits.Heartbeat = 10 * time.Millisecond })
	s := b.watch(t, "", "")
	s.next()
	for range 3 {
		if name, _ := s.next(); name != "" {
			t.Fatalf("a silent stream says %q", name)
		}
	}
	b.gw.Publish(event("job.deleted", "a"))
	b.gw.Close()
	for {
		if name, _ := s.next(); name == "end" {
			break
		}
	}
}
