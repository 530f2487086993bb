package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

func cutPath(path string) (base, query string, found bool) { return strings.Cut(path, "?") }

func names(jobs []api.Job) []string {
	var out []string
	for _, j := range jobs {
		out = append(out, j.JobID)
	}
	slices.Sort(out)
	return out
}

func TestFilters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	put := func(id, body string) { b.do("PUT", "/v1/jobs/"+id, body).want(http.StatusCreated) }
	put("bill-1", spec(`"labels":{"team":"billing","tier":"1"}`))
	put("bill-2", spec(`"labels":{"team":"billing","tier":"2"},"paused":true`))
	put("mail-1", `{"schedule_expr":"@hourly","target":"https://Mail.example.org/send?token=s3cr3t","labels":{"team":"mail"}}`)
	put("plain", `{"schedule_expr":"2026-03-01T12:30:00Z","target":"https://example.com/plain"}`)
	for query, want := range map[string]string{
		"":                                     "bill-1 bill-2 mail-1 plain",
		"label=team=billing":                   "bill-1 bill-2",
		"label=team=billing&label=tier=2":      "bill-2",
		"label=team=":                          "",
		"state=paused":                         "bill-2",
		"state=active":                         "bill-1 mail-1 plain",
		"state=error":                          "",
		"target=mail.example.org":              "mail-1",
		"target=/plain":                        "plain",
		"id_prefix=bill-":                      "bill-1 bill-2",
		"id_prefix=bill-&state=active":         "bill-1",
		"next_run_before=2026-03-01T12:30:01Z": "plain",
		"next_run_before=2026-03-01T14:30:01%2B01:00": "mail-1 plain",
	} {
		if got := strings.Join(names(b.all("/v1/jobs?"+query)), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if got := strings.Join(names(b.all("/v1/jobs?page_size=1&"+query)), " "); got != want {
			t.Errorf("%s, one a page: %s, want %s", query, got, want)
		}
	}
	for query, location := range map[string]string{
		"label=team": "query.label", "label==x": "query.label", "label=a=1&label=a=2": "query.label", "state=broken": "query.state", "state=deleted": "query.state",
		"next_run_before=tomorrow": "query.next_run_before", "next_run_before=2026-03-01T14:30:01+01:00": "query.next_run_before", "state=active&state=paused": "query.state",
		"id_prefix=" + strings.Repeat("x", 200): "query.id_prefix",
	} {
		b.do("GET", "/v1/jobs?"+query, "").refused(location)
	}
}

func TestATokenBelongsToItsFilter(t *testing.T) {
	t.Parallel()
	key := func(k string) func(*Config) { return func(c *Config) { c.TokenKey = []byte(k) } }
	b := setup(t, key("one"))
	for i := range 5 {
		b.create(fmt.Sprintf(`"job_id":"j%d","labels":{"a":"1"}`, i))
	}
	path := next(b.do("GET", "/v1/jobs?page_size=2&label=a=1", "").want(200))
	u, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	token := u.Query().Get("page_token")
	b.do("GET", "/v1/jobs?page_size=3&label=a=1&page_token="+token, "").want(200)
	b.do("GET", "/v1/jobs?page_size=2&page_token="+token, "").refused("query.page_token")
	b.do("GET", "/v1/jobs?page_size=2&label=a=2&page_token="+token, "").refused("query.page_token")
	other := setup(t, key("another"))
	other.do("GET", path, "").refused("query.page_token")
	same := setup(t, key("one"))
	same.do("GET", path, "").want(200)
}

// Rows that come and go do not move the others.
func TestPagingWhileJobsChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	want := map[string]int{}
	for i := range 40 {
		want[b.create(fmt.Sprintf(`"job_id":"stay-%d"`, i)).JobID] = 0
		b.create(fmt.Sprintf(`"job_id":"go-%d"`, i))
	}
	gone := 0
	for path := "/v1/jobs?page_size=7"; path != ""; {
		r := b.do("GET", path, "").want(200)
		for _, j := range read[[]api.Job](r) {
			if _, stays := want[j.JobID]; stays {
				want[j.JobID]++
			}
		}
		b.do("DELETE", fmt.Sprintf("/v1/jobs/go-%d", gone), "").want(204)
		b.create(fmt.Sprintf(`"job_id":"new-%d"`, gone))
		gone++
		path = next(r)
	}
	for id, n := range want {
		if n != 1 {
			t.Errorf("%s was seen %d times", id, n)
		}
	}
}

