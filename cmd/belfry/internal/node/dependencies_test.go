package node

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// follow registers a job that follows others, or that is triggered by hand.
func (b *bench) follow(id string, want int, upstreams ...string) (problem string) {
	b.t.Helper()
	var out struct {
		Errors []struct {
			Location string `json:"location"`
			Message  string `json:"message"`
		} `json:"errors"`
		Detail string `json:"detail"`
	}
	b.call("PUT", "/v1/jobs/"+id, b.followJob(id, upstreams...), &out, want)
	if len(out.Errors) > 0 {
		return out.Errors[0].Location + ": " + out.Errors[0].Message
	}
	return out.Detail
}

func (b *bench) followJob(id string, upstreams ...string) map[string]any {
	id, _, _ = strings.Cut(id, "?")
	j := map[string]any{"job_id": id, "target": b.target.URL + "/" + id, "retry": map[string]any{"max_attempts": 1}}
	if len(upstreams) == 0 {
		j["schedule_expr"] = "0 0 1 1 *"
	} else {
		j["depends_on"] = upstreams
	}
	return j
}

// followed waits until just these jobs follow one: a job hears that it has lost a
// dependent after whoever ended that was answered.
func (b *bench) followed(id string, by ...string) {
	b.t.Helper()
	tick, deadline := time.NewTicker(10*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for {
		var j struct{ Dependents []string }
		b.call("GET", "/v1/jobs/"+id, nil, &j, http.StatusOK)
		if slices.Equal(j.Dependents, by) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("%s is followed by %v, and not by %v", id, j.Dependents, by)
		}
	}
}

// runs waits until a job has so many decided executions, and tells how they
// ended, newest first.
func (b *bench) runs(id string, n int) []string {
	b.t.Helper()
	return b.runsUntil(id, func(ended []string) bool { return len(ended) >= n })
}

