package gateway

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// payloads are JSON values that an encoder may take for nothing or write in
// another way, and what is sent of them.
var payloads = map[string]string{
	`{}`: `{}`, `[]`: `[]`, `0`: `0`, `-0.0`: `-0.0`, `false`: `false`, `[null]`: `[null]`, `{"a":null}`: `{"a":null}`, `{"":""}`: `{"":""}`,
	`[{}, [], ""]`: `[{},[],""]`, `{"\u003c&\/": "\u2028"}`: "{\"<&/\":\"\u2028\"}",
}

// payloadTargets have a place for a payload.
var payloadTargets = map[string]string{
	"http":  `{"http":{"url":"https://example.com","json":%}}`,
	"actor": `{"actor":{"kind":"cart","identity":"17","payload":%}}`,
	"queue": `{"queue":{"name":"emails","payload":%}}`,
	"nats":  `{"nats":{"subject":"orders","payload":%}}`,
	"kafka": `{"kafka":{"broker":"events","topic":"orders","payload":%}}`,
}

// A job that was read is the same job when it is put, patched in another place or
// imported, and an empty object is not taken for no payload.
func TestAPayloadStaysWhatItIs(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Brokers = map[string]string{"default": "nats", "events": "kafka"} })
	for kind, target := range payloadTargets {
		values := map[string]string{`""`: "", `null`: "", `"[\"\\u003c\"]"`: `["\u003c"]`, `"text"`: "text"} // a payload of text
		if kind == "http" {
			values = map[string]string{`""`: `""`, `null`: "", `"text"`: `"text"`} // json sends the quotes
		}
		for given, sent := range payloads {
			values[given] = sent
		}
		for given, sent := range values {
			body := `{"job_id":"a","schedule_expr":"@daily","target":` + strings.Replace(target, "%", given, 1) + `}`
			j := read[api.Job](b.do("PUT", "/v1/jobs/a", body).want(http.StatusCreated))
			if got := payloadIn(b.owners.get(t.Context(), "a").GetSpec().GetTarget()); string(got) != sent {
				t.Fatalf("%s %s is stored as %q", kind, given, got)
			}
			again, err := encode(api.JobRequest{JobID: "a", JobSpec: j.JobSpec})
			if err != nil {
				t.Fatal(err)
			}
			ways := map[string]func(){
				"PUT":    func() { b.do("PUT", "/v1/jobs/a", string(again)).want(http.StatusOK) },
				"PATCH":  func() { b.do("PATCH", "/v1/jobs/a", `{"description":"other"}`).want(http.StatusOK) },
				"import": func() { b.imports(string(again)) },
			}
			for way, send := range ways {
				send()
				if got := payloadIn(b.owners.get(t.Context(), "a").GetSpec().GetTarget()); string(got) != sent {
					t.Errorf("%s %s is stored as %q after a %s of %s", kind, given, got, way, again)
				}
			}
			b.do("DELETE", "/v1/jobs/a", "").want(http.StatusNoContent)
		}
	}
}

func payloadIn(t *belfryv1.Target) []byte {
	return bytes.Join([][]byte{t.GetHttp().GetBody(), t.GetActor().GetPayload(), t.GetQueue().GetPayload(), t.GetNats().GetPayload(), t.GetKafka().GetPayload()}, nil)
}
