package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// results reads an answer of one value a line.
func results[T any](r response) (out []T) {
	r.t.Helper()
	for line := range strings.Lines(r.text) {
		var v T
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&v); err != nil {
			r.t.Fatalf("%v in line %s", err, line)
		}
		out = append(out, v)
	}
	return out
}

func (b *bundle) imports(body string) []api.ImportResult {
	b.t.Helper()
	r := b.do("POST", "/v1/jobs:import", body, "Content-Type", typeNDJSON).want(http.StatusOK)
	if got := r.Header.Get("Content-Type"); got != typeNDJSON {
		b.t.Errorf("Content-Type %s", got)
	}
	return results[api.ImportResult](r)
}

func importLineOf(id, more string) string {
	return `{"job_id":"` + id + `",` + more + `"schedule_expr":"0 6 * * *","target":"https://example.com/hook"}`
}

func TestImport(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lines := []string{
		importLineOf("a", ""), "", importLineOf("b", `"paused":true,`), `{"job_id":"c"}`, "not json", importLineOf("a", `"description":"again",`),
		spec(""), importLineOf("../x", ""), importLineOf("d", `"tiemout":"5s",`), "  " + importLineOf("e", "") + "\r", importLineOf("a", `"description":"again",`),
	}
	got := b.imports(strings.Join(lines, "\n")) // the last line without its end
	want := []string{
		"1 a created", "3 b created", "4 c failed body.schedule_expr", "5  failed body", "6 a updated", "7  failed body.job_id", "8  failed body.job_id",
		"9  failed body.tiemout", "10 e created", "11 a updated",
	}
	for i, w := range want {
		r := got[i]
		text := fmt.Sprintf("%d %s %s", r.Line, r.JobID, r.Result)
		if r.Error != nil {
			text += " " + r.Error.Errors[0].Location
		} else if r.Revision == 0 {
			t.Errorf("line %d has no revision", r.Line)
		}
		if text != w {
			t.Errorf("got %q, want %q", text, w)
		}
	}
	if len(got) != len(want) || got[4].Revision != got[9].Revision {
		t.Errorf("%d results; an identical line made a revision: %v", len(got), got)
	}
	if n := b.count(); n != 3 {
		t.Errorf("%d jobs", n)
	}
	if j := read[api.Job](b.do("GET", "/v1/jobs/b", "").want(200)); !j.Paused {
		t.Error("b is not paused")
	}
}

// Many lines, more than the window holds, come back in their order, each with
// what became of it.
func TestImportKeepsOrder(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Limits.ImportWindow = 300 })
	const n = 3000
	var body strings.Builder
	for i := range n {
		id := fmt.Sprintf("job-%d", i%1000) // each id three times: the last one counts
		body.WriteString(importLineOf(id, fmt.Sprintf(`"description":"%d",`, i)) + "\n")
	}
	got := b.imports(body.String())
	if len(got) != n {
		t.Fatalf("%d results", len(got))
	}
	for i, r := range got {
		want := api.ImportCreated
		if i >= 1000 {
			want = api.ImportUpdated
		}
		if r.Line != int64(i+1) || r.JobID != fmt.Sprintf("job-%d", i%1000) || r.Result != want {
			t.Fatalf("result %d is %+v", i, r)
		}
	}
	for _, j := range b.all("/v1/jobs?page_size=500") {
		if want := "2" + fmt.Sprintf("%03s", strings.TrimPrefix(j.JobID, "job-")); j.Description != want {
			t.Fatalf("%s has the description %s, want %s", j.JobID, j.Description, want)
		}
	}
}

// TestImportBatchesFitAMessage: jobs with large bodies go to their owner in
// messages that a transport takes, each line once and in order.
func TestImportBatchesFitAMessage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	im := &importer{g: b.gw, ctx: t.Context(), name: "i"}
	large := `{"job_id":"a","schedule_expr":"0 6 * * *","target":{"http":{"url":"https://example.com/hook","body":"` + strings.Repeat("x", 60<<10) + `"}}}`
	ch := newChunk(1)
	for i := range 2*maxBatch + 40 {
		line := importLineOf("a", "")
		if i >= maxBatch && i < maxBatch+40 {
			line = large
		}
		ch.add([]byte(line))
	}
	im.parse(ch)
	la := lane{queue: ch.commands(nil)}
	taken := 0
	for batch := la.next(); len(batch) > 0; batch = la.next() {
		cmds := &belfryv1.Commands{}
		for _, l := range batch {
			if l != &ch.lines[taken] {
				t.Fatalf("line %d is not the next", l.result.Line)
			}
			taken++
			cmds.Commands = append(cmds.Commands, l.cmd)
		}
		if n := proto.Size(cmds); n > batchBytes*11/10 || len(batch) > maxBatch {
			t.Errorf("%d commands in %d bytes", len(batch), n)
		}
	}
	if taken != len(ch.lines) {
		t.Errorf("%d of %d lines are taken", taken, len(ch.lines))
	}
	la.queue = []*importLine{{size: 2 * batchBytes}, {size: 1}}
	for i, want := range []int{1, 1, 0} {
		if n := len(la.next()); n != want || la.busy != (want > 0) {
			t.Errorf("batch %d: %d commands, busy: %t", i, n, la.busy)
		}
	}
}

