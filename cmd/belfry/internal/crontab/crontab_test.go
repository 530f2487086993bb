package crontab_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/crontab"
)

func parse(t *testing.T, text string) (entries []crontab.Entry, problems []string) {
	t.Helper()
	err := crontab.Parse(strings.NewReader(text),
		func(e crontab.Entry) error { entries = append(entries, e); return nil },
		func(p *crontab.Problem) error { problems = append(problems, p.Error()); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return entries, problems
}

func TestParse(t *testing.T) {
	t.Parallel()
	entries, problems := parse(t, `# a comment
MAILTO = "ops@example.com"
5 0 * * *   /usr/bin/backup --all

CRON_TZ=Europe/Berlin
	*/10	8-18 * jan-mar mon,wed  report "a b"
@daily clean # not a comment here
TZ=":America/New_York"
0 9 * * 7 mail -s "100\% done" me%Hello%there
`)
	if len(problems) != 0 {
		t.Errorf("problems = %v", problems)
	}
	env := map[string]string{"MAILTO": "ops@example.com"}
	want := []crontab.Entry{
		{Line: 3, Schedule: "5 0 * * *", Command: "/usr/bin/backup --all", Env: env},
		{Line: 6, Schedule: "*/10 8-18 * jan-mar mon,wed", Zone: "Europe/Berlin", Command: `report "a b"`, Env: env},
		{Line: 7, Schedule: "@daily", Zone: "Europe/Berlin", Command: "clean # not a comment here", Env: env},
		{Line: 9, Schedule: "0 9 * * 7", Zone: "America/New_York", Command: `mail -s "100% done" me`, Stdin: "Hello\nthere", Env: env},
	}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Error(diff)
	}
}

func TestVariablesDoNotReachBack(t *testing.T) {
	t.Parallel()
	entries, _ := parse(t, "A=1\n* * * * * one\nA=2\n* * * * * two\n")
	if len(entries) != 2 || entries[0].Env["A"] != "1" || entries[1].Env["A"] != "2" {
		t.Errorf("entries = %v", entries)
	}
}

func TestACommandMayContainAnEqualsSign(t *testing.T) {
	t.Parallel()
	entries, problems := parse(t, "* * * * * A=1 run\n")
	if len(entries) != 1 || entries[0].Command != "A=1 run" || len(problems) != 0 {
		t.Errorf("entries = %v, problems = %v", entries, problems)
	}
}

func TestProblemsNameTheLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\n@reboot start-me\n":     "line 2: @reboot has no due time",
		"* * * * *\n":              "line 1: it has no command",
		"* * *\n":                  "line 1: it has no command",
		"@daily\n":                 "line 1: it has no command",
		strings.Repeat("x", 2<<20): "line 1: it is longer than",
	} {
		if _, problems := parse(t, text); len(problems) != 1 || !strings.HasPrefix(problems[0], want) {
			t.Errorf("%.20q: %v, want %q", text, problems, want)
		}
	}
}

func TestParseStopsWhenTold(t *testing.T) {
	t.Parallel()
	stop, seen := errors.New("stop"), 0
	err := crontab.Parse(strings.NewReader("* * * * * a\n* * * * * b\n"),
		func(crontab.Entry) error { seen++; return stop }, nil)
	if !errors.Is(err, stop) || seen != 1 {
		t.Errorf("error = %v after %d entries", err, seen)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("TZ=x\n* * * * * a%b\\%c%\n@reboot\n=\n\"=\"")
	f.Fuzz(func(t *testing.T, text string) {
		entries, _ := parse(t, text)
		for _, e := range entries {
			if e.Schedule == "" || e.Line == 0 {
				t.Errorf("entry without schedule or line: %+v", e)
			}
		}
	})
}
