package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// fields is the JSON that some flags make.
func fields(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var f jobFlags
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.add(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	out, err := f.fields(flags, strings.NewReader("from stdin"))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil
}

func TestOnlyGivenFlagsBecomeFields(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                                     `{}`,
		"--schedule @daily --time-zone CET":    `{"schedule_expr":"@daily","schedule_exprs":null,"time_zone":"CET"}`,
		"--retry 5":                            `{"retry":{"max_attempts":5}}`,
		"--retry 3,max-backoff=1m,jitter=0.10": `{"retry":{"jitter":0.10,"max_attempts":3,"max_backoff":"1m"}}`,
		"--catch-up all,max=7":                 `{"catch_up":{"max":7,"policy":"all"}}`,
		"--dst-gap skip":                       `{"dst":{"gap":"skip"}}`,
		"--header A=b=c --header D-":           `{"target":{"http":{"headers":{"A":"b=c","D":null}}}}`,
		"--label k=v --label old-":             `{"labels":{"k":"v","old":null}}`,
		"--body @-":                            `{"target":{"http":{"body":"from stdin","json":null}}}`,
		`--json {"n":1e2}`:                     `{"target":{"http":{"body":null,"json":{"n":1e2}}}}`,
		"--starts-at 2026-01-01T00:00:00+01:00 --ends-at": `{"ends_at":null,"starts_at":"2026-01-01T00:00:00+01:00"}`,
		"--timeout 90s --seconds --max-outstanding 3":     `{"max_outstanding":3,"seconds":true,"timeout":"1m30s"}`,
	} {
		list := strings.Fields(args)
		if last(list) == "--ends-at" {
			list = append(list, "")
		}
		got, err := fields(t, list...)
		if err != nil || got != want {
			t.Errorf("%s: %s, %v\nwant %s", args, got, err, want)
		}
	}
}

func last(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

func TestNextRunsAreContinuedFromTheServersOwn(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 1, 1, 0, 0, 7, 5e6, time.UTC)
	j := api.Job{JobSpec: api.JobSpec{ScheduleExpr: "@every 10s"}}
	for i := range 5 {
		at := first.Add(time.Duration(i) * 10 * time.Second)
		j.NextRuns, j.NextRunsLocal = append(j.NextRuns, at), append(j.NextRunsLocal, at.Format(time.RFC3339Nano))
	}
	e, err := nextRuns(j, 8)
	if err != nil || len(e.NextRuns) != 8 || len(e.NextRunsLocal) != 8 || !e.NextRuns[7].Equal(first.Add(70*time.Second)) {
		t.Errorf("%v, %v", e.NextRuns, err)
	}
	if e, err := nextRuns(j, 2); err != nil || len(e.NextRuns) != 2 {
		t.Errorf("%v, %v", e.NextRuns, err)
	}
}

func TestSlug(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, command := range []string{"/usr/bin/backup --all", "mail", "/a/b/c.sh", "% ./", strings.Repeat("very long ", 20), "Größe"} {
		got[command] = slug(command)
	}
	want := map[string]string{
		"/usr/bin/backup --all": "backup-all", "mail": "mail", "/a/b/c.sh": "c-sh", "% ./": "job", "Größe": "gr-e",
		strings.Repeat("very long ", 20): "very-long-very-long-very-long-very-long",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheEchoTargetIsNextToTheAPI(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:8380": "127.0.0.1:8381", "0.0.0.0:9000": "127.0.0.1:9001", "127.0.0.1:0": "127.0.0.1:0", "127.0.0.1:65535": "127.0.0.1:0", "x": "127.0.0.1:0",
	} {
		if got := echoAddr(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
