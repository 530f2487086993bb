package output_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/output"
)

type item struct {
	ID   string            `json:"id"`
	Note string            `json:"note"`
	N    int64             `json:"count"`
	Tags map[string]string `json:"tags,omitempty"`
}

func view() output.View[item] {
	return output.View[item]{
		Name: func(i item) string { return i.ID },
		Columns: []output.Column[item]{
			{Header: "ID", Cell: func(i item) string { return i.ID }},
			{Header: "NOTE", Cell: func(i item) string { return i.Note }},
		},
	}
}

func list(t *testing.T, f output.Format, items ...item) string {
	t.Helper()
	var buf bytes.Buffer
	w := output.NewWriter(&buf, f, view())
	for _, i := range items {
		if err := w.Add(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestLists(t *testing.T) {
	t.Parallel()
	items := []item{{ID: "a", Note: "<x> & y", N: 1 << 60}, {ID: "long-id", Note: "no", Tags: map[string]string{"k": "2026-01-02"}}}
	for f, want := range map[output.Format]string{
		output.Table: "ID        NOTE\na         <x> & y\nlong-id   no\n",
		output.JSON: `[
  {
    "id": "a",
    "note": "<x> & y",
    "count": 1152921504606846976
  },
  {
    "id": "long-id",
    "note": "no",
    "count": 0,
    "tags": {
      "k": "2026-01-02"
    }
  }
]
`,
		output.JSONL: `{"id":"a","note":"<x> & y","count":1152921504606846976}
{"id":"long-id","note":"no","count":0,"tags":{"k":"2026-01-02"}}
`,
		output.YAML: `- id: a
  note: <x> & y
  count: 1152921504606846976
- id: long-id
  note: "no"
  count: 0
  tags:
    k: "2026-01-02"
`,
		output.Name: "a\nlong-id\n",
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want, list(t, f, items...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEmptyListsAreStillDocuments(t *testing.T) {
	t.Parallel()
	for f, want := range map[output.Format]string{output.JSON: "[]\n", output.YAML: "[]\n", output.JSONL: "", output.Name: "", output.Table: "ID   NOTE\n"} {
		if got := list(t, f); got != want {
			t.Errorf("%s: %q, want %q", f, got, want)
		}
	}
}

func TestOneIsAnObject(t *testing.T) {
	t.Parallel()
	for f, want := range map[output.Format]string{
		output.JSON:  "{\n  \"id\": \"a\",\n  \"note\": \"\",\n  \"count\": 0\n}\n",
		output.YAML:  "id: a\nnote: \"\"\ncount: 0\n",
		output.Name:  "a\n",
		output.JSONL: "{\"id\":\"a\",\"note\":\"\",\"count\":0}\n",
	} {
		var buf bytes.Buffer
		if err := output.One(&buf, f, view(), item{ID: "a"}); err != nil || buf.String() != want {
			t.Errorf("%s: %q (%v), want %q", f, buf.String(), err, want)
		}
	}
}

func TestWhatOthersWroteCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	got := list(t, output.Table, item{ID: "a\x1b[2J", Note: "x\ny\t\u202ez"})
	if strings.ContainsAny(got, "\x1b\u202e\t") || strings.Count(got, "\n") != 2 {
		t.Errorf("table = %q", got)
	}
}

func TestFormatAsFlag(t *testing.T) {
	t.Parallel()
	var f output.Format
	if err := f.Set("yaml"); err != nil || f != output.YAML {
		t.Errorf("Set(yaml) = %v, %q", err, f)
	}
	if err := f.Set("xml"); err == nil || !strings.Contains(err.Error(), "table, json, jsonl, yaml, name") {
		t.Errorf("Set(xml) = %v", err)
	}
}