// An answer comes while the client still sends: it may wait for one before it
// goes on.
func TestImportAnswersWhileItReads(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Limits.Imports = 1 })
	in, out := io.Pipe()
	req, err := http.NewRequest("POST", b.srv.URL+"/v1/jobs:import", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", typeNDJSON)
	resp, err := b.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answers := bufio.NewReader(resp.Body)
	for i := range 5 {
		if _, err := io.WriteString(out, importLineOf(fmt.Sprintf("j%d", i), "")+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadString('\n')
		if err != nil || !strings.Contains(line, `"created"`) {
			t.Fatalf("line %d: %s, %v", i, line, err)
		}
		b.do("GET", fmt.Sprintf("/v1/jobs/j%d", i), "").want(200)
		b.do("POST", "/v1/jobs:import", "\n", "Content-Type", typeNDJSON).problem(api.CodeOverloaded)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(answers); err != nil || len(rest) != 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

func TestImportLineThatIsTooLong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := importLineOf("long", `"description":"`+strings.Repeat("x", DefaultBody)+`",`)
	got := b.imports(importLineOf("a", "") + "\n" + long + "\n" + long + "\n" + importLineOf("b", "") + "\n" + long)
	var text []string
	for _, r := range got {
		code := ""
		if r.Error != nil {
			code = r.Error.Code
		}
		text = append(text, fmt.Sprintf("%d%s%s", r.Line, r.JobID, code))
	}
	if s := strings.Join(text, " "); s != "1a 2body_too_large 3body_too_large 4b 5body_too_large" {
		t.Errorf("got %s", s)
	}
}

// A body that breaks off: what was read is answered, and a last line says so.
func TestImportThatBreaksOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial()
	body := importLineOf("a", "") + "\n"
	fmt.Fprintf(conn, "POST /v1/jobs:import HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", typeNDJSON, len(body)+100, body)
	closeWrite(t, conn)
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"job_id":"a","result":"created"`) || !strings.Contains(string(text), `"code":"malformed_json"`) {
		t.Errorf("answer %s", text)
	}
}

// An owner that is away for a moment is asked again, under the same ids; one
// that stays away fails its lines and no others.
func TestImportWithAnOwnerAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gone := job.PartitionOf("gone", testPartitions)
	var mu sync.Mutex
	asked := 0
	b.owners.before = func(msg proto.Message) error {
		cmds, ok := msg.(*belfryv1.Commands)
		if !ok {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if job.PartitionOf(cmds.GetCommands()[0].GetJobId(), testPartitions) == gone {
			asked++
			return job.ErrNoOwner
		}
		return nil
	}
	late := 0
	b.owners.refuse = func(cmd *belfryv1.Command) *belfryv1.Refusal {
		if cmd.GetJobId() == "late" && late < 2 {
			late++
			return &belfryv1.Refusal{Code: belfryv1.Refusal_CODE_UNAVAILABLE}
		}
		return nil
	}
	got := b.imports(importLineOf("gone", "") + "\n" + importLineOf("late", "") + "\n")
	if got[0].Error == nil || got[0].Error.Code != api.CodeOwnerAway || asked != laneTries {
		t.Errorf("gone: %+v after %d tries", got[0], asked)
	}
	if got[1].Result != api.ImportCreated || late != 2 {
		t.Errorf("late: %+v", got[1])
	}
}

func TestImportThatIsNotBegun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("POST", "/v1/jobs:import", importLineOf("a", "")).problem(api.CodeMediaType)
	b.do("POST", "/v1/jobs:import", importLineOf("a", ""), "Content-Type", typeNDJSON, "Content-Encoding", "gzip").problem(api.CodeMediaType)
	b.do("POST", "/v1/jobs:import", importLineOf("a", ""), "Content-Type", typeNDJSON, keyHeader, "k").refused("header." + keyHeader)
	if got := b.imports("\n\n"); len(got) != 0 {
		t.Errorf("nothing but empty lines: %v", got)
	}
	if n := b.count(); n != 0 {
		t.Errorf("%d jobs", n)
	}
}

// A client that sends everything before it reads anything is served too, as far
// as the outbox reaches.
func TestImportToAClientThatReadsLast(t *testing.T) {
	t.Parallel()
	box := newOutbox(1 << 20)
	line := bytes.Repeat([]byte("x"), 64<<10)
	for range 16 {
		if err := box.put(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	full := make(chan error)
	go func() { full <- box.put(t.Context(), line) }()
	rec := &call{g: setup(t).gw, w: discard{}}
	box2 := make(chan error)
	go func() { box2 <- box.drain(&lines{c: rec, rc: http.NewResponseController(rec.w)}) }()
	if err := <-full; err != nil {
		t.Fatal(err)
	}
	box.close()
	if err := <-box2; err != nil {
		t.Fatal(err)
	}
}

type discard struct{ http.ResponseWriter }

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) FlushError() error           { return nil }

// A client that goes away in the middle ends its import: nothing of it is left
// running, and what was sent before is stored.
func TestImportWhoseClientGoes(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Limits.Imports = 1 })
	in, out := io.Pipe()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", b.srv.URL+"/v1/jobs:import", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", typeNDJSON)
	resp, err := b.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(out, importLineOf("a", "")+"\n"+importLineOf("b", "")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.Contains(line, `"created"`) {
		t.Fatalf("%s, %v", line, err)
	}
	leave()
	_ = resp.Body.Close()
	_ = out.Close()
	for b.gw.limits.imports.Load() > 0 {
		runtime.Gosched()
	}
	b.do("GET", "/v1/jobs/a", "").want(200)
}
