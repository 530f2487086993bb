package gateway

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// FuzzRequest: whatever is sent, it becomes a job that reads back as itself, or
// a problem that says where and what; never a panic, never an internal error.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		spec(""), spec(`"labels":{"a":"b"},"paused":true`), `{"schedule_expr":"@every 10m","starts_at":"2026-01-01T00:00:00Z","target":{"http":{"url":"https://example.com/?token=x","json":{"a":[1,2]},"headers":{"Authorization":"***"}}}}`,
		`{"schedule_expr":"2026-03-01T11:59:30Z","past":"run_now","target":"https://example.com","retry":{"jitter":0,"multiplier":1.5},"dst":{"gap":"skip"}}`,
		`{`, `{"a":1,"a":2}`, "\xef\xbb\xbf{}", `{"schedule_expr":"\ud800"}`, `[[[[[[`, `{"retry":{"max_attempts":1e309}}`, `{"target":7}`, `{"depends_on":[]}`,
		`{"schedule_expr":"@everY 10m","starts_at":"2000-01-01T00:00:00Z","target":{"http":{"url":"https://0000000000A0?0000000","json":{}}}}`,
		`{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com","json":{"\u003c":"\u2028"}}}}`,
		`{"schedule_expr":"@daily","target":{"queue":{"name":"q","payload":"[\"\\u003c\"]"}}}`,
		`{"schedule_expr":"@daily","target":{"actor":{"kind":"cart","identity":"17","payload":{"a":[1,2.50]}}}}`,
		`{"schedule_expr":"@daily","target":{"actor":{"kind":"cart","identity":"17","payload":"\"quoted\""}}}`,
		`{"schedule_expr":"@daily","target":{"actor":{"kind":"cart","identity":"17","payload":"` + strings.Repeat("[", DefaultDepth) + strings.Repeat("]", DefaultDepth) + `"}}}`,
		`{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com","headers":{"Content-Type":"application/json"},"body":"` + strings.Repeat("[", DefaultDepth) + strings.Repeat("]", DefaultDepth) + `"}}}`,
	} {
		f.Add([]byte(seed))
	}
	b := setup(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		req := new(api.JobRequest)
		err := decode(body, DefaultDepth, req)
		var reg *registration
		if err == nil {
			reg, err = b.gw.check(req, noPrior, start)
		}
		if err != nil {
			p := asProblem(err)
			if p.Status != http.StatusBadRequest || len(p.Errors) == 0 || len(p.Detail) == 0 {
				t.Fatalf("%q: %+v", body, p)
			}
			for _, e := range p.Errors {
				if !strings.HasPrefix(e.Location, "body") || !utf8.ValidString(e.Message+e.Location) || strings.ContainsAny(e.Message, "\n\r\x00\x1b") {
					t.Fatalf("%q: %+v", body, e)
				}
			}
			return
		}
		again, err := encode(api.JobRequest{JobSpec: revealSpec(reg.spec)})
		if err != nil {
			t.Fatal(err)
		}
		back := new(api.JobRequest)
		if err := decode(again, DefaultDepth, back); err != nil {
			t.Fatalf("%q is shown as %s: %v", body, again, err)
		}
		kept := &stored{spec: reg.spec}
		second, err := b.gw.check(back, func() (*stored, error) { return kept, nil }, start)
		if err != nil {
			t.Fatalf("%q is shown as %s: %v", body, again, err)
		}
		if one, two := b.owners.encode(reg.spec), b.owners.encode(second.spec); len(reg.spec.GetLabels()) < 2 && len(reg.spec.GetTarget().GetHttp().GetHeaders()) < 2 && !bytes.Equal(one, two) {
			t.Fatalf("%q became another job: %v, %v", body, reg.spec, second.spec)
		}
	})
}

// FuzzToken: a token that this gateway has not made is refused.
func FuzzToken(f *testing.F) {
	f.Add("AAAA")
	f.Add(strings.Repeat("A", 2000))
	b := setup(f)
	f.Fuzz(func(t *testing.T, token string) {
		var at executionToken
		c := &call{g: b.gw, query: map[string][]string{"page_token": {token}}}
		var p *problem
		if err := b.gw.openToken(c, "list", &at); !errors.As(err, &p) || p.Status != 400 {
			t.Fatalf("%q: %v, %+v", token, err, at)
		}
	})
}
