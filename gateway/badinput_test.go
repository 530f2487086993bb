package gateway

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// refusals sends bodies to every address that takes a job, and checks that each
// is refused about one place, with advice, and that nothing is stored.
func refusals(t *testing.T, cases []struct{ body, location string }) {
	t.Helper()
	b := setup(t)
	b.create(`"job_id":"there"`)
	before := b.do("GET", "/v1/jobs/there", "").text
	for _, c := range cases {
		for _, r := range []response{
			b.do("POST", "/v1/jobs", c.body), b.do("PUT", "/v1/jobs/new", c.body), b.do("PUT", "/v1/jobs/there", c.body),
			b.do("POST", "/v1/jobs?validate_only=true", c.body),
		} {
			e := r.refused(c.location)
			if len(e.Message) < 15 {
				t.Errorf("%.100s: the message %q does not help", c.body, e.Message)
			}
		}
		line := strings.ReplaceAll(c.body, "\n", " ")
		if !strings.Contains(line, `"job_id"`) {
			line = strings.Replace(line, "{", `{"job_id":"new",`, 1)
		}
		for _, res := range b.imports(line) {
			if res.Result != api.ImportFailed || res.Error == nil {
				t.Errorf("imported %.100s: %+v", line, res)
			}
		}
	}
	if n := b.count(); n != 1 || b.do("GET", "/v1/jobs/there", "").text != before {
		t.Errorf("%d jobs are stored", n)
	}
}

func job_(field string) string {
	return `{"schedule_expr":"@daily","target":"https://example.com",` + field + `}`
}

func TestBadJSON(t *testing.T) {
	t.Parallel()
	deep := func(n int) string {
		return `{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com","json":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}}`
	}
	refusals(t, []struct{ body, location string }{
		{`{`, "body"}, {`{"schedule_expr":"@dai`, "body.schedule_expr"}, {`{"schedule_expr"`, "body.schedule_expr"}, {`nonsense`, "body"}, {` `, "body"}, {`[]`, "body"}, {`null`, "body.schedule_expr"}, {`"x"`, "body"}, {`1`, "body"},
		{job_(`"timeout":"1s","timeout":"2s"`), "body.timeout"}, {`{"schedule_expr":"@daily","schedule_expr":"@daily","target":"https://example.com"}`, "body.schedule_expr"},
		{job_(`"labels":{"a":"1","a":"2"}`), "body.labels.a"}, {`{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com","json":{"x":{"a":1,"a":2}}}}}`, "body.target.http.json.x.a"},
		{job_(`"colour":"red"`), "body.colour"}, {job_(`"Timeout":"1s"`), "body.Timeout"}, {job_(`"retry":{"attempts":3}`), "body.retry.attempts"}, {job_(`"":1`), "body"},
		{job_(`"max_outstanding":NaN`), "body.max_outstanding"}, {job_(`"max_outstanding":1e309`), "body.max_outstanding"}, {job_(`"retry":{"multiplier":1e309}`), "body.retry.multiplier"},
		{job_(`"max_outstanding":9223372036854775808`), "body.max_outstanding"}, {job_(`"max_outstanding":1.5`), "body.max_outstanding"}, {job_(`"max_outstanding":"5"`), "body.max_outstanding"},
		{job_(`"description":"\ud800"`), "body.description"}, {job_(`"description":"` + "\xff" + `"`), "body.description"}, {"\xef\xbb\xbf" + spec(""), "body"},
		{spec("") + " x", "body"}, {spec("") + spec(""), "body"}, {spec("") + "\x00", "body"}, {deep(10_000), "body"}, {deep(70), "body"},
		{job_(`"timeout":30`), "body.timeout"}, {job_(`"timeout":"30"`), "body.timeout"}, {job_(`"timeout":"PT30S"`), "body.timeout"}, {job_(`"starts_at":"tomorrow"`), "body.starts_at"}, {job_(`"starts_at":1700000000`), "body.starts_at"},
		{job_(`"labels":["a"]`), "body.labels"}, {job_(`"seconds":"yes"`), "body.seconds"}, {job_(`"retry":[]`), "body.retry"}, {job_(`"job_id":7`), "body.job_id"}, {"{'schedule_expr':1}", "body"}, {`{"schedule_expr":"@daily",}`, "body"},
	})
}

// TestAnotherKindOfValue: the message says which kind is expected.
func TestAnotherKindOfValue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for field, want := range map[string]string{
		`"timeout":30`:           `it is a number, and a duration in quotes, such as "30s", is expected`,
		`"exclude":"2026-12-25"`: "it is a string, and an array is expected", `"depends_on":"a"`: "it is a string, and an array is expected",
		`"labels":[]`: "it is an array, and an object is expected", `"max_runs":"5"`: "it is a string, and a whole number is expected",
	} {
		name, _, _ := strings.Cut(field, ":")
		if e := b.do("POST", "/v1/jobs", job_(field)).refused("body." + strings.Trim(name, `"`)); e.Message != want {
			t.Errorf("%s: %s", field, e.Message)
		}
	}
}

