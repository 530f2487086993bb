package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func TestBulk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 25 {
		b.create(fmt.Sprintf(`"job_id":"x-%02d","labels":{"team":"x"}`, i))
	}
	b.create(`"job_id":"other"`)
	run := func(path, body string) (got []api.BulkResult) {
		for path != "" {
			r := b.do("POST", path, body).want(200)
			got = append(got, results[api.BulkResult](r)...)
			path = next(r)
		}
		return got
	}
	paused := func() int { return len(b.all("/v1/jobs?state=paused")) }
	const filter = `"filter":{"labels":{"team":"x"}}`
	if got := run("/v1/jobs:bulk?page_size=10", `{"action":"pause",`+filter+`,"dry_run":true}`); len(got) != 25 || got[0].Result != api.BulkWould || paused() != 0 {
		t.Errorf("dry run: %d results, %d paused", len(got), paused())
	}
	if got := run("/v1/jobs:bulk?page_size=10", `{"action":"pause",`+filter+`,"reason":"audit"}`); len(got) != 25 || got[24].Result != api.BulkDone || paused() != 25 {
		t.Errorf("pause: %d results, %d paused", len(got), paused())
	}
	if j := read[api.Job](b.do("GET", "/v1/jobs/x-07", "")); j.StatusReason != "audit" {
		t.Errorf("reason %q", j.StatusReason)
	}
	if got := run("/v1/jobs:bulk", `{"action":"resume","filter":{"state":"paused"}}`); len(got) != 25 || paused() != 0 {
		t.Errorf("resume: %d results, %d paused", len(got), paused())
	}
	one := run("/v1/jobs:bulk", `{"action":"trigger","filter":{"id_prefix":"other"}}`)
	if len(one) != 1 || one[0].ExecutionID == "" {
		t.Errorf("trigger: %+v", one)
	}
	b.owners.refuse = func(cmd *belfryv1.Command) *belfryv1.Refusal {
		if cmd.GetJobId() == "x-03" {
			return &belfryv1.Refusal{Code: belfryv1.Refusal_CODE_UNAVAILABLE}
		}
		return nil
	}
	failed := 0
	for _, r := range run("/v1/jobs:bulk", `{"action":"delete","filter":{"id_prefix":"x-"}}`) {
		if r.Result == api.BulkFailed {
			failed++
			if r.JobID != "x-03" || r.Error.Code != api.CodeStoreAway {
				t.Errorf("failed: %+v", r)
			}
		}
	}
	if got := names(b.all("/v1/jobs")); failed != 1 || strings.Join(got, " ") != "other x-03" {
		t.Errorf("%d failed, left are %v", failed, got)
	}
}

func TestBulkRepeatedUnderItsKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	b.create(`"job_id":"b"`)
	const body = `{"action":"trigger","all":true}`
	one := b.do("POST", "/v1/jobs:bulk", body, keyHeader, "k").want(200)
	two := b.do("POST", "/v1/jobs:bulk", body, keyHeader, "k").want(200)
	if one.text != two.text || len(results[api.BulkResult](one)) != 2 {
		t.Errorf("triggered twice:\n%s\n%s", one.text, two.text)
	}
}

func TestBulkThatIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	for body, location := range map[string]string{
		`{"action":"delete"}`:                                        "body.filter",
		`{"action":"delete","filter":{}}`:                            "body.filter",
		`{"action":"delete","filter":{"state":"active"},"all":true}`: "body.all",
		`{"action":"explode","all":true}`:                            "body.action",
		`{"action":"delete","filter":{"state":"x"}}`:                 "body.filter.state",
		`{"action":"delete","filter":{"colour":"x"}}`:                "body.filter.colour",
		`{"action":"delete","filter":{"next_run_before":"soon"}}`:    "body.filter.next_run_before",
		`{"action":"pause","all":true,"reason":"a\nb"}`:              "body.reason",
	} {
		b.do("POST", "/v1/jobs:bulk", body).refused(location)
	}
	b.do("POST", "/v1/jobs:bulk?page_token=x", `{"action":"delete","all":true}`).refused("query.page_token")
	if n := b.count(); n != 1 {
		t.Errorf("%d jobs", n)
	}
}
