package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// Instants that stand for none, inside or in the store, are not taken for
// absence; and none is rounded.
func TestInstantsThatStandForNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var cases []struct{ body, location string }
	for _, field := range []string{"starts_at", "ends_at"} {
		for _, at := range []string{"0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00", "1969-12-31T19:00:00-05:00"} {
			cases = append(cases, struct{ body, location string }{job_(`"` + field + `":"` + at + `"`), "body." + field})
		}
	}
	cases = append(cases, struct{ body, location string }{`{"schedule_expr":"1970-01-01T00:00:00Z","past":"run_now","target":"https://example.com"}`, "body.schedule_expr"})
	refusals(t, cases)
	b.create(`"job_id":"a"`)
	for query, location := range map[string]string{
		"/v1/jobs/a/explain?at=0001-01-01T00:00:00Z": "query.at", "/v1/jobs/a/explain?at=2026-03-02T00:00:00.0001Z": "query.at", "/v1/jobs/a/explain?at=2026-03-02T1:00:00Z": "query.at",
		"/v1/jobs?next_run_before=0001-01-01T00:00:00Z": "query.next_run_before", "/v1/jobs?next_run_before=2026-03-02T00:00:00,5Z": "query.next_run_before",
		"/v1/dead-letters?since=2026-03-02T00:00:00%2B24:00": "query.since", "/v1/dead-letters?until=": "query.until",
	} {
		b.do("GET", query, "").refused(location)
	}
}

// null for one of several labels or headers is not an empty one.
func TestNullIsNoText(t *testing.T) {
	t.Parallel()
	refusals(t, []struct{ body, location string }{
		{job_(`"labels":{"team":null}`), "body.labels.team"},
		{`{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com","headers":{"X-A":null}}}}`, "body.target.http.headers.X-A"},
		{`{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com","headers":{"X-A":"1","X-A":"2"}}}}`, "body.target.http.headers.X-A"},
	})
	b := setup(t)
	if j := read[api.Job](b.do("POST", "/v1/jobs", spec(`"labels":null,"description":null,"retry":null`)).want(http.StatusCreated)); j.Labels != nil {
		t.Errorf("labels %v", j.Labels)
	}
	b.do("PUT", "/v1/jobs/a", spec(`"labels":{"team":"x","tier":"1"}`)).want(http.StatusCreated)
	j := read[api.Job](b.do("PATCH", "/v1/jobs/a", `{"labels":{"team":null}}`, "Content-Type", "application/merge-patch+json").want(http.StatusOK))
	if len(j.Labels) != 1 || j.Labels["tier"] != "1" {
		t.Errorf("null in a patch left %v", j.Labels)
	}
}

// A schedule that has ended is refused about what ended it.
func TestWhatEndedASchedule(t *testing.T) {
	t.Parallel()
	var cases []struct{ body, location string }
	for timing, field := range map[string]string{
		`"schedule_expr":"0 0 1 1 * 2025"`:                                            "schedule_expr",
		`"schedule_expr":"cron(0 0 1 1 ? 2025)"`:                                      "schedule_expr",
		`"schedule_expr":"0 0 1 1 * 2025,2027","exclude":["2027-01-01"]`:              "schedule_expr",
		`"schedule_exprs":["0 0 1 1 * 2025","2025-02-01T00:00:00Z"]`:                  "schedule_exprs",
		`"schedule_expr":"@daily","ends_at":"2026-01-01T00:00:00Z"`:                   "ends_at",
		`"schedule_expr":"R5/2025-01-01T00:00:00Z/PT5M"`:                              "max_runs",
		`"schedule_expr":"@every 1h","starts_at":"2025-01-01T00:00:00Z","max_runs":3`: "max_runs",
	} {
		cases = append(cases, struct{ body, location string }{`{` + timing + `,"target":"https://example.com"}`, "body." + field})
	}
	refusals(t, cases)
	b := setup(t)
	p := read[api.Preview](b.do("POST", "/v1/schedules/preview", `{"schedule_expr":"0 0 1 1 * 2025"}`).want(http.StatusOK))
	if len(p.NextRuns) != 0 || !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.HasPrefix(w, "nothing is due after 2026-03-01T12:00:00Z") }) {
		t.Errorf("preview of what is over: %+v", p)
	}
}
