package job

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// What an id comes to is a promise: a job keeps its place on every node, after
// every update of Belfry.
func TestSpreadIsForEver(t *testing.T) {
	for _, c := range []struct{ id, expr, plain string }{
		{"daily-report", "H H * * *", "[24 8 * * *]"},
		{"daily-report", "H/15 * * * *", "[9,24,39,54 * * * *]"},
		{"daily-report", "H(0-29)/10 H(2-4) H * H", "[4,14,24 4 18 * 5]"},
		{"emails", "H H * * *", "[35 9 * * *]"},
		{"emails", "h(10-10) 3 * H *", "[10 3 * 1 *]"},
	} {
		e, bad := parseExpr(c.expr, false, c.id)
		if bad != nil {
			t.Fatal(bad)
		}
		if got := fmt.Sprint(e.fields[1:]); got != c.plain {
			t.Errorf("%s %q became %s, want %s", c.id, c.expr, got, c.plain)
		}
	}
}

// An H is a value, or a step, of its range; the same for the same job, and
// different ones for different jobs.
func TestSpread(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, 5).Draw(t, "field")
		r := &cronRules[i]
		id := rapid.StringMatching(`[a-z]{1,12}`).Draw(t, "id")
		lo := rapid.IntRange(r.min, r.max-1).Draw(t, "lo")
		hi := rapid.IntRange(lo+1, r.max).Draw(t, "hi")
		step := rapid.IntRange(1, hi-lo).Draw(t, "step")
		text := fmt.Sprintf("h(%d-%d)/%d", lo, hi, step)
		resolved, err := r.resolve(text, id)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := r.resolve(text, id); again != resolved {
			t.Fatalf("%s, then %s", resolved, again)
		}
		items, err := r.parse(resolved)
		if err != nil {
			t.Fatal(err)
		}
		for k, it := range items {
			if it.lo < lo || it.lo > hi || it.lo != items[0].lo+k*step {
				t.Fatalf("%s became %s", text, resolved)
			}
		}
		if first, last := items[0].lo, items[len(items)-1].lo; first >= lo+step || last+step <= hi {
			t.Fatalf("%s became %s", text, resolved)
		}
	})
	minutes := map[int]int{}
	for n := range 6000 {
		e, _ := parseExpr("H * * * *", false, fmt.Sprintf("job-%d", n))
		for m := range 60 {
			if e.cron.minute&(1<<m) != 0 {
				minutes[m]++
			}
		}
	}
	for m := range 60 {
		if n := minutes[m]; n < 50 || n > 160 {
			t.Errorf("minute %d has %d of 6000 jobs", m, n)
		}
	}
}

// An H names a number: the schedule is fixed where the number would make it so.
func TestSpreadIsANumber(t *testing.T) {
	timing := Timing{Expr: "H H(2-2) * * *", Zone: "America/New_York", Job: "x"}
	s := compile(t, timing)
	if !s.cron.fixed {
		t.Error("a rhythm")
	}
	if timing.Job = ""; len(Warnings(timing)) == 0 || Describe(timing) != "" {
		t.Errorf("without a job: %q, %q", Warnings(timing), Describe(timing))
	}
	if a, b := (Timing{Expr: "0 0 * * thu", Job: "a"}), (Timing{Expr: "0 0 * * thu", Job: "b"}); a.Key() != b.Key() || a.Spread() || !a.Shared() {
		t.Error("a schedule without H is each job's own")
	}
	if a, b := (Timing{Expr: "0,H 0 * * *", Job: "a"}), (Timing{Expr: "0,H 0 * * *", Job: "b"}); a.Key() == b.Key() || a.Shared() {
		t.Error("a schedule with H is shared")
	}
}
