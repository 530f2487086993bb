package gateway

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func TestPatchChangesOnlyWhatIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.create(`"job_id":"a","labels":{"team":"x","tier":"1"},"retry":{"max_attempts":3},"timeout":"1m"`)
	r := b.do("PATCH", "/v1/jobs/a", `{"labels":{"team":null,"new":"2"},"retry":{"max_backoff":"5m"},"timeout":null}`, "Content-Type", "application/merge-patch+json")
	after := read[api.Job](r.want(http.StatusOK))
	want := before.JobSpec
	want.Labels = map[string]string{"tier": "1", "new": "2"}
	want.Retry.MaxBackoff = after.Retry.MaxBackoff
	want.Timeout = after.Timeout
	if diff := cmp.Diff(want, after.JobSpec); diff != "" || after.Timeout.String() != "30s" || after.Retry.MaxBackoff.String() != "5m" {
		t.Errorf("timeout %s, max_backoff %s: %s", after.Timeout, after.Retry.MaxBackoff, diff)
	}
	if after.Revision == before.Revision || r.Header.Get("ETag") != etag(after.Revision) {
		t.Errorf("revision %d after %d", after.Revision, before.Revision)
	}
}

func TestPatchOfThePayload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com","json":{"a":1,"b":2}}}}`).want(201)
	patch := func(p string) *api.HTTPTarget {
		return read[api.Job](b.do("PATCH", "/v1/jobs/a", p).want(200)).Target.HTTP
	}
	if h := patch(`{"target":{"http":{"json":{"b":null,"c":3}}}}`); string(h.JSON) != `{"a":1,"c":3}` {
		t.Errorf("json %s", h.JSON)
	}
	if h := patch(`{"target":{"http":{"body":"plain"}}}`); h.Body == nil || *h.Body != "plain" {
		t.Errorf("body %v", h.Body)
	}
	if h := patch(`{"target":{"http":{"json":[1,2]}}}`); string(h.JSON) != `[1,2]` {
		t.Errorf("json %s", h.JSON)
	}
	if h := patch(`{"target":{"http":{"json":[{"b":null},1]}}}`); string(h.JSON) != `[{"b":null},1]` {
		t.Errorf("json %s", h.JSON)
	}
	if h := patch(`{"target":{"http":{"json":{"b":{"c":null},"a":[]}}}}`); string(h.JSON) != `{"b":{},"a":[]}` {
		t.Errorf("json %s", h.JSON)
	}
	if h := patch(`{"target":{"http":{"body":null}}}`); h.Body != nil || h.JSON != nil {
		t.Errorf("a cleared payload is %+v", h)
	}
	if h := patch(`{"target":"https://example.org/x"}`); h.URL != "https://example.org/x" {
		t.Errorf("url %s", h.URL)
	}
	b.do("PATCH", "/v1/jobs/a", `{"target":{"http":{"body":"x","json":1}}}`).refused("body.target.http.json")
}

func TestPatchThatIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tag := b.do("PUT", "/v1/jobs/a", spec("")).want(201).Header.Get("ETag")
	for patch, location := range map[string]string{
		`{"schedule_expr":null}`:          "body.schedule_expr",
		`{"target":null}`:                 "body.target",
		`{"job_id":"b"}`:                  "body.job_id",
		`{"status":"paused"}`:             "body.status",
		`{"tiemout":"5s"}`:                "body.tiemout",
		`{"timeout":"0s"}`:                "body.timeout",
		`{"timeout":"1s","timeout":"2s"}`: "body.timeout",
		`[]`:                              "body",
		`"x"`:                             "body",
		`null`:                            "body",
		`{`:                               "body",
	} {
		b.do("PATCH", "/v1/jobs/a", patch).refused(location)
	}
	b.do("PATCH", "/v1/jobs/a", `{}`, "Content-Type", "application/json-patch+json").problem(api.CodeMediaType)
	b.do("PATCH", "/v1/jobs/a", `{"description":"x"}`, "If-Match", `"999"`).problem(api.CodePrecondition)
	if got := b.do("GET", "/v1/jobs/a", "").Header.Get("ETag"); got != tag {
		t.Errorf("revision %s became %s", tag, got)
	}
}

