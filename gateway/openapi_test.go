package gateway

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write openapi.json anew")

func TestOpenAPIIsCommitted(t *testing.T) {
	doc, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi.json", doc, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(doc, committed) {
		t.Error("openapi.json is not what the routes say: run go generate ./gateway and commit it")
	}
}

// Every address of the API is in the document, and what the document says of
// parameters is what a request is checked by.
func TestOpenAPISaysWhatIsThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct {
				Name, In, Description string
			} `json:"parameters"`
			Responses map[string]any `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	r := b.do("GET", "/openapi.json", "").want(http.StatusOK)
	if err := json.Unmarshal([]byte(r.text), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("OpenAPI %s", doc.OpenAPI)
	}
	seen := map[string]bool{}
	for _, rt := range b.gw.routes() {
		op, ok := doc.Paths[rt.path][strings.ToLower(rt.method)]
		if !ok || op.OperationID == "" || seen[op.OperationID] {
			t.Errorf("%s %s is not in the document, or under a name that is taken", rt.method, rt.path)
		}
		seen[op.OperationID] = true
		if len(op.Parameters) != len(rt.params) || op.Responses["400"] == nil {
			t.Errorf("%s %s: parameters %v, answers %v", rt.method, rt.path, op.Parameters, op.Responses)
		}
		if strings.Contains(rt.path, "{") != (len(rt.params) > 0 && rt.params[0].in == "path") {
			t.Errorf("%s: its id is not described", rt.path)
		}
	}
	for _, name := range []string{"JobRequest", "Job", "Execution", "Problem", "Target"} {
		if doc.Components.Schemas[name] == nil {
			t.Errorf("no schema %s", name)
		}
	}
	if !bytes.Contains(doc.Components.Schemas["Target"], []byte("oneOf")) {
		t.Error("a target is not said to be a URL or an object")
	}
}