// TestPlacesInArrays: an element has its place in one form, whoever finds it wrong.
func TestPlacesInArrays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for body, location := range map[string]string{
		job_(`"exclude":["2026-12-25","xmas"]`):                                     "body.exclude[1]",
		job_(`"exclude":["2026-12-25",7]`):                                          "body.exclude[1]",
		job_(`"depends_on":["a",{}]`):                                               "body.depends_on[1]",
		job_(`"labels":{"0":7}`):                                                    "body.labels.0",
		`{"schedule_exprs":["@daily","60 * * * *"],"target":"https://example.com"}`: "body.schedule_exprs[1]",
		`{"target":{"http":{"json":[0,{"a":[[],{"b":1,"b":2}]}`:                     "body.target.http.json[1].a[1].b",
		`{"target":{"http":{"json":{"1":[[1,2],[3,tru`:                              "body.target.http.json.1[1][1]",
		`{"exclude":["\ud800"`:                                                      "body.exclude[0]",
	} {
		b.do("POST", "/v1/jobs", body).refused(location)
	}
}

func TestFieldsThatAreNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if e := b.do("POST", "/v1/jobs", job_(`"retry":{"max_atempts":3}`)).refused("body.retry.max_atempts"); !strings.Contains(e.Message, "did you mean max_attempts?") {
		t.Errorf("a slip of the keyboard: %s", e.Message)
	}
	if e := b.do("POST", "/v1/jobs", job_(`"status":"paused"`)).refused("body.status"); !strings.Contains(e.Message, "cannot be set") {
		t.Errorf("what is shown: %s", e.Message)
	}
}

func TestBadSchedules(t *testing.T) {
	t.Parallel()
	var cases []struct{ body, location string }
	for _, expr := range []string{
		"", " ", "TZ=0", "TZ=UTC", "CRON_TZ=", "TZ=../../etc/passwd * * * * *", "60 * * * *", "*/0 * * * *", "*/90 * * * *", "0 0 30 2 *", "0 0 31 4,6,9,11 *",
		"@every 0s", "@every -5m", "@every 1ns", "@every 99999999h", "@reboot", "* * * * * * *", strings.Repeat("1,", 10000) + "1 * * * *", "* * * * *\\u0000",
		"\\u202e* * * * *", "\\uff11 * * * *", "1-0 * * * *", "* * * * MON-SUN-TUE", "9999-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z",
	} {
		cases = append(cases, struct{ body, location string }{`{"schedule_expr":"` + expr + `","target":"https://example.com"}`, "body.schedule_expr"})
	}
	for field, location := range map[string]string{
		`"time_zone":""`: "body.time_zone", `"time_zone":"Local"`: "body.time_zone", `"time_zone":"+02:00"`: "body.time_zone", `"time_zone":"Mars/Base"`: "body.time_zone", `"time_zone":"../UTC"`: "body.time_zone",
		`"dst":{"gap":"explode"}`: "body.dst.gap", `"dst":{"fold":"x"}`: "body.dst.fold", `"starts_at":"2027-01-01T00:00:00Z","ends_at":"2026-06-01T00:00:00Z"`: "body.ends_at",
	} {
		cases = append(cases, struct{ body, location string }{job_(field), location})
	}
	cases = append(cases, struct{ body, location string }{`{"schedule_expr":"TZ=UTC 0 6 * * *","time_zone":"Europe/Berlin","target":"https://example.com"}`, "body.schedule_expr"})
	refusals(t, cases)
}

func TestBadNumbers(t *testing.T) {
	t.Parallel()
	var cases []struct{ body, location string }
	for field, values := range map[string][]string{
		"retry.max_attempts": {"-1", "0", "51", "2147483648"}, "retry.multiplier": {"0", "0.5", "-1", "1e300"}, "retry.jitter": {"1.01", "-0.5", "-1", "200"},
		"retry.initial_backoff": {`"0s"`, `"-1s"`, `"1ns"`, `"2562047h"`}, "retry.max_backoff": {`"0s"`, `"9999h"`}, "retry.max_elapsed": {`"0s"`, `"-5m"`, `"99999h"`},
		"timeout": {`"0s"`, `"-1s"`, `"87600h"`, `"1.5ms"`, `"1h1s"`}, "catch_up.max": {"0", "-1", "1001"}, "catch_up.window": {`"0s"`, `"-1h"`}, "catch_up.grace": {`"0s"`, `"-1s"`, `"48h"`},
		"rate_limit":       {`{"per_second":-1}`, `{"per_second":1e9}`, `{"per_second":0,"burst":5}`, `{"per_second":1,"burst":-1}`, `{"per_second":1,"burst":100000}`},
		"rate_limit.burst": {"1.5"}, "on_open_circuit": {`"explode"`},
		"max_outstanding": {"0", "-1", "101"}, "catch_up.policy": {`"some"`},
	} {
		for _, v := range values {
			parent, name, nested := strings.Cut(field, ".")
			text := fmt.Sprintf("%q:%s", parent, v)
			if nested {
				text = fmt.Sprintf("%q:{%q:%s}", parent, name, v)
			}
			cases = append(cases, struct{ body, location string }{job_(text), "body." + field})
		}
	}
	refusals(t, cases)
}

