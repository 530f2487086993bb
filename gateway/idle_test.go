package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// definition is what is shown of a job and can be sent back.
func (b *bundle) definition(id string) string {
	b.t.Helper()
	text, err := json.Marshal(read[api.Job](b.do("GET", "/v1/jobs/"+id, "").want(http.StatusOK)).JobSpec)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// Settings that would have no effect are refused, whichever way they come.
func TestIdleSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ good, edit, both, field string }{
		{`"overlap":"skip","overlap_queue":10`, `"overlap_queue":5`, `"overlap":"skip","overlap_queue":5`, "overlap_queue"},
		{`"overlap":"queue","overlap_queue":5`, `"overlap":"replace"`, `"overlap":"replace","overlap_queue":5`, "overlap_queue"},
		{`"depends_on":["up"]`, `"starts_at":"2027-01-01T00:00:00Z"`, `"depends_on":["up"],"starts_at":"2027-01-01T00:00:00Z"`, "starts_at"},
		{`"ends_at":"2027-01-01T00:00:00Z"`, `"depends_on":["up"]`, `"depends_on":["up"],"ends_at":"2027-01-01T00:00:00Z"`, "ends_at"},
		{`"depends_on":["up"],"exclude":[]`, `"exclude":["2026-12-25"]`, `"depends_on":["up"],"exclude":["2026-12-25"]`, "exclude"},
		{`"depends_on":["up"],"jitter":"0s"`, `"jitter":"5m"`, `"depends_on":["up"],"jitter":"5m"`, "jitter"},
		{`"depends_on":["up"],"max_runs":0`, `"max_runs":3`, `"depends_on":["up"],"max_runs":3`, "max_runs"},
	} {
		b := setup(t)
		b.do("PUT", "/v1/jobs/a", spec(c.good)).want(http.StatusCreated)
		b.do("PUT", "/v1/jobs/a", b.definition("a")).want(http.StatusOK)
		for _, r := range []response{
			b.do("PATCH", "/v1/jobs/a", "{"+c.edit+"}"), b.do("PUT", "/v1/jobs/a", spec(c.both)), b.do("PUT", "/v1/jobs/b?validate_only=true", spec(c.both)),
			b.do("POST", "/v1/jobs", spec(c.both)),
		} {
			if e := r.refused("body." + c.field); !strings.Contains(e.Message, "no effect") || !strings.Contains(e.Message, "leave") {
				t.Errorf("the message does not say why and what to do: %s", e.Message)
			}
		}
		got := b.imports(importLineOf("b", c.both+","))
		if len(got) != 1 || got[0].Error == nil || got[0].Error.Errors[0].Location != "body."+c.field {
			t.Errorf("an import of %s: %+v", c.both, got)
		}
	}
}

// What was stored before such settings were refused goes on, is shown, and can be
// sent back and edited.
func TestStoredIdleSettings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := job.Spec{
		Schedule: job.Timing{Expr: "@hourly", Exclude: []job.Day{20_000}, Jitter: 5000_000_000}, DependsOn: []string{"up"}, MaxRuns: 3,
		Overlap: job.OverlapSkip, OverlapQueue: 5, Target: job.Target{HTTP: &job.HTTPTarget{URL: "https://example.com/hook"}},
	}
	if _, err := b.gw.ask(t.Context(), &belfryv1.Command{Id: "c", JobId: "a", Action: &belfryv1.Command_Register{
		Register: &belfryv1.Register{Spec: messages.Spec(old.Normalize())},
	}}, condition{}); err != nil {
		t.Fatal(err)
	}
	b.do("PUT", "/v1/jobs/a", b.definition("a")).want(http.StatusOK)
	b.do("PATCH", "/v1/jobs/a", `{"description":"x"}`).want(http.StatusOK)
	b.do("PATCH", "/v1/jobs/a", `{"jitter":"7s"}`).refused("body.jitter")
	if j := read[api.Job](b.do("GET", "/v1/jobs/a", "")); j.Status != "active" || len(j.Exclude) != 1 || *j.OverlapQueue != 5 {
		t.Errorf("%+v", j)
	}
	j := read[api.Job](b.do("PATCH", "/v1/jobs/a", `{"depends_on":null}`).want(http.StatusOK))
	if len(j.Exclude) != 1 || j.Jitter.String() != "5s" {
		t.Errorf("what it had is lost: %+v", j.JobSpec)
	}
	b.do("PATCH", "/v1/jobs/a", fmt.Sprintf(`{"depends_on":["up"],"exclude":%q}`, j.Exclude)).refused("body.exclude")
}
