package check

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"
)

// TestOracleOnVectors: the walk of wall time has the answers that two other
// oracles agree on. The vectors are data; no code is shared.
func TestOracleOnVectors(t *testing.T) {
	f, err := os.Open("../../messages/job/testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		var v struct {
			Expr   string
			TZ     string `json:"tz"`
			From   time.Time
			Expect []time.Time
		}
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		got := Cron{Expr: v.Expr, Zone: v.TZ}.Due(v.From, v.Expect[len(v.Expect)-1])
		if !slices.EqualFunc(got, v.Expect, time.Time.Equal) {
			t.Errorf("%s in %s from %s: %v, not %v", v.Expr, v.TZ, v.From, got, v.Expect)
		}
	}
	if n < 50 {
		t.Errorf("%d vectors", n)
	}
}

func TestOracleAsksForTheOtherWay(t *testing.T) {
	day := func(s string) time.Time { at, _ := time.Parse(time.RFC3339, s); return at }
	from, to := day("2026-03-28T12:00:00Z"), day("2026-03-30T12:00:00Z")
	if got := (Cron{Expr: "30 2 * * *", Zone: "Europe/Berlin", SkipGap: true}).Due(from, to); len(got) != 1 {
		t.Errorf("a skipped gap: %v", got)
	}
	if got := (Cron{Expr: "30 2 * * *", Zone: "Europe/Berlin"}).Due(from, to); len(got) != 2 || !got[0].Equal(day("2026-03-29T01:00:00Z")) {
		t.Errorf("a gap: %v", got)
	}
	from, to = day("2026-10-24T12:00:00Z"), day("2026-10-25T12:00:00Z")
	if got := (Cron{Expr: "30 2 * * *", Zone: "Europe/Berlin", BothFolds: true}).Due(from, to); len(got) != 2 {
		t.Errorf("both folds: %v", got)
	}
	if got := (Cron{Expr: "30 2 * * *", Zone: "Europe/Berlin"}).Due(from, to); len(got) != 1 {
		t.Errorf("a fold: %v", got)
	}
}

func TestOracleRefuses(t *testing.T) {
	for _, expr := range []string{"", "* * * *", "60 * * * *", "*/0 * * * *", "5-1 * * * *", "x * * * *", "* * 0 * *", "* * * * 8", "1-x * * * *"} {
		if _, err := parse(expr); err == nil {
			t.Errorf("%q is read", expr)
		}
	}
}
