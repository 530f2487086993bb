package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// bury stores a dead letter of a job.
func (b *bundle) bury(jobID string, n int, edit func(*belfryv1.DeadLetter)) string {
	b.t.Helper()
	at := start.Add(-time.Duration(n) * time.Hour)
	d := &belfryv1.DeadLetter{
		ExecutionId: job.ScheduledID(jobID, 1, at), JobId: jobID, Generation: 1, Revision: 2, ScheduledFor: at.UnixMilli(), Due: at.UnixMilli(),
		FailedAt: at.UnixMilli() + 1000, FirstSent: at.UnixMilli(), Attempts: 5, Reason: "attempts exhausted", LastError: "HTTP 500",
		Spec: messages.Spec(job.Spec{Labels: map[string]string{"team": jobID}, Schedule: job.Timing{Expr: "@daily"}, Target: job.Target{HTTP: &job.HTTPTarget{
			URL: "https://example.com/hook?token=secret", Headers: map[string]string{"Authorization": "Bearer secret"},
		}}}.Normalize()),
	}
	if edit != nil {
		edit(d)
	}
	spec, err := proto.Marshal(d.GetSpec())
	if err != nil {
		b.t.Fatal(err)
	}
	d.Spec = nil
	state, err := proto.Marshal(d)
	if err != nil {
		b.t.Fatal(err)
	}
	b.owners.mu.Lock()
	defer b.owners.mu.Unlock()
	b.owners.write(b.t.Context(), job.PartitionOf(jobID, testPartitions), &change{rows: []persistence.Row{{
		Slice: job.DeadSliceOffset + job.SliceOf(jobID, testPartitions), JobID: jobID, Item: persistence.DeadItem(d.GetExecutionId()), Status: job.Status(job.Failed), Labels: map[string]string{}, Spec: spec, State: state,
	}}})
	return d.GetExecutionId()
}

// C93: dead letters are listed in pages, each once, and can be filtered.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 25 {
		b.bury(fmt.Sprintf("j%d", i%5), i, func(d *belfryv1.DeadLetter) {
			if i%5 == 0 {
				d.UnknownAttempts, d.Reason = 2, "expired"
			}
		})
	}
	list := func(query string) (got []api.DeadLetter) {
		for path := "/v1/dead-letters" + query; path != ""; {
			r := b.do("GET", path, "").want(200)
			got = append(got, read[[]api.DeadLetter](r)...)
			path = next(r)
		}
		return got
	}
	for query, want := range map[string]int{
		"": 25, "?page_size=7": 25, "?job_id=j3": 5, "?job_id=j3&page_size=2": 5, "?job_id=none": 0, "?label=team%3Dj1": 5, "?reason=expired": 5, "?reason=500": 25,
		"?attempts=unknown": 5, "?attempts=answered&page_size=3": 20, "?since=" + start.Add(-3*time.Hour).Format(time.RFC3339): 4, "?until=" + start.Add(-20*time.Hour).Format(time.RFC3339): 4,
	} {
		got, seen := list(query), map[string]bool{}
		for _, d := range got {
			seen[d.ExecutionID] = true
		}
		if len(got) != want || len(seen) != want {
			t.Errorf("%s: %d dead letters, %d of them different, want %d", query, len(got), len(seen), want)
		}
	}
	d := list("?job_id=j0&page_size=1")[0]
	if d.Advice != "2 attempts unknown" || d.Key != d.ExecutionID || strings.Contains(fmt.Sprint(*d.Target.HTTP), "secret") {
		t.Errorf("%+v %+v", d, d.Target.HTTP)
	}
	b.do("GET", "/v1/dead-letters?attempts=some", "").refused("query.attempts")
	b.do("GET", "/v1/dead-letters?since=yesterday", "").refused("query.since")
	b.do("GET", "/v1/dead-letters?job_id=a%2Fb", "").refused("query.job_id")
}

func TestRetryDeadLetters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"j0"`)
	var ids []string
	for i := range 3 {
		ids = append(ids, b.bury("j0", i, nil))
	}
	if r := read[api.Replayed](b.do("POST", "/v1/executions/"+ids[0]+"/retry", "").want(202)); r.ReplayOf != ids[0] || r.ExecutionID == "" || r.JobID != "j0" {
		t.Errorf("%+v", r)
	}
	b.do("POST", "/v1/executions/"+ids[0]+"/retry", `{"new_key":true,"same_key":true}`).refused("body.new_key")
	b.do("POST", "/v1/executions/nonsense/retry", "").refused("path.id")
	b.do("POST", "/v1/dead-letters:retry", `{}`).refused("body.filter")
	b.do("POST", "/v1/dead-letters:retry", `{"all":true,"filter":{"job_id":"j0"}}`).refused("body.all")
	would := results[api.DeadRetryResult](b.do("POST", "/v1/dead-letters:retry", `{"filter":{"job_id":"j0"},"dry_run":true}`).want(200))
	if len(would) != 3 || would[0].Result != api.BulkWould {
		t.Errorf("dry run: %+v", would)
	}
	b.owners.refuse = func(cmd *belfryv1.Command) *belfryv1.Refusal {
		if cmd.GetReplay().GetExecutionId() == ids[1] {
			return &belfryv1.Refusal{Code: belfryv1.Refusal_CODE_STATE, Message: "it is being replayed"}
		}
		return nil
	}
	done, failed := 0, 0
	for _, r := range results[api.DeadRetryResult](b.do("POST", "/v1/dead-letters:retry", `{"all":true}`).want(200)) {
		switch {
		case r.Result == api.BulkDone && r.Replay != "":
			done++
		case r.Result == api.BulkFailed && r.ExecutionID == ids[1] && r.Error.Code == api.CodeWrongState:
			failed++
		}
	}
	if done != 2 || failed != 1 {
		t.Errorf("%d done, %d failed", done, failed)
	}
	b.do("DELETE", "/v1/dead-letters/"+ids[2], "").want(204)
}

// A stored secret is not sent to another host because somebody edits the URL.
func TestSecretsStayWithTheirHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const target = `"target":{"http":{"url":"https://example.com/a?token=s1","headers":{"Authorization":"Bearer s2"}}}`
	b.do("POST", "/v1/jobs", `{"job_id":"a","schedule_expr":"@daily",`+target+`}`).want(201)
	for _, url := range []string{"https://evil.example/a", "http://example.com/a", "https://example.com:8443/a"} {
		b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"@daily","target":{"http":{"url":"`+url+`","headers":{"Authorization":"***"}}}}`).refused("body.target.http.url")
		b.do("PATCH", "/v1/jobs/a", `{"target":{"http":{"url":"`+url+`"}}}`).refused("body.target.http.url")
	}
	b.do("PATCH", "/v1/jobs/a", `{"target":{"http":{"url":"https://EXAMPLE.com/b"}}}`).want(200)
	b.do("PATCH", "/v1/jobs/a", `{"target":{"http":{"url":"https://other.example/b","headers":{"Authorization":"Bearer s3"}}}}`).want(200)
	b.do("PATCH", "/v1/jobs/a", `{"target":{"http":{"url":"https://third.example/b","headers":{"Authorization":null}}}}`).want(200)
}
