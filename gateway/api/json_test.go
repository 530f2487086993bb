package api

import (
	"encoding/json"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

func TestDurationText(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", time.Millisecond: "1ms", 30 * time.Second: "30s", time.Minute: "1m", 90 * time.Second: "1m30s", 10 * time.Minute: "10m",
		time.Hour: "1h", 24 * time.Hour: "24h", time.Hour + 30*time.Second: "1h0m30s", 90 * time.Minute: "1h30m", -time.Minute: "-1m",
	} {
		got := Duration(d).String()
		var back Duration
		if err := back.UnmarshalText([]byte(got)); got != want || err != nil || time.Duration(back) != d {
			t.Errorf("%d is written %q and read back as %v, %v; want %q", d, got, back, err, want)
		}
	}
	var d Duration
	for _, bad := range []string{"", "30", "PT30S", "1 minute", "1d"} {
		if err := d.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was read as %v", bad, d)
		}
	}
}

// The types read and write the same in both JSON packages.
func TestBothJSONPackages(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"schedule_expr":"@daily","target":"https://example.com"}`:                                           `{"schedule_expr":"@daily","target":{"http":{"url":"https://example.com"}}}`,
		`{"job_id":"a","schedule_expr":"@daily","target":{"http":{"url":"x","json":{"a":1}}},"timeout":"1m"}`: `{"job_id":"a","schedule_expr":"@daily","target":{"http":{"url":"x","json":{"a":1}}},"timeout":"1m"}`,
		`{"target":{"http":{"url":"x","json":""}}}`:                                                           `{"target":{"http":{"url":"x","json":""}}}`,
		`{"target":{"actor":{"kind":"a","identity":"b","payload":[]}}}`:                                       `{"target":{"actor":{"kind":"a","identity":"b","payload":[]}}}`,
		`{"target":{"queue":{"name":"q","payload":{}}}}`:                                                      `{"target":{"queue":{"name":"q","payload":{}}}}`,
		`{"target":{"nats":{"subject":"s","payload":{}}}}`:                                                    `{"target":{"nats":{"subject":"s","payload":{}}}}`,
		`{"target":{"kafka":{"topic":"t","payload":[]}}}`:                                                     `{"target":{"kafka":{"topic":"t","payload":[]}}}`,
	} {
		var one, two JobRequest
		if err := json.Unmarshal([]byte(in), &one); err != nil {
			t.Fatal(err)
		}
		if err := jsonv2.Unmarshal([]byte(in), &two, jsonv2.RejectUnknownMembers(true)); err != nil {
			t.Fatal(err)
		}
		for _, v := range []JobRequest{one, two} {
			old, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			fresh, err := jsonv2.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if string(old) != want || string(fresh) != want {
				t.Errorf("%s became\n%s\n%s", in, old, fresh)
			}
		}
	}
	var strict JobRequest
	if err := jsonv2.Unmarshal([]byte(`{"target":{"http":{"url":"x","colour":"red"}}}`), &strict, jsonv2.RejectUnknownMembers(true)); err == nil {
		t.Error("an unknown name inside a target was not found")
	}
}

func TestProblemAsText(t *testing.T) {
	t.Parallel()
	p := &Problem{Title: "T", Detail: "D", Errors: []FieldProblem{{Location: "body.x", Message: "m"}}}
	if got := p.Error(); got != "D\nbody.x: m" {
		t.Errorf("got %q", got)
	}
	if got := (&Problem{Title: "T"}).Error(); got != "T" {
		t.Errorf("got %q", got)
	}
}
