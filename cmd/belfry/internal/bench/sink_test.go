package bench

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheSinkTakesDownWhatRawSends(t *testing.T) {
	sink, err := StartSink()
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Stop()
	r, err := Raw{Count: 300, Connections: 8, BodyBytes: 100, Runs: 1}.Run(t.Context(), sink)
	if err != nil || len(r.Problems) != 0 {
		t.Fatalf("problems = %v, %v", r.Problems, err)
	}

	p := plan(2, 1)
	ledger := NewLedger(p)
	sink.Use(ledger)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for range 2 {
		if err := deliver(t.Context(), transport, sink.URL(), p.JobID(0), p.Due(0), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := settle(t.Context(), ledger, time.Millisecond, 0); err != nil {
		t.Fatal(err)
	}
	v := ledger.Judge(time.Hour)
	if v.Received != 2 || v.Missing != 1 || v.DoubledKeys != 1 || v.DoubledSlots != 1 || v.Unexpected != 0 {
		t.Errorf("verdict = %+v", v)
	}
}

func TestAJobIsAsLargeAsAsked(t *testing.T) {
	t.Parallel()
	first := func(i int) time.Time { return t0.Add(time.Duration(i) * time.Millisecond) }
	j := Jobs{
		Plan: Plan{Prefix: "p-", Jobs: 3, Slots: 2, First: first}, URL: "http://127.0.0.1:1/hook", Size: 300,
		Schedule: func(int) string { return "@every 1s" }, Starts: first, Ends: func(i int) time.Time { return first(i).Add(2 * time.Second) },
	}
	line := j.line([]byte("before"), 2)[len("before"):]
	var got struct {
		JobID        string    `json:"job_id"`
		ScheduleExpr string    `json:"schedule_expr"`
		StartsAt     time.Time `json:"starts_at"`
		EndsAt       time.Time `json:"ends_at"`
		Target       struct{ HTTP struct{ URL, Body string } }
	}
	if err := json.Unmarshal(line, &got); err != nil || len(line) != 300 {
		t.Fatalf("%d bytes: %s (%v)", len(line), line, err)
	}
	if got.JobID != "p-00000002" || got.ScheduleExpr != "@every 1s" || !got.StartsAt.Equal(first(2)) || !got.EndsAt.Equal(first(2).Add(2*time.Second)) || got.Target.HTTP.URL != j.URL {
		t.Errorf("line = %s", line)
	}
	if len(got.Target.HTTP.Body) != j.BodyLength(2) || strings.Trim(got.Target.HTTP.Body, "x") != "" {
		t.Errorf("body = %q, and BodyLength is %d", got.Target.HTTP.Body, j.BodyLength(2))
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	r := Report{Bench: "x", Machine: Machine{CPUs: 2}, Params: Values{{"b", 1}, {"a", "two"}}}
	r.metric("n", 3)
	r.atLeast("rate_per_s", 10, 20)
	r.atMost("early", 0, 0)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"bench":"x","machine":{"cpus":2,"os":"","arch":"","go":""},"params":{"b":1,"a":"two"},` +
		`"metrics":{"n":3,"rate_per_s":10,"early":0},` +
		`"goals":{"rate_per_s":{"goal":"≥ 20","met":false},"early":{"goal":"≤ 0","met":true}},"problems":[]}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"rate_per_s is 10, and the goal is ≥ 20"}, r.Unmet()); diff != "" {
		t.Error(diff)
	}
}

func TestSleepingJobsAreDueFarFromNow(t *testing.T) {
	t.Parallel()
	for i, schedule := range []string{"0 6 * * *", "1 6 * * *"} {
		if got := sleeping(time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC))(i); got != schedule {
			t.Errorf("job %d has %q", i, got)
		}
	}
	if got := sleeping(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))(719); got != "59 17 * * *" {
		t.Errorf("the last job has %q", got)
	}
}
