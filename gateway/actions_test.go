package gateway

import (
	"strings"
	"testing"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	j := read[api.Job](b.do("POST", "/v1/jobs/a/pause", `{"reason":"audit"}`).want(200))
	if !j.Paused || j.Status != "paused" || j.StatusReason != "audit" || j.NextRun != nil || j.StatusSince == nil {
		t.Errorf("paused: %+v", j)
	}
	j = read[api.Job](b.do("POST", "/v1/jobs/a/resume", `{"catch_up":true}`).want(200))
	if j.Paused || j.Status != "active" || j.NextRun == nil {
		t.Errorf("resumed: %+v", j)
	}
	for _, path := range []string{"/v1/jobs/a/pause", "/v1/jobs/a/resume"} {
		b.do("POST", path, "").want(200)
		b.do("POST", path, `{}`).want(200)
		b.do("POST", path, `{"reason":"`+strings.Repeat("x", 501)+`"}`).refused("body.reason")
		b.do("POST", path, `{"reason":"a\u0000b"}`).refused("body.reason")
		b.do("POST", path, `{"why":"x"}`).refused("body.why")
		b.do("POST", path, `{}`, "Content-Type", "text/plain").problem(api.CodeMediaType)
	}
	b.do("POST", "/v1/jobs/none/pause", "").problem(api.CodeJobNotFound)
}

// C135: a trigger names an execution that can be followed.
func TestTrigger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	r := b.do("POST", "/v1/jobs/a/trigger", "").want(202)
	tr := read[api.Triggered](r)
	if tr.JobID != "a" || !tr.ScheduledFor.Equal(start) || r.Header.Get("Location") != "/v1/executions/"+tr.ExecutionID {
		t.Errorf("%s, Location %s", r.text, r.Header.Get("Location"))
	}
	d := read[api.ExecutionDetail](b.do("GET", r.Header.Get("Location"), "").want(200))
	if d.ExecutionID != tr.ExecutionID || d.Status != "pending" || d.Trigger != "manual" {
		t.Errorf("followed: %+v", d)
	}
	b.do("POST", "/v1/jobs/a/trigger", `{}`).want(202)
	b.do("POST", "/v1/jobs/a/trigger", `{"payload":1}`).refused("body.payload")
	b.do("POST", "/v1/jobs/none/trigger", "").problem(api.CodeJobNotFound)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	run := func() string {
		return read[api.Triggered](b.do("POST", "/v1/jobs/a/trigger", "").want(202)).ExecutionID
	}
	waits := run()
	if e := read[api.Cancelled](b.do("POST", "/v1/executions/"+waits+"/cancel", "").want(200)); e.ExecutionID != waits || e.JobID != "a" || e.Status != "cancelled" {
		t.Errorf("one that waits: %+v", e)
	}
	runs := run()
	b.owners.running = []*belfryv1.Description_Running{{ExecutionId: runs, Attempt: 1}}
	if e := read[api.Cancelled](b.do("POST", "/v1/executions/"+runs+"/cancel", `{"reason":"wrong data"}`).want(202)); e.Status != "running" {
		t.Errorf("one that runs: %+v", e)
	}
	if d := read[api.ExecutionDetail](b.do("GET", "/v1/executions/"+runs, "").want(200)); d.Status != "running" || d.Reason != "is being cancelled: wrong data" {
		t.Errorf("while it is cancelled: %+v", d)
	}
	over := b.succeed(1, start)[0]
	if p := b.do("POST", "/v1/executions/"+over+"/cancel", "").problem(api.CodeWrongState); !strings.Contains(p.Detail, "succeeded") {
		t.Errorf("one that has ended: %s", p.Detail)
	}
	b.do("POST", "/v1/executions/"+waits[:len(waits)-2]+"9Z/cancel", "").problem(api.CodeNoExecution)
	b.do("POST", "/v1/executions/nonsense/cancel", "").refused("path.id")
	b.do("POST", "/v1/executions/"+runs+"/cancel", `{"reason":"`+strings.Repeat("x", 201)+`"}`).refused("body.reason")
	b.do("POST", "/v1/executions/"+runs+"/cancel", `{"force":true}`).refused("body.force")
}

func TestPreview(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.do("POST", "/v1/schedules/preview", `{"schedule_expr":"30 2 * * *","time_zone":"Europe/Berlin","from":"2026-03-28T00:00:00Z","n":3}`).want(200)
	p := read[api.Preview](r)
	want := "2026-03-28T02:30:00+01:00 2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"
	if got := strings.Join(p.NextRunsLocal, " "); got != want || len(p.NextRuns) != 3 || p.Description == "" || len(p.Warnings) == 0 {
		t.Errorf("preview %s", r.text)
	}
	if p := read[api.Preview](b.do("POST", "/v1/schedules/preview", `{"schedule_expr":"@every 10m"}`).want(200)); len(p.NextRuns) != 5 || !p.NextRuns[0].Equal(start.Add(600e9)) {
		t.Errorf("preview %+v", p)
	}
	if r := b.do("POST", "/v1/schedules/preview", `{"schedule_expr":"2020-01-01T00:00:00Z"}`).want(200); !strings.Contains(r.text, `"next_runs":[]`) {
		t.Errorf("a past instant: %s", r.text)
	}
	for body, location := range map[string]string{
		`{}`: "body.schedule_expr", `{"schedule_expr":"@daily","n":0}`: "body.n", `{"schedule_expr":"@daily","n":101}`: "body.n",
		`{"schedule_expr":"@daily","time_zone":""}`: "body.time_zone", `{"schedule_expr":"@daily","time_zone":"Local"}`: "body.time_zone",
		`{"schedule_expr":"61 * * * *"}`: "body.schedule_expr", `{"schedule_expr":"@daily","target":"x"}`: "body.target",
	} {
		b.do("POST", "/v1/schedules/preview", body).refused(location)
	}
}
