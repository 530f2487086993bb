package job

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// vector is one line of testdata/vectors.jsonl: the next instants after from.
type vector struct {
	Cases  []string    `json:"cases"`
	Expr   string      `json:"expr"`
	Zone   string      `json:"tz"`
	From   time.Time   `json:"from"`
	Expect []time.Time `json:"expect"`
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	f, err := os.Open("testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var vs []vector
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("line %d: %v", len(vs)+1, err)
		}
		vs = append(vs, v)
	}
	if len(vs) < 50 {
		t.Fatalf("%d vectors, want at least 50", len(vs))
	}
	return vs
}

// checkSeries asserts the next slots after from, asked one after another.
func checkSeries(t *testing.T, s *Schedule, from time.Time, want []time.Time) {
	t.Helper()
	at := from
	for i, w := range want {
		next, ok := s.Next(at)
		if !ok || !next.Equal(w) {
			t.Fatalf("slot %d after %v: got %v (%v), want %v", i+1, at, next, ok, w)
		}
		if next.Location() != time.UTC || next.Nanosecond()%1e6 != 0 {
			t.Fatalf("slot %v is not UTC in whole milliseconds", next)
		}
		at = next
	}
}

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		s, err := Compile(Timing{Expr: v.Expr, Zone: v.Zone})
		if err != nil {
			t.Errorf("%v %q %s: %v", v.Cases, v.Expr, v.Zone, err)
			continue
		}
		t.Run(v.Cases[0]+" "+v.Expr+" "+v.Zone, func(t *testing.T) { checkSeries(t, s, v.From, v.Expect) })
	}
}
