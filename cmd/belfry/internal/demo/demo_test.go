package demo

import (
	"encoding/json"
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

// shelf is a server that keeps jobs as they were put.
type shelf struct {
	jobs map[string]api.Job
	puts []string
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, "/v1/jobs/")
	if r.Method == http.MethodPut {
		s.puts = append(s.puts, id)
		body, _ := io.ReadAll(r.Body)
		j := api.Job{Status: "active"}
		_ = json.Unmarshal(body, &j)
		if at, err := time.Parse(time.RFC3339, j.ScheduleExpr); err == nil {
			j.NextRun = &at
		}
		s.jobs[id] = j
	}
	j, ok := s.jobs[id]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(api.Problem{Title: "absent", Code: api.CodeJobNotFound})
		return
	}
	_ = json.NewEncoder(w).Encode(j)
}

func TestStartingAgainLeavesAloneWhatIsRight(t *testing.T) {
	s := &shelf{jobs: map[string]api.Job{}}
	server := httptest.NewServer(s)
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, step := range []struct {
		name   string
		target string
		after  time.Duration
		change func()
		want   []string
	}{
		{"first start", "http://a", 0, nil, []string{"demo-heartbeat", "demo-failing", once, "demo-daily"}},
		{"at once again", "http://a", time.Second, nil, nil},
		{"its instant has come", "http://a", time.Minute, nil, []string{once}},
		{"it has run", "http://a", time.Minute, func() { j := s.jobs[once]; j.Status, j.NextRun = "finished", nil; s.jobs[once] = j }, []string{once}},
		{"one was deleted", "http://a", time.Minute, func() { delete(s.jobs, "demo-daily") }, []string{"demo-daily"}},
		{"the target moved", "http://b", time.Minute, nil, []string{"demo-heartbeat", "demo-failing", once, "demo-daily"}},
	} {
		s.puts = nil
		if step.change != nil {
			step.change()
		}
		if err := Register(t.Context(), c, step.target, now.Add(step.after)); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, s.puts); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
}
