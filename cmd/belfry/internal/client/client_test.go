package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server of one handler and a client for it.
func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{Server: server.URL, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func TestAServerThatAsksForTimeIsAskedAgainUnderTheSameKey(t *testing.T) {
	t.Parallel()
	var keys, bodies []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(body))
		if len(keys) < 3 {
			w.Header().Set("Retry-After", "0")
			answer(w, http.StatusServiceUnavailable, `{"title":"away","code":"owner_unavailable"}`)
			return
		}
		answer(w, http.StatusCreated, `{"job_id":"a"}`)
	})
	res, err := c.Create(t.Context(), []byte(`{"job_id":"a"}`), client.Change{})
	if err != nil || !res.Created || res.Value.JobID != "a" {
		t.Fatalf("Create = %+v, %v", res, err)
	}
	if len(keys) != 3 || keys[0] == "" || keys[1] != keys[0] || keys[2] != keys[0] || bodies[2] != bodies[0] || bodies[0] == "" {
		t.Errorf("keys = %q, bodies = %q", keys, bodies)
	}
}

func TestTwoChangesHaveTwoKeys(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys[r.Header.Get("Idempotency-Key")] = true
		answer(w, http.StatusAccepted, `{"execution_id":"x"}`)
	})
	for range 2 {
		if _, err := c.Trigger(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 2 {
		t.Errorf("keys = %v", keys)
	}
}

func TestPatienceHasAnEnd(t *testing.T) {
	t.Parallel()
	tries := 0
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		tries++
		w.Header().Set("Retry-After", "0")
		answer(w, http.StatusServiceUnavailable, `{"title":"away"}`)
	})
	_, err := c.Get(t.Context(), "a")
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Status != 503 || tries != 5 {
		t.Errorf("error = %v after %d tries", err, tries)
	}
}

func TestProblemsKeepTheirLocations(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusBadRequest, `{"title":"Bad Request","detail":"no","code":"invalid","errors":[{"location":"body.schedule_expr","message":"minute 60"}]}`)
	})
	_, err := c.Put(t.Context(), "a", []byte(`{}`), client.Change{})
	if err == nil || err.Error() != "no\nbody.schedule_expr: minute 60" {
		t.Errorf("error = %v", err)
	}
}

func TestAnAnswerFromSomethingElse(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusBadGateway, "<html>\nproxy") })
	_, err := c.Get(t.Context(), "a")
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Status != 502 || !strings.Contains(err.Error(), "502 Bad Gateway: <html>") {
		t.Errorf("error = %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Get(t.Context(), "a")
	var away *client.Unreachable
	if !errors.As(err, &away) || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "belfry dev") {
		t.Errorf("error = %v", err)
	}
}

func TestGivingUpIsNotTheServersFault(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := c.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

func TestIdsArePathSegments(t *testing.T) {
	t.Parallel()
	var path string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		answer(w, 200, `{}`)
	})
	if _, err := c.Get(t.Context(), "a b%?"); err != nil {
		t.Fatal(err)
	}
	if path != "/v1/jobs/a%20b%25%3F" {
		t.Errorf("path = %s", path)
	}
}

func TestServerURLs(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"localhost:8380", "ftp://x", "http://", "http://x?y=z", "::"} {
		if _, err := client.New(client.Config{Server: bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if c, err := client.New(client.Config{}); err != nil || c.Server() != client.DefaultServer {
		t.Errorf("default = %v, %v", c, err)
	}
}

func TestListsFollowTheirLinks(t *testing.T) {
	t.Parallel()
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, q.Encode())
		switch q.Get("page_token") {
		case "":
			w.Header().Set("Link", `</other>; rel="prev", </v1/jobs?label=a%3Db%2Cc&page_token=2>; rel="next"`)
			answer(w, 200, `[{"job_id":"1","newer":true},{"job_id":"2"}]`)
		case "2":
			w.Header().Set("Link", `<http://elsewhere/v1/jobs?page_token=3>; rel="next"`)
			answer(w, 200, `[]`)
		default:
			answer(w, 200, `[{"job_id":"3"}]`)
		}
	})
	var got []string
	for job, err := range c.Jobs(t.Context(), client.Filter{Labels: []string{"a=b,c"}}, 2) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(job.Raw))
	}
	if diff := cmp.Diff([]string{`{"job_id":"1","newer":true}`, `{"job_id":"2"}`, `{"job_id":"3"}`}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"label=a%3Db%2Cc&page_size=2", "label=a%3Db%2Cc&page_token=2", "page_token=3"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestAListIsReadOnlyAsFarAsWanted(t *testing.T) {
	t.Parallel()
	pages := 0
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		pages++
		w.Header().Set("Link", `</v1/jobs?page_token=x>; rel="next"`)
		answer(w, 200, `[{"job_id":"1"},{"job_id":"2"}]`)
	})
	for range c.Jobs(t.Context(), client.Filter{}, 0) {
		break
	}
	if pages != 1 {
		t.Errorf("%d pages were read", pages)
	}
}

func TestImportPassesOnEveryLine(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for i := range strings.Count(string(body), "\n") {
			_ = json.NewEncoder(w).Encode(api.ImportResult{Line: int64(i + 1), Result: api.ImportCreated})
		}
	})
	var lines []int64
	err := c.Import(t.Context(), []byte("{}\n{}\n"), func(r api.ImportResult) error { lines = append(lines, r.Line); return nil })
	if err != nil || !cmp.Equal(lines, []int64{1, 2}) {
		t.Errorf("lines = %v, %v", lines, err)
	}
}

func TestFollowContinuesWhereItWas(t *testing.T) {
	t.Parallel()
	var since []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		since = append(since, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		switch len(since) {
		case 1:
			fmt.Fprint(w, "retry: 2000\nid: 6\n\n: hello\n\nid: 7\nevent: execution.succeeded\ndata: {\"type\":\"execution.succeeded\",\ndata: \"job_id\":\"a\"}\n\nid: 8\ndata: {\"ty")
		case 2:
			fmt.Fprint(w, "event: reset\ndata: {}\n\n")
		default:
			fmt.Fprint(w, "id: 9\ndata: {\"job_id\":\"b\"}\n\n")
		}
	})
	stop := errors.New("enough")
	var jobs []string
	lost, retries := 0, 0
	err := c.Follow(t.Context(), "", client.Follower{
		Event: func(e client.Doc[api.Event]) error {
			if jobs = append(jobs, e.Value.JobID); len(jobs) == 2 {
				return stop
			}
			return nil
		},
		Lost:  func() { lost++ },
		Retry: func(error, time.Duration) { retries++ },
	})
	if !errors.Is(err, stop) || lost != 1 || retries != 2 {
		t.Errorf("Follow = %v, lost %d, retries %d", err, lost, retries)
	}
	if diff := cmp.Diff([]string{"", "7", "7"}, since); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, jobs); diff != "" {
		t.Error(diff)
	}
}

// An id leads to its own address, whatever is in it.
func TestAnIDIsOneSegment(t *testing.T) {
	t.Parallel()
	var paths []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.EscapedPath())
		answer(w, http.StatusBadRequest, `{"title":"no"}`)
	})
	for id, want := range map[string]string{"a/trigger": "a%2Ftrigger", "a?x=1#y": "a%3Fx=1%23y", "a%2Fb": "a%252Fb", "a b": "a%20b", "..": "..", "a~1~x": "a~1~x"} {
		paths = nil
		_, err := c.Get(t.Context(), id)
		if diff := cmp.Diff([]string{"/v1/jobs/" + want}, paths); err == nil || diff != "" {
			t.Errorf("%q: %v, %s", id, err, diff)
		}
	}
}