// runsUntil waits for a history of a job as runs shows it.
func (b *bench) runsUntil(id string, good func(ended []string) bool) []string {
	b.t.Helper()
	tick, deadline := time.NewTicker(10*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for {
		var list []struct {
			Status, Reason, Trigger string
		}
		b.call("GET", "/v1/jobs/"+id+"/executions", nil, &list, http.StatusOK)
		var out []string
		for _, e := range list {
			if e.Status == "succeeded" || e.Status == "failed" || e.Status == "skipped" {
				out = append(out, strings.TrimSuffix(e.Status+": "+e.Reason, ": "))
			}
		}
		if good(out) {
			return out
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("%s does not come to it: %+v", id, list)
		}
	}
}

// TestADiamond: extract, two transforms, load. A run reaches each once and in
// order; one that fails is skipped below; a manual run counts as any other.
func TestADiamond(t *testing.T) {
	b := setup(t)
	var mu sync.Mutex
	var order []string
	fail := ""
	b.reply = func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, r.URL.Path[1:])
		if r.URL.Path[1:] == fail {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	b.start()
	defer b.stop()
	b.follow("extract", 201)
	b.follow("clean", 201, "extract")
	b.follow("join", 201, "extract")
	b.follow("load", 201, "clean", "join")
	b.call("POST", "/v1/jobs/extract/trigger", nil, nil, http.StatusAccepted)
	if got := b.runs("load", 1); !slices.Equal(got, []string{"succeeded"}) {
		t.Fatalf("load: %v", got)
	}
	mu.Lock()
	if len(order) != 4 || order[0] != "extract" || order[3] != "load" {
		t.Errorf("called were %v", order)
	}
	fail = "clean"
	mu.Unlock()
	b.call("POST", "/v1/jobs/extract/trigger", nil, nil, http.StatusAccepted)
	if got := b.runs("load", 2); got[0] != "skipped: upstream clean" {
		t.Errorf("load: %v", got)
	}
	if got := b.runs("join", 2); got[0] != "succeeded" {
		t.Errorf("join: %v", got)
	}
	var load struct {
		DependsOn   []string `json:"depends_on"`
		Dependents  []string `json:"dependents"`
		NotRunning  string   `json:"not_running"`
		Description string   `json:"schedule_description"`
	}
	b.call("GET", "/v1/jobs/load", nil, &load, http.StatusOK)
	if !slices.Equal(load.DependsOn, []string{"clean", "join"}) || load.NotRunning != "waiting for the success of clean, join" || load.Description != "After the success of clean, join." {
		t.Errorf("load is shown as %+v", load)
	}
	b.call("GET", "/v1/jobs/extract", nil, &load, http.StatusOK)
	if !slices.Equal(load.Dependents, []string{"clean", "join"}) {
		t.Errorf("extract has the dependents %v", load.Dependents)
	}
	if got, want := b.text("/v1/jobs/clean/graph?format=mermaid"), "j0 --> j2"; !strings.Contains(got, want) || !strings.HasPrefix(got, "graph LR\n") {
		t.Errorf("the graph is %s", got)
	}
}

// TestReplayOfAStep: the replay of a dead letter in the middle runs it and what
// waits for it, once, and not what it follows (C151, C152).
func TestReplayOfAStep(t *testing.T) {
	b := setup(t)
	var mu sync.Mutex
	called := map[string]int{}
	b.reply = func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := r.URL.Path[1:]
		if called[id]++; id == "clean" && called[id] == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	b.start()
	defer b.stop()
	b.follow("extract", 201)
	b.follow("clean", 201, "extract")
	b.follow("load", 201, "clean")
	b.follow("report", 201, "load")
	b.call("POST", "/v1/jobs/extract/trigger", nil, nil, http.StatusAccepted)
	if got := b.runs("report", 1); got[0] != "skipped: upstream clean" {
		t.Fatalf("report: %v", got)
	}
	var dead []struct {
		ExecutionID string `json:"execution_id"`
		JobID       string `json:"job_id"`
	}
	b.call("GET", "/v1/dead-letters", nil, &dead, http.StatusOK)
	if len(dead) != 1 || dead[0].JobID != "clean" {
		t.Fatalf("dead letters: %+v", dead)
	}
	replay := "/v1/executions/" + dead[0].ExecutionID + "/retry"
	b.call("POST", replay, nil, nil, http.StatusAccepted)
	b.runsUntil("report", func(ended []string) bool { return slices.Equal(ended, []string{"succeeded"}) })
	b.call("POST", replay, nil, nil, http.StatusNotFound)
	b.call("GET", "/v1/dead-letters", nil, &dead, http.StatusOK)
	mu.Lock()
	defer mu.Unlock()
	if want := map[string]int{"extract": 1, "clean": 2, "load": 1, "report": 1}; !maps.Equal(called, want) || len(dead) != 0 {
		t.Errorf("called were %v, want %v; dead letters %+v", called, want, dead)
	}
}

// TestValidatedDependencies: what is only validated is told of a cycle, of a chain
// that is too long, whatever it is made longer by, and of a job that is not there.
func TestValidatedDependencies(t *testing.T) {
	b := setup(t)
	b.start()
	defer b.stop()
	b.follow("a", 201)
	b.follow("b", 201, "a")
	b.follow("c", 201, "b")
	if got, want := b.follow("a?validate_only=true", 400, "c"), "body.depends_on: it would close a cycle: a → b → c → a: leave one of its steps out"; got != want {
		t.Errorf("a cycle: %s", got)
	}
	var out struct{ Warnings []string }
	b.call("PUT", "/v1/jobs/c?validate_only=true", b.followJob("c", "a", "absent"), &out, http.StatusOK)
	if len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], `there is no job "absent" to depend on`) {
		t.Errorf("warnings %q", out.Warnings)
	}
	b.call("POST", "/v1/jobs?validate_only=true", map[string]any{"depends_on": []string{"a"}, "target": b.target.URL}, &out, http.StatusOK)

	b.follow("j1", 201)
	for i := 2; i <= job.MaxChain; i++ {
		b.follow(fmt.Sprint("j", i), 201, fmt.Sprint("j", i-1))
	}
	last := fmt.Sprint("j", job.MaxChain)
	const long = "body.depends_on: it would be part of a chain of 101 jobs, and at most 100 may follow one another: do several steps in one job"
	for _, id := range []string{"new?validate_only=true", "new"} {
		if got := b.follow(id, 400, last); got != long {
			t.Errorf("%s after the last of a chain: %s", id, got)
		}
	}
	if got, want := b.follow("j1?validate_only=true", 400, "c"), strings.Replace(long, "101", "103", 1); got != want {
		t.Errorf("a chain after another: %s", got)
	}
	var nameless struct{ Detail string }
	b.call("POST", "/v1/jobs?validate_only=true", map[string]any{"depends_on": []string{last}, "target": b.target.URL}, &nameless, http.StatusBadRequest)
	if nameless.Detail != long {
		t.Errorf("a job without an id after the last of a chain: %s", nameless.Detail)
	}
}