// Two patches of different fields at once: both are in the result.
func TestPatchesAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	var all sync.WaitGroup
	for _, p := range []string{`{"description":"x"}`, `{"labels":{"a":"1"}}`, `{"labels":{"b":"2"}}`, `{"timeout":"7s"}`} {
		all.Go(func() { b.do("PATCH", "/v1/jobs/a", p).want(200) })
	}
	all.Wait()
	j := read[api.Job](b.do("GET", "/v1/jobs/a", ""))
	if j.Description != "x" || len(j.Labels) != 2 || j.Timeout.String() != "7s" {
		t.Errorf("a patch is lost: %+v", j.JobSpec)
	}
}

func TestPatchGivesUpOnAJobThatNeverRests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	tries := 0
	b.owners.refuse = func(*belfryv1.Command) *belfryv1.Refusal {
		tries++
		return &belfryv1.Refusal{Code: belfryv1.Refusal_CODE_REVISION}
	}
	b.do("PATCH", "/v1/jobs/a", `{"description":"x"}`).problem(api.CodeConflict)
	if tries != patchTries {
		t.Errorf("%d tries", tries)
	}
}

// C133: what looks like a secret is shown to nobody, and survives an edit of
// something else.
func TestSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const canary = "canary-7331"
	target := `"target":{"http":{"url":"https://example.com/x?token=` + canary + `&page=2","headers":{"Authorization":"Bearer ` + canary + `","X-Api-Key":"` + canary + `","X-Plain":"shown"}}}`
	body := `{"schedule_expr":"@daily",` + target + `}`
	b.do("PUT", "/v1/jobs/a", body).want(201)
	stored := func() *belfryv1.HTTPTarget {
		return b.owners.get(t.Context(), "a").GetSpec().GetTarget().GetHttp()
	}
	want := stored()
	got := read[api.Job](b.do("GET", "/v1/jobs/a", "").want(200))
	if h := got.Target.HTTP; h.URL != "https://example.com/x?token=***&page=2" || h.Headers["Authorization"] != "***" || h.Headers["X-Plain"] != "shown" {
		t.Errorf("shown as %+v", h)
	}
	again, err := encode(got.JobSpec)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []response{
		b.do("PUT", "/v1/jobs/a", string(again)),
		b.do("PUT", "/v1/jobs/a?validate_only=true", body),
		b.do("PATCH", "/v1/jobs/a", `{"description":"x","target":{"http":{"headers":{"Authorization":"***"}}}}`),
		b.do("GET", "/v1/jobs?target=example.com", ""),
		b.do("POST", "/v1/jobs/a/pause", `{"reason":"r"}`),
		b.do("POST", "/v1/jobs", body),
		b.do("POST", "/v1/jobs", strings.Replace(body, "https:", "gopher:", 1)),
		b.do("POST", "/v1/jobs", strings.Replace(body, "Bearer", `Bea\nrer`, 1)),
		b.do("GET", "/v1/jobs?target="+canary, ""),
	} {
		if strings.Contains(r.text, canary) {
			t.Errorf("%s %s tells the secret: %s", r.Request.Method, r.Request.URL, r.text)
		}
	}
	if diff := cmp.Diff(want.GetHeaders(), stored().GetHeaders()); diff != "" || stored().GetUrl() != want.GetUrl() {
		t.Errorf("the stored secret changed: %s %s", diff, stored().GetUrl())
	}
	if text := b.do("GET", "/v1/jobs?target="+canary, "").text; text != "[]" {
		t.Errorf("a filter finds a secret: %s", text)
	}
	if strings.Contains(b.log.String(), canary) {
		t.Error("the log tells the secret")
	}
	b.do("POST", "/v1/jobs", `{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com","headers":{"Cookie":"***"}}}}`).refused("body.target.http.headers.Cookie")
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com/?sig=***"}}}`).refused("body.target.http.url")
}

// A reference tells where a secret is and is none itself: it is shown, so that
// an answer can be sent back.
func TestReferencesToSecretsAreShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com","signing_secret_ref":"file:///run/secrets/hook",
		"headers":{"Authorization":"Bearer env://BELFRY_SECRET_TOKEN","X-Token":"canary-1 env://BELFRY_SECRET_TOKEN"}}}}`).want(201)
	got := read[api.Job](b.do("GET", "/v1/jobs/a", "").want(200)).Target.HTTP
	if got.SigningSecretRef != "file:///run/secrets/hook" || got.Headers["Authorization"] != "Bearer env://BELFRY_SECRET_TOKEN" || got.Headers["X-Token"] != hidden {
		t.Errorf("shown as %+v", got)
	}
}
