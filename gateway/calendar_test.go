package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func runs(j api.Job) string {
	var out []string
	for _, at := range j.NextRuns {
		out = append(out, at.Format("2006-01-02T15:04"))
	}
	return strings.Join(out, " ")
}

// What a calendar was registered with is what is shown, and can be sent back.
func TestCalendars(t *testing.T) {
	t.Parallel()
	b := setup(t)
	j := read[api.Job](b.do("PUT", "/v1/jobs/a", `{"schedule_exprs":["0 9 L * *","0 9 * * 1#1","2026-03-20T12:00:00Z"],
		"exclude":["2026-04-06","2026-03-31","2026-04-06"],"jitter":"5m","target":"https://example.com"}`).want(http.StatusCreated))
	if got := runs(j); got != "2026-03-02T09:00 2026-03-20T12:00 2026-04-30T09:00 2026-05-04T09:00 2026-05-31T09:00" {
		t.Errorf("runs %s", got)
	}
	if !slices.Equal(j.Exclude, []string{"2026-03-31", "2026-04-06"}) || j.ScheduleExpr != "" || len(j.ScheduleExprs) != 3 || j.Jitter.String() != "5m" {
		t.Errorf("shown as %+v", j.JobSpec)
	}
	if want := "At 09:00 on the last day of the month; and also at 09:00 on the first Monday of the month; and also once, at 2026-03-20T12:00:00Z, UTC, except on 2026-03-31 and 2026-04-06, each less than 5m0s later."; j.ScheduleDescription != want {
		t.Errorf("described as %q", j.ScheduleDescription)
	}
	again := read[api.Job](b.do("PATCH", "/v1/jobs/a", `{"description":"x"}`).want(http.StatusOK))
	if runs(again) != runs(j) || len(again.ScheduleExprs) != 3 {
		t.Errorf("after a patch of something else: %+v", again.JobSpec)
	}
	one := read[api.Job](b.do("PATCH", "/v1/jobs/a", `{"schedule_expr":"0 0 29 2 * 2028","exclude":null,"jitter":null}`).want(http.StatusOK))
	if runs(one) != "2028-02-29T00:00" || one.ScheduleExprs != nil || one.Exclude != nil || one.Jitter != nil {
		t.Errorf("after a patch: %+v", one)
	}
	many := read[api.Job](b.do("PATCH", "/v1/jobs/a", `{"schedule_exprs":["@daily","@hourly"]}`).want(http.StatusOK))
	if many.ScheduleExpr != "" || len(many.ScheduleExprs) != 2 {
		t.Errorf("after another: %+v", many)
	}
}

// H is made from the job's id: the preview that names it shows the job's own runs.
func TestSpreadInAPreview(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const expr = `"schedule_expr":"H H * * *"`
	j := read[api.Job](b.do("PUT", "/v1/jobs/daily-report", `{`+expr+`,"target":"https://example.com"}`).want(http.StatusCreated))
	named := read[api.Preview](b.do("POST", "/v1/schedules/preview", `{`+expr+`,"job_id":"daily-report"}`).want(http.StatusOK))
	bare := read[api.Preview](b.do("POST", "/v1/schedules/preview", `{`+expr+`}`).want(http.StatusOK))
	if !slices.EqualFunc(j.NextRuns, named.NextRuns, time.Time.Equal) || named.Description != j.ScheduleDescription || len(named.Warnings) != 0 {
		t.Errorf("the job runs at %v, its preview %v, %q", j.NextRuns, named.NextRuns, named.Warnings)
	}
	if bare.Description != "" || len(bare.Warnings) != 1 || !strings.Contains(bare.Warnings[0], "made from the job's id") {
		t.Errorf("without an id: %+v", bare)
	}
	b.do("POST", "/v1/schedules/preview", `{`+expr+`,"job_id":".."}`).refused("body.job_id")
}

func TestRunsThatAreLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := read[api.Preview](b.do("POST", "/v1/schedules/preview", `{"schedule_expr":"@hourly","max_runs":2}`).want(http.StatusOK))
	if len(p.NextRuns) != 2 {
		t.Errorf("runs %v", p.NextRuns)
	}
	v := read[api.Job](b.do("PUT", "/v1/jobs/a?validate_only=true", `{"schedule_expr":"@hourly","max_runs":3,"starts_at":"2026-03-01T11:00:00Z","target":"https://example.com"}`).want(http.StatusOK))
	if runs(v) != "2026-03-01T13:00" || *v.MaxRuns != 3 { // 11:00 and 12:00 have passed
		t.Errorf("runs %s", runs(v))
	}
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"@hourly","max_runs":2,"starts_at":"2026-03-01T11:00:00Z","target":"https://example.com"}`).refused("body.max_runs")

	j := read[api.Job](b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"@hourly","target":"https://example.com"}`).want(http.StatusCreated))
	stored := b.owners.get(t.Context(), j.JobID)
	last := start.Add(2 * time.Hour)
	stored.State = &belfryv1.JobState{RunsBefore: 4, RunsSince: start.Add(-90 * time.Minute).UnixMilli(), LastSlot: last.UnixMilli(), Cursor: start.UnixMilli()}
	seen := b.gw.viewJob(stored, start)
	if *seen.RunsGiven != 6 || !seen.LastSlot.Equal(last) || runs(*seen) != "2026-03-01T13:00 2026-03-01T14:00" {
		t.Errorf("given %d, last %v, runs %s", *seen.RunsGiven, seen.LastSlot, runs(*seen))
	}
}

func TestBadCalendars(t *testing.T) {
	t.Parallel()
	refusals(t, []struct{ body, location string }{
		{`{"schedule_expr":"@daily","schedule_exprs":["@hourly"],"target":"https://example.com"}`, "body.schedule_exprs"},
		{`{"schedule_exprs":["@daily","61 * * * *"],"target":"https://example.com"}`, "body.schedule_exprs[1]"},
		{`{"schedule_exprs":["@daily","@every 5m"],"target":"https://example.com"}`, "body.schedule_exprs[1]"},
		{`{"schedule_exprs":[],"target":"https://example.com"}`, "body.schedule_expr"},
		{job_(`"exclude":["2026-12-25","xmas"]`), "body.exclude[1]"}, {job_(`"exclude":["2026-02-30"]`), "body.exclude[0]"}, {job_(`"exclude":"2026-12-25"`), "body.exclude"},
		{job_(`"jitter":"12h"`), "body.jitter"}, {job_(`"jitter":"-1s"`), "body.jitter"}, {job_(`"jitter":"1ns"`), "body.jitter"}, {job_(`"jitter":5`), "body.jitter"},
		{job_(`"max_runs":-1`), "body.max_runs"}, {job_(`"max_runs":1000000001`), "body.max_runs"}, {job_(`"max_runs":1.5`), "body.max_runs"},
	})
}

// What other schedulers write is stored, and shown, as what it means here; the
// answer says what it became.
func TestOtherDialects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const body = `{"schedule_expr":"R3/2026-03-01T10:00:00Z/PT90M","target":"https://example.com"}`
	j := read[api.Job](b.do("PUT", "/v1/jobs/a", body).want(http.StatusCreated))
	if j.ScheduleExpr != "@every 1h30m" || *j.MaxRuns != 3 || !j.StartsAt.Equal(start.Add(-2*time.Hour)) || len(j.Warnings) != 1 || !strings.Contains(j.Warnings[0], `became "@every 1h30m", max_runs 3, starts_at`) {
		t.Errorf("%+v, warnings %q", j.JobSpec, j.Warnings)
	}
	if again := read[api.Job](b.do("PUT", "/v1/jobs/a", body).want(http.StatusOK)); again.Revision != j.Revision {
		t.Errorf("the same again is revision %d after %d", again.Revision, j.Revision)
	}
	p := read[api.Preview](b.do("POST", "/v1/schedules/preview", `{"schedule_expr":"cron(0 10 ? * 2-6 *)"}`).want(http.StatusOK))
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], `became "0 10 ? * 1-5"`) || p.Description != "At 10:00 on Monday to Friday, UTC." {
		t.Errorf("%+v", p)
	}
	refusals(t, []struct{ body, location string }{
		{`{"schedule_expr":"rate(5 weeks)","target":"https://example.com"}`, "body.schedule_expr"},
		{`{"schedule_exprs":["@daily","R/PT5M"],"target":"https://example.com"}`, "body.schedule_exprs[1]"},
	})
}
