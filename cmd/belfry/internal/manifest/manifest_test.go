package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/manifest"
)

func read(t *testing.T, text string) []string {
	t.Helper()
	jobs, err := manifest.Read([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var out []string
	for _, j := range jobs {
		out = append(out, j.ID+" "+string(j.Body))
	}
	return out
}

func TestAllShapesOfAFile(t *testing.T) {
	t.Parallel()
	want := []string{`a {"job_id":"a"}`, `b {"job_id":"b"}`}
	for name, text := range map[string]string{
		"yaml documents": "job_id: a\n---\njob_id: b\n---\n",
		"yaml list":      "- job_id: a\n- job_id: b\n",
		"json list":      "[\n\t{\"job_id\": \"a\"},\n\t{\"job_id\": \"b\"}\n]",
		"yaml flow":      "{job_id: a}\n---\n{job_id: b}\n",
		"json lines":     "{\"job_id\":\"a\"}\n{\"job_id\":\"b\"}\n",
	} {
		if diff := cmp.Diff(want, read(t, text)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestScalarsKeepTheirMeaning(t *testing.T) {
	t.Parallel()
	got := read(t, `
job_id: "007"
starts_at: 2026-01-02T03:04:05Z
description: on
labels: &l {day: "2026-01-02", version: "1.10"}
other: *l
max_runs: 9007199254740993
seconds: true
ends_at: ~
retry: {jitter: .5, max_attempts: 0x10}
`)
	want := []string{`007 {"description":"on","ends_at":null,"job_id":"007","labels":{"day":"2026-01-02","version":"1.10"},"max_runs":9007199254740993,` +
		`"other":{"day":"2026-01-02","version":"1.10"},"retry":{"jitter":0.5,"max_attempts":16},"seconds":true,"starts_at":"2026-01-02T03:04:05Z"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatTheServerAddedIsLeftOut(t *testing.T) {
	t.Parallel()
	got := read(t, `{"job_id":"a","schedule_expr":"@daily","paused":true,"status":"paused","revision":7,"next_runs":[],"counts":{},"created_at":"x","mistyped":1}`)
	if diff := cmp.Diff([]string{`a {"job_id":"a","mistyped":1,"paused":true,"schedule_expr":"@daily"}`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 [x]\n"
	for i := range 20 {
		bomb += fmt.Sprintf("a%d: &a%[1]d [*a%[2]d, *a%[2]d, *a%[2]d, *a%[2]d]\n", i+1, i)
	}
	for text, want := range map[string]string{
		"":                            "no job",
		"schedule_expr: x\n":          "document 1: it has no job_id",
		"job_id: a\n---\njust text\n": "document 2: it is no object",
		"job_id: a\njob_id: b\n":      "line 2",
		`{"job_id":"a","job_id":"b"}`: "duplicate",
		`{"job_id":"a"`:               "read JSON",
		"job_id: [a\n":                "read YAML",
		"job_id: 7\n":                 "not text",
		"job_id: a\nx: .nan\n":        "no number",
		"job_id: a\nx: !!binary aGk=": "not part of a job",
		"job_id: a\n<<: {x: 1}\n":     "plain word",
		bomb:                          "larger than",
	} {
		if _, err := manifest.Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("job_id: a\n---\n- job_id: &x b\n  y: *x\n"))
	f.Add([]byte(`{"job_id":"a","target":{"http":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		jobs, err := manifest.Read(text)
		for _, j := range jobs {
			if err == nil && !j.Body.IsValid() {
				t.Errorf("the body is no JSON: %s", j.Body)
			}
		}
	})
}