func (b *bench) text(path string) string {
	b.t.Helper()
	resp, err := http.Get(b.node.URL() + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

// TestDependenciesRefused: every way to ask for what cannot be, and nothing of it
// is stored.
func TestDependenciesRefused(t *testing.T) {
	b := setup(t)
	b.start()
	defer b.stop()
	b.follow("a", 201)
	b.follow("b", 201, "a")
	b.follow("c", 201, "b")
	for _, x := range []struct{ id, ups, want string }{
		{"a", "c", "body.depends_on: it would close a cycle: a → b → c → a: leave one of its steps out"},
		{"a", "a", "body.depends_on: it would close a cycle: a → a: a job cannot follow itself"},
		{"d", "none", `body.depends_on: there is no job "none" to depend on: create it first`},
		{"d", "a,a", `body.depends_on: "a" is named twice: name each job once`},
		{"d", "a b", ""},
	} {
		if got := b.follow(x.id, 400, strings.Split(x.ups, ",")...); x.want != "" && got != x.want {
			t.Errorf("%s after %s: %s\nwant %s", x.id, x.ups, got, x.want)
		}
	}
	b.call("GET", "/v1/jobs/d", nil, nil, http.StatusNotFound)
	b.call("PATCH", "/v1/jobs/a", map[string]any{"depends_on": []string{"b"}}, nil, 400)
	b.follow("b", 200, "a") // identical: it changes nothing
	if got := b.follow("d", 201, "b"); got != "" {
		t.Error(got)
	}
	b.call("PATCH", "/v1/jobs/d", map[string]any{"depends_on": []string{"a", "c"}}, nil, 200)
	b.followed("b", "c")
	var conflict struct{ Detail string }
	b.call("DELETE", "/v1/jobs/b", nil, &conflict, http.StatusConflict)
	if !strings.Contains(conflict.Detail, "other jobs depend on it: c:") {
		t.Errorf("deleting b: %s", conflict.Detail)
	}
	b.call("DELETE", "/v1/jobs/b?cascade=true", nil, nil, http.StatusNoContent)
	for _, id := range []string{"b", "c", "d"} {
		b.call("GET", "/v1/jobs/"+id, nil, nil, http.StatusNotFound)
	}
	b.followed("a")
	b.call("DELETE", "/v1/jobs/a", nil, nil, http.StatusNoContent)
	b.follow("a", 201)
	b.follow("b", 201, "a")
}

// TestChainOfFifty: it runs from end to end, and goes on after a restart.
func TestChainOfFifty(t *testing.T) {
	b := setup(t)
	b.start()
	b.follow("j0", 201)
	var lines strings.Builder
	for i := 1; i < 50; i++ {
		fmt.Fprintf(&lines, `{"job_id":"j%d","target":"%s/","depends_on":["j%d"]}`+"\n", i, b.target.URL, i-1)
	}
	resp, err := http.Post(b.node.URL()+"/v1/jobs:import", "application/x-ndjson", strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if n := strings.Count(string(text), `"created"`); n != 49 {
		t.Fatalf("%d jobs were created: %s", n, text)
	}
	b.call("POST", "/v1/jobs/j0/trigger", nil, nil, http.StatusAccepted)
	if got := b.runs("j49", 1); got[0] != "succeeded" {
		t.Errorf("j49: %v", got)
	}
	b.stop()
	b.start()
	defer b.stop()
	b.call("POST", "/v1/jobs/j0/trigger", nil, nil, http.StatusAccepted)
	if got := b.runs("j49", 2); got[0] != "succeeded" {
		t.Errorf("j49: %v", got)
	}
}

// TestACycleInARace: of two patches at once, each good alone, at most one wins.
func TestACycleInARace(t *testing.T) {
	b := setup(t)
	b.start()
	defer b.stop()
	for i := range 5 {
		x, y := fmt.Sprint("x", i), fmt.Sprint("y", i)
		b.follow(x, 201)
		b.follow(y, 201)
		var both sync.WaitGroup
		codes := make([]int, 2)
		for k, ids := range [][2]string{{x, y}, {y, x}} {
			both.Go(func() {
				req, _ := http.NewRequest("PATCH", b.node.URL()+"/v1/jobs/"+ids[0], strings.NewReader(`{"depends_on":["`+ids[1]+`"]}`))
				req.Header.Set("Content-Type", "application/merge-patch+json")
				if resp, err := http.DefaultClient.Do(req); err == nil {
					codes[k] = resp.StatusCode
					resp.Body.Close()
				}
			})
		}
		both.Wait()
		if slices.Sort(codes); !slices.Equal(codes, []int{200, 400}) && !slices.Equal(codes, []int{400, 400}) {
			t.Errorf("the patches were answered %v", codes)
		}
	}
}
