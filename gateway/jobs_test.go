package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

func TestCreateAnswersWhatWillHappen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.do("POST", "/v1/jobs", `{"job_id":"daily-report","schedule_expr":"0 6 * * 1-5","time_zone":"Europe/Berlin","target":"https://example.com/hook"}`).want(http.StatusCreated)
	j := read[api.Job](r)
	if j.JobID != "daily-report" || j.Status != "active" || j.Revision == 0 || r.Header.Get("ETag") != etag(j.Revision) || r.Header.Get("Location") != "/v1/jobs/daily-report" {
		t.Errorf("answer %s, headers %v", r.text, r.Header)
	}
	want := []string{"2026-03-02T06:00:00+01:00", "2026-03-03T06:00:00+01:00", "2026-03-04T06:00:00+01:00", "2026-03-05T06:00:00+01:00", "2026-03-06T06:00:00+01:00"}
	if diff := cmp.Diff(want, j.NextRunsLocal); diff != "" {
		t.Error(diff)
	}
	if got := j.NextRuns[0].Format(time.RFC3339); got != "2026-03-02T05:00:00Z" {
		t.Errorf("first run %s", got)
	}
	if j.ScheduleDescription == "" || *j.Timeout != api.Duration(30*time.Second) || j.Target.HTTP.Method != "POST" || *j.Retry.MaxAttempts != 5 {
		t.Errorf("defaults are not written out: %s", r.text)
	}
	if got := b.do("GET", "/v1/jobs/daily-report", "").want(http.StatusOK); got.text != r.text || got.Header.Get("ETag") != r.Header.Get("ETag") {
		t.Errorf("GET answers %s, POST answered %s", got.text, r.text)
	}
}

func TestCreateUnderATakenID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	b.do("POST", "/v1/jobs", spec(`"job_id":"a"`)).problem(api.CodeJobExists)
	b.do("PUT", "/v1/jobs/a", spec(""), "If-None-Match", "*").problem(api.CodePrecondition)
}

func TestWithoutJobIDEachPostIsAJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if one, two := b.create(""), b.create(""); one.JobID == two.JobID || len(one.JobID) != 36 {
		t.Errorf("ids %q and %q", one.JobID, two.JobID)
	}
}

func TestAnAnswerCanBeSentBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	bodies := []string{
		spec(`"labels":{"b":"2","a":"1"},"description":"x"`),
		`{"schedule_expr":"@every 10m","starts_at":"2026-03-01T00:00:00Z","ends_at":"2027-01-01T00:00:00+01:00","target":{"http":{"url":"https://example.com","method":"PUT","json":{"b": 1.50,"a":[true,null]}}}}`,
		`{"schedule_expr":"*/5 * * * * *","seconds":true,"dst":{"gap":"skip","fold":"both"},"time_zone":"America/New_York","target":{"http":{"url":"https://example.com","body":" text "}},"retry":{"max_attempts":1,"jitter":0,"multiplier":1},"catch_up":{"policy":"all","max":7},"timeout":"1m30s","max_outstanding":3,"rate_limit":{"per_second":0.5,"burst":3},"on_open_circuit":"fail"}`,
		spec(`"rate_limit":{"per_second":0,"burst":0}`), spec(`"rate_limit":{"per_second":7}`),
	}
	for _, body := range bodies {
		j := read[api.Job](b.do("POST", "/v1/jobs", body).want(http.StatusCreated))
		again, err := encode(j.JobSpec)
		if err != nil {
			t.Fatal(err)
		}
		k := read[api.Job](b.do("PUT", "/v1/jobs/"+j.JobID, string(again)).want(http.StatusOK))
		if k.Revision != j.Revision {
			t.Errorf("sent back, %s is another revision\n%s", body, cmp.Diff(j, k))
		}
	}
}

