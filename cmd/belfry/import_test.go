package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// importServer takes lines, except of the one request that it turns away.
type importServer struct {
	requests, turnAway int
	lines              []string
}

func (s *importServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.requests++; s.requests == s.turnAway {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"title":"away","detail":"the owner is away","code":"owner_unavailable"}`)
		return
	}
	in := bufio.NewScanner(r.Body)
	var out bytes.Buffer
	for n := int64(1); in.Scan(); n++ {
		s.lines = append(s.lines, in.Text())
		_ = json.NewEncoder(&out).Encode(api.ImportResult{Line: n, Result: api.ImportCreated})
	}
	_, _ = w.Write(out.Bytes())
}

// command runs a command line in this process.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, environ: func() []string { return nil }}
	root := newRoot(a)
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		code = exitCode(t.Context(), err)
		report(&errs, code, err)
	}
	return code, out.String(), errs.String()
}

func TestAnImportThatWasBrokenOffGoesOn(t *testing.T) {
	t.Parallel()
	s := &importServer{turnAway: 2}
	server := httptest.NewServer(s)
	defer server.Close()
	const total = 12_000
	var text strings.Builder
	for i := range total {
		fmt.Fprintf(&text, "{\"job_id\":\"j%d\"}\n", i)
	}
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"import", "jsonl", file, "--connections", "1", "--server", server.URL, "-o", "json"}

	code, _, stderr := command(t, args...)
	if code != exitUnavailable || !strings.Contains(stderr, "broken off after line 5000") || !strings.Contains(stderr, "the owner is away") {
		t.Fatalf("code %d: %s", code, stderr)
	}
	code, stdout, stderr := command(t, args...)
	if code != exitOK || !strings.Contains(stderr, "going on after line 5000") || !strings.Contains(stdout, `"lines": 7000`) {
		t.Fatalf("code %d: %s%s", code, stderr, stdout)
	}
	if got := strings.Join(s.lines, "\n") + "\n"; got != text.String() {
		t.Errorf("%d lines arrived, not each of %d once", len(s.lines), total)
	}
	if _, err := os.Stat(file + ".progress"); !os.IsNotExist(err) {
		t.Errorf("the progress is still there: %v", err)
	}

	s.lines, s.turnAway = nil, s.requests+2
	if code, _, _ := command(t, args...); code != exitUnavailable {
		t.Fatalf("code %d", code)
	}
	if code, stdout, _ := command(t, append(args, "--restart")...); code != exitOK || !strings.Contains(stdout, `"lines": 12000`) {
		t.Errorf("code %d: %s", code, stdout)
	}
}