// A page reads a bounded number of rows: it may be empty, and more follows.
func TestAPageReadsABoundedNumberOfRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const jobs = maxRowsRead + 1200
	var body strings.Builder
	for i := range jobs {
		fmt.Fprintf(&body, `{"job_id":"j%d","schedule_expr":"@daily","target":"https://example.com"}`+"\n", i)
	}
	b.do("POST", "/v1/jobs:import", body.String(), "Content-Type", typeNDJSON).want(200)
	r := b.do("GET", "/v1/jobs?target=nowhere", "")
	if r.StatusCode != 200 {
		t.Fatal(b.log.String(), b.store.Healthy())
	}
	if r.text != "[]" || next(r) == "" {
		t.Errorf("after %d rows: %s, next %q", maxRowsRead, r.text, next(r))
	}
	r = b.do("GET", next(r), "").want(200)
	if r.text != "[]" || next(r) != "" {
		t.Errorf("the rest: %s, next %q", r.text, next(r))
	}
	if n := b.count(); n != jobs {
		t.Errorf("%d jobs are listed of %d", n, jobs)
	}
}

// A row that cannot be read is that job's trouble alone.
func TestARowThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"good"`)
	b.create(`"job_id":"bad"`)
	b.owners.mu.Lock()
	b.owners.write(t.Context(), job.PartitionOf("bad", testPartitions), &change{rows: []persistence.Row{{
		Slice: job.SliceOf("bad", testPartitions), JobID: "bad", Revision: 7, Status: job.Active, Labels: map[string]string{}, Spec: []byte{0xff}, State: []byte{0xff},
	}}})
	b.owners.mu.Unlock()
	if got := names(b.all("/v1/jobs?state=error")); !slices.Equal(got, []string{"bad"}) {
		t.Errorf("in error: %v", got)
	}
	if got := names(b.all("/v1/jobs")); !slices.Equal(got, []string{"bad", "good"}) {
		t.Errorf("all: %v", got)
	}
	if j := read[api.Job](b.do("GET", "/v1/jobs/bad", "").want(200)); j.Status != "error" || j.NotRunning == "" {
		t.Errorf("shown as %+v", j)
	}
	b.do("GET", "/v1/jobs/bad/executions", "").want(200)
	b.do("PATCH", "/v1/jobs/bad", `{"description":"x"}`).problem(api.CodeWrongState)
}

// A row of a newer format is not malformed: it keeps its state, and is left to
// those who can read it.
func TestARowOfANewerFormat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	state := new(belfryv1.JobState)
	messages.StampFormat(state, messages.Format+1)
	text, err := proto.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	b.owners.mu.Lock()
	b.owners.write(t.Context(), job.PartitionOf("newer", testPartitions), &change{rows: []persistence.Row{{
		Slice: job.SliceOf("newer", testPartitions), JobID: "newer", Revision: 7, Status: job.Paused, Labels: map[string]string{}, Spec: []byte{}, State: text,
	}}})
	b.owners.mu.Unlock()
	if j := read[api.Job](b.do("GET", "/v1/jobs/newer", "").want(200)); j.Status != "paused" || !strings.Contains(j.StatusReason, "newer version") {
		t.Errorf("shown as %+v", j)
	}
	if got := names(b.all("/v1/jobs?state=error")); len(got) > 0 {
		t.Errorf("in error: %v", got)
	}
	b.do("PATCH", "/v1/jobs/newer", `{"description":"x"}`).problem(api.CodeNotReady)
}

func TestWhyItDoesNotRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	why := func() string { return read[api.Job](b.do("GET", "/v1/jobs/a", "").want(200)).NotRunning }
	b.do("POST", "/v1/jobs/a/pause", `{"reason":"audit"}`).want(200)
	if got := why(); got != "it is paused: audit" {
		t.Errorf("paused: %q", got)
	}
	b.do("POST", "/v1/jobs/a/resume", "").want(200)
	b.owners.edit("a", func(j *belfryv1.Job) {
		j.State.BacklogSince = start.UnixMilli()
		j.State.InFlight = []*belfryv1.InFlight{{ScheduledFor: start.UnixMilli(), Attempt: 1}}
	})
	if got := why(); !strings.Contains(got, "max_outstanding") {
		t.Errorf("backlog: %q", got)
	}
	b.owners.edit("a", func(j *belfryv1.Job) { j.State.BacklogSince = 0 })
	b.owners.waiting = "the worker is full"
	if got := why(); got != "the worker is full" {
		t.Errorf("waiting: %q", got)
	}
	b.owners.edit("a", func(j *belfryv1.Job) { j.Status, j.NextRun = string(job.Finished), 0 })
	if got := why(); got != "nothing is due any more" {
		t.Errorf("finished: %q", got)
	}
}

// TestEmptyParameters: none is taken for one that is absent.
func TestEmptyParameters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := 0
	for _, rt := range b.gw.routes() {
		for _, p := range rt.params {
			if p.in != "query" {
				continue
			}
			path := strings.NewReplacer("{id}", "a", "{backfill}", "b").Replace(rt.path)
			for _, query := range []string{p.name + "=", p.name} {
				b.do(rt.method, path+"?"+query, "").refused("query." + p.name)
				n++
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d parameters were tried", n)
	}
}