func TestJSONPayload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	post := func(http string) api.HTTPTarget {
		r := b.do("POST", "/v1/jobs", `{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com",`+http+`}}}`)
		return *read[api.Job](r.want(201)).Target.HTTP
	}
	if h := post(`"json":{"a": 1}`); string(h.JSON) != `{"a":1}` || h.Headers["Content-Type"] != "application/json" || h.Body != nil {
		t.Errorf("json became %+v", h)
	}
	if h := post(`"json":[1],"headers":{"content-type":"application/vnd.x+json"}`); *h.Body != `[1]` || len(h.Headers) != 1 {
		t.Errorf("json with a type of its own became %+v", h)
	}
	if h := post(`"body":"{\"a\": 1}"`); *h.Body != `{"a": 1}` || h.Headers != nil {
		t.Errorf("body became %+v", h)
	}
}

func TestActorTarget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := func(actor string) string { return `{"schedule_expr":"@daily","target":{"actor":` + actor + `}}` }
	for given, want := range map[string]struct{ shown, sent string }{
		`{"kind":"cart","identity":"17"}`:                           {"", ""},
		`{"kind":"cart","identity":"17","payload":null}`:            {"", ""},
		`{"kind":"cart","identity":"17","payload":""}`:              {"", ""},
		`{"kind":"cart","identity":"17","payload":{"a": [1, 2.0]}}`: {`{"a":[1,2.0]}`, `{"a":[1,2.0]}`},
		`{"kind":"cart","identity":"17","payload":"plain ä"}`:       {`"plain ä"`, "plain ä"},
		`{"kind":"cart","identity":"17","payload":"{\"a\": 1}"}`:    {`"{\"a\": 1}"`, `{"a": 1}`},
		`{"kind":"cart","identity":"17","payload":"{\"a\":1}"}`:     {`{"a":1}`, `{"a":1}`},
		`{"kind":"cart","identity":"17","payload":"null"}`:          {`"null"`, "null"},
		`{"kind":"cart","identity":"17","payload":"\"x\""}`:         {`"\"x\""`, `"x"`},
		`{"kind":"cart","identity":"17","payload":false}`:           {"false", "false"},
	} {
		j := read[api.Job](b.do("POST", "/v1/jobs", body(given)).want(201))
		stored := b.owners.get(t.Context(), j.JobID).GetSpec().GetTarget().GetActor()
		if a := j.Target.Actor; j.Target.HTTP != nil || a.Kind != "cart" || a.Identity != "17" || string(a.Payload) != want.shown || string(stored.GetPayload()) != want.sent {
			t.Errorf("%s became %+v, with %q", given, a, stored.GetPayload())
		}
	}
	for bad, location := range map[string]string{
		`{"identity":"17"}`:                                                             "body.target.actor.kind",
		`{"kind":"cart","identity":"a/b"}`:                                              "body.target.actor.identity",
		`{"kind":"cart","identity":"1","paylod":1}`:                                     "body.target.actor.paylod",
		`{"kind":"cart","identity":"1"},"http":{"url":"https://example.com"}`:           "body.target",
		`{"kind":"cart","identity":"1","payload":"` + strings.Repeat("x", 65537) + `"}`: "body.target.actor.payload",
	} {
		b.do("POST", "/v1/jobs", body(bad)).refused(location)
	}
	found := b.all("/v1/jobs?target=CART/17")
	if len(found) != 10 || len(b.all("/v1/jobs?target=cart/18")) != 0 {
		t.Errorf("%d found by their target", len(found))
	}
}