// C85, C88: headers that are ours to set, and addresses inside.
func TestBadTargets(t *testing.T) {
	t.Parallel()
	var cases []struct{ body, location string }
	for _, url := range []string{
		"", "x", "//host", "http:host", "https://", "https://user:pw@example.com", "https://example.com/%00", "https://example.com/a b", "https://example.com/\\t", "https://example.com/\\n", "https://example.com:0",
		"https://example.com:65536", "https://example.com:22", "file:///etc/passwd", "gopher://example.com", "unix:/x", "javascript:alert(1)", "https://example.com/" + strings.Repeat("a", 64<<10), "https://[fe80::1%25eth0]/",
		"http://169.254.169.254/", "https://[::ffff:169.254.169.254]", "http://2852039166/", "http://0.0.0.0", "https://[64:ff9b::7f00:1]", "http://10.0.0.1", "http://0x7f.1", "http://017700000001",
	} {
		cases = append(cases, struct{ body, location string }{`{"schedule_expr":"@daily","target":"` + url + `"}`, "body.target.http.url"})
	}
	for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "TE", "Trailer", "Proxy-Authorization", "Forwarded", "X-Forwarded-For", "Idempotency-Key", "Belfry-Job-Id", "ce-id", "webhook-id", "", "a b", "x:y", "é"} {
		cases = append(cases, struct{ body, location string }{`{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com","headers":{"` + name + `":"v"}}}}`, "body.target.http.headers"})
	}
	for fields, location := range map[string]string{
		`"headers":{"X":"a\r\nY: b"}`: "body.target.http.headers", `"headers":{"x":"1","X":"2"}`: "body.target.http.headers", `"method":"BREW"`: "body.target.http.method", `"method":"post"`: "body.target.http.method",
		`"body":"` + strings.Repeat("x", 64<<10+1) + `"`: "body.target.http.body", `"body":"x","json":1`: "body.target.http.json", `"headers":{"a":1}`: "body.target.http.headers.a", `"headers":{"Authorization":"***"}`: "body.target.http.headers.Authorization",
		`"headers":{"Authorization":"Bearer env://PATH"}`: "body.target.http.headers", `"signing_secret_ref":"whsec_c2VjcmV0"`: "body.target.http.signing_secret_ref", `"signing_secret_ref":"file:///run/../etc/shadow"`: "body.target.http.signing_secret_ref",
	} {
		cases = append(cases, struct{ body, location string }{`{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com",` + fields + `}}}`, location})
	}
	for _, target := range []string{`null`, `{}`, `{"http":null}`} {
		cases = append(cases, struct{ body, location string }{`{"schedule_expr":"@daily","target":` + target + `}`, "body.target"})
	}
	for _, target := range []string{`7`, `[]`, `true`} {
		cases = append(cases, struct{ body, location string }{`{"schedule_expr":"@daily","target":` + target + `}`, "body.target"})
	}
	refusals(t, cases)
}

func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.do("POST", "/v1/jobs", `{"schedule_expr":"61 * * * *","target":"ftp://x","timeout":"0s","retry":{"max_attempts":99}}`).problem(api.CodeInvalid)
	if len(p.Errors) < 4 {
		t.Errorf("%d problems are named: %+v", len(p.Errors), p.Errors)
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/xml", "application/json; charset=latin1", "application/json;;", "multipart/form-data"} {
		p := b.do("POST", "/v1/jobs", spec(""), "Content-Type", kind).problem(api.CodeMediaType)
		if !strings.Contains(p.Detail, "Content-Type: application/json") {
			t.Errorf("%q: %s", kind, p.Detail)
		}
	}
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		b.do("POST", "/v1/jobs", spec(""), "Content-Type", kind).want(201)
	}
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	if _, err := w.Write(bytes.Repeat([]byte(" "), 10<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, enc := range []string{"gzip", "br", "deflate", "gzip, gzip", "zstd"} {
		b.do("POST", "/v1/jobs", bomb.String(), "Content-Encoding", enc).problem(api.CodeMediaType)
	}
	b.do("POST", "/v1/jobs", "").problem(api.CodeMediaType)
	b.do("POST", "/v1/jobs", "", "Content-Type", "application/json").problem(api.CodeMalformed)
}