func TestPatchOfAnActorTarget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"@daily","target":{"actor":{"kind":"cart","identity":"17","payload":{"a":1,"b":2}}}}`).want(201)
	patch := func(p string) *api.Target {
		return read[api.Job](b.do("PATCH", "/v1/jobs/a", p).want(200)).Target
	}
	if to := patch(`{"target":{"actor":{"payload":{"b":null,"c":3}}}}`); string(to.Actor.Payload) != `{"a":1,"c":3}` || to.Actor.Kind != "cart" {
		t.Errorf("%+v", to.Actor)
	}
	if to := patch(`{"description":"x"}`); string(to.Actor.Payload) != `{"a":1,"c":3}` {
		t.Errorf("%+v", to.Actor)
	}
	b.do("PATCH", "/v1/jobs/a", `{"target":{"http":{"body":"x"}}}`).refused("body.target")
	if to := patch(`{"target":{"actor":null,"http":{"url":"https://example.com","body":"x"}}}`); to.Actor != nil || to.HTTP.URL != "https://example.com" {
		t.Errorf("%+v", to)
	}
	if to := patch(`{"target":{"http":null,"actor":{"kind":"cart","identity":"18"}}}`); to.HTTP != nil || to.Actor.Identity != "18" {
		t.Errorf("%+v", to)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.do("PUT", "/v1/jobs/a", spec(""), "If-None-Match", "*").want(201)
	tag := r.Header.Get("ETag")
	b.do("PUT", "/v1/jobs/a", spec(`"job_id":"b"`)).refused("body.job_id")
	if got := b.do("PUT", "/v1/jobs/a", spec("")).want(200).Header.Get("ETag"); got != tag {
		t.Errorf("an identical replacement made revision %s of %s", got, tag)
	}
	changed := b.do("PUT", "/v1/jobs/a", spec(`"description":"x"`), "If-Match", tag).want(200).Header.Get("ETag")
	if changed == tag {
		t.Error("a change kept the revision")
	}
	b.do("PUT", "/v1/jobs/a", spec(""), "If-Match", tag).problem(api.CodePrecondition)
	b.do("PUT", "/v1/jobs/a", spec(""), "If-Match", "*").want(200)
	b.do("PUT", "/v1/jobs/none", spec(""), "If-Match", "*").problem(api.CodePrecondition)
	b.do("PUT", "/v1/jobs/none", spec(""), "If-Match", tag).problem(api.CodePrecondition)
}

func TestPausedStaysUnlessNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", spec(`"paused":true`)).want(201)
	for body, want := range map[string]bool{spec(""): true, spec(`"description":"x"`): true} {
		if j := read[api.Job](b.do("PUT", "/v1/jobs/a", body).want(200)); j.Paused != want {
			t.Errorf("after %s paused is %v", body, j.Paused)
		}
	}
	if j := read[api.Job](b.do("PATCH", "/v1/jobs/a", `{"description":"y"}`).want(200)); !j.Paused || j.NotRunning == "" {
		t.Errorf("a patch of something else resumed it: %+v", j)
	}
	if j := read[api.Job](b.do("PATCH", "/v1/jobs/a", `{"paused":false}`).want(200)); j.Paused || j.NotRunning != "" {
		t.Errorf("paused: false left it paused: %+v", j)
	}
}

func TestConditionsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tag := b.do("PUT", "/v1/jobs/a", spec("")).want(201).Header.Get("ETag")
	for header, values := range map[string][]string{
		"If-Match":      {`17`, `"1","2"`, `"`, ``[:0] + `x`},
		"If-None-Match": {tag, `"x"`},
	} {
		for _, v := range values {
			b.do("PUT", "/v1/jobs/a", spec(""), header, v).refused("header." + header)
		}
	}
	for _, v := range []string{`W/` + tag, `"abc"`, `"-1"`, `"007"`, `"99999999999999999999"`, `""`} {
		b.do("DELETE", "/v1/jobs/a", "", "If-Match", v).problem(api.CodePrecondition)
	}
	b.do("PUT", "/v1/jobs/a", spec(""), "If-Match", tag, "If-None-Match", "*").refused("header.If-None-Match")
	b.do("DELETE", "/v1/jobs/a", "", "If-None-Match", "*").refused("header.If-None-Match")
	b.do("POST", "/v1/jobs", spec(""), "If-Match", tag).refused("header.If-Match")
	for _, action := range []string{"jobs/a/pause", "jobs/a/resume", "jobs/a/trigger", "jobs/a/backfill", "executions/" + claimed + "/cancel", "executions/" + claimed + "/retry"} {
		for _, header := range []string{"If-Match", "If-None-Match"} {
			b.do("POST", "/v1/"+action, "{}", header, tag).refused("header." + header)
		}
	}
	if p := b.do("PUT", "/v1/jobs/a", spec(""), "If-Match", `"abc"`).problem(api.CodePrecondition); !strings.Contains(p.Detail, "the ETag of If-Match is none of the job") {
		t.Errorf("an ETag that never was: %s", p.Detail)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tag := b.do("PUT", "/v1/jobs/a", spec("")).want(201).Header.Get("ETag")
	b.do("DELETE", "/v1/jobs/a", "", "If-Match", `"99"`).problem(api.CodePrecondition)
	if r := b.do("DELETE", "/v1/jobs/a", "", "If-Match", tag).want(204); r.text != "" {
		t.Errorf("204 with a body: %s", r.text)
	}
	b.do("DELETE", "/v1/jobs/a", "").problem(api.CodeJobNotFound)
	b.do("GET", "/v1/jobs/a", "").problem(api.CodeJobNotFound)
	b.do("PATCH", "/v1/jobs/a", "{}").problem(api.CodeJobNotFound)
	b.do("GET", "/v1/jobs/a/executions", "").want(200)
	b.do("GET", "/v1/jobs/never/executions", "").problem(api.CodeJobNotFound)
	if n := b.count(); n != 0 {
		t.Errorf("a deleted job is listed: %d", n)
	}
}

func TestValidateOnlyStoresNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	for _, r := range []response{
		b.do("POST", "/v1/jobs?validate_only=true", spec(`"job_id":"b"`)),
		b.do("PUT", "/v1/jobs/b?validate_only=true", spec("")),
		b.do("PATCH", "/v1/jobs/a?validate_only=true", `{"schedule_expr":"* 0 * * *"}`),
	} {
		j := read[api.Job](r.want(200))
		if len(j.NextRuns) != 5 || len(j.NextRunsLocal) != 5 || j.Revision != 0 {
			t.Errorf("preview %s", r.text)
		}
	}
	if j := read[api.Job](b.do("PATCH", "/v1/jobs/a?validate_only=true", `{"schedule_expr":"* 0 * * *"}`)); len(j.Warnings) == 0 {
		t.Error("60 runs an hour are not warned of")
	}
	if n := b.count(); n != 1 || b.do("GET", "/v1/jobs/b", "").StatusCode != 404 {
		t.Errorf("%d jobs", n)
	}
	b.do("POST", "/v1/jobs?validate_only=yes", spec("")).refused("query.validate_only")
	for _, empty := range []string{"validate_only=", "validate_only"} {
		b.do("POST", "/v1/jobs?"+empty, spec("")).refused("query.validate_only")
	}
	for _, empty := range []string{"cascade=", "cascade"} { // perhaps a script's variable that is not set
		b.do("DELETE", "/v1/jobs/a?"+empty, "").refused("query.cascade")
	}
	b.do("POST", "/v1/jobs?validate_only=true", spec(`"timeout":"0s"`)).refused("body.timeout")
}

func TestIntervalKeepsItsPhase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := `{"schedule_expr":"@every 10m","target":"https://example.com"}`
	first := read[api.Job](b.do("PUT", "/v1/jobs/a", body).want(201))
	if got := first.NextRuns[0]; !got.Equal(start.Add(10 * time.Minute)) {
		t.Errorf("first run %s", got)
	}
	b.advance(3 * time.Minute)
	for _, r := range []response{
		b.do("PUT", "/v1/jobs/a", body),
		b.do("PATCH", "/v1/jobs/a", `{"description":"x"}`),
		b.do("PUT", "/v1/jobs/a?validate_only=true", body),
	} {
		if j := read[api.Job](r.want(200)); !j.NextRuns[0].Equal(start.Add(10 * time.Minute)) {
			t.Errorf("the phase moved: %s", r.text)
		}
	}
	if j := read[api.Job](b.do("PATCH", "/v1/jobs/a", `{"schedule_expr":"@every 20m"}`).want(200)); !j.NextRuns[0].Equal(start.Add(23 * time.Minute)) {
		t.Errorf("another interval begins at %s", j.NextRuns[0])
	}
}

// C68, C69: an instant in the past is refused, unless it has just passed or is
// asked for; and an edit of something else does not judge it again.
func TestPastInstants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := func(ago time.Duration, more string) string {
		return `{` + more + `"schedule_expr":"` + start.Add(-ago).Format(time.RFC3339) + `","target":"https://example.com"}`
	}
	if msg := b.do("POST", "/v1/jobs", at(6*365*24*time.Hour, "")).refused("body.schedule_expr").Message; !strings.Contains(msg, "run_now") {
		t.Errorf("no way out is shown: %s", msg)
	}
	b.do("POST", "/v1/jobs", at(61*time.Second, "")).refused("body.schedule_expr")
	b.do("POST", "/v1/jobs", at(3*time.Second, "")).want(201)
	b.do("POST", "/v1/jobs", at(60*time.Second, "")).want(201)
	b.do("POST", "/v1/jobs", at(time.Hour, `"past":"run_now",`)).want(201)
	b.do("POST", "/v1/jobs", at(time.Hour, `"past":"ignore",`)).refused("body.past")
	b.do("PUT", "/v1/jobs/once", at(-time.Hour, "")).want(201)
	b.advance(2 * time.Hour)
	b.do("PUT", "/v1/jobs/once", at(-time.Hour, `"description":"x",`)).want(200)
	b.do("PATCH", "/v1/jobs/once", `{"description":"y"}`).want(200)
	b.do("PATCH", "/v1/jobs/once", `{"schedule_expr":"2020-01-01T00:00:00Z"}`).refused("body.schedule_expr")
	b.do("POST", "/v1/jobs", `{"schedule_expr":"@daily","ends_at":"2026-01-01T00:00:00Z","target":"https://example.com"}`).refused("body.ends_at")
}

// C130: an id is refused at creation, or it comes back byte for byte.
func TestOddIDs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := []string{"", "Nightly @Report $1", "a/b", "..", ".", "отчёт", strings.Repeat("a", 300), strings.Repeat("a", 129), "trailing ", "a%2Fb", "😀", "a'b", "<b>", "\x1b[31m", "a\x00b"}
	for _, id := range ids {
		quoted, err := encode(id)
		if err != nil {
			t.Fatal(err)
		}
		if id != "" {
			b.do("POST", "/v1/jobs", spec(`"job_id":`+string(quoted))).refused("body.job_id")
		}
		path := strings.ReplaceAll(strings.ReplaceAll(escape(id), "/", "%2F"), ".", "%2e")
		for _, r := range []response{
			b.do("PUT", "/v1/jobs/"+path, spec("")), b.do("GET", "/v1/jobs/"+path, ""), b.do("DELETE", "/v1/jobs/"+path, ""),
			b.do("POST", "/v1/jobs/"+path+"/trigger", ""), b.do("GET", "/v1/jobs/"+path+"/executions", ""), b.do("GET", "/v1/executions/"+path, ""),
		} {
			if r.StatusCode != 400 && r.StatusCode != 404 && !(id == "" && r.StatusCode == 405) {
				t.Errorf("%s of id %q: %d %s", r.Request.Method, id, r.StatusCode, r.text)
			}
		}
	}
	for _, id := range []string{"Case", "case", "a.b_c-d", strings.Repeat("z", 128), "...", "-"} {
		b.do("PUT", "/v1/jobs/"+strings.ReplaceAll(id, "-", "%2D"), spec("")).want(201)
		if j := read[api.Job](b.do("GET", "/v1/jobs/"+id, "").want(200)); j.JobID != id {
			t.Errorf("%q came back as %q", id, j.JobID)
		}
		b.do("POST", "/v1/jobs/"+id+"/trigger", "").want(202)
		b.do("DELETE", "/v1/jobs/"+id, "").want(204)
	}
	if n := b.count(); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(s) {
		out.WriteString("%" + string(hex[s[i]>>4]) + string(hex[s[i]&15]))
	}
	return out.String()
}
