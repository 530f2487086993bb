package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// follow sets edges as text, "b(a) d(b,c)", and returns the first refusal.
func follow(g *Graph, text string) *Invalid {
	for _, part := range strings.Fields(text) {
		id, rest, _ := strings.Cut(part, "(")
		var ups []string
		if rest = strings.TrimSuffix(rest, ")"); rest != "" {
			ups = strings.Split(rest, ",")
		}
		if bad := g.Set(id, ups); bad != nil {
			return bad
		}
	}
	return nil
}

func TestGraph(t *testing.T) {
	for text, want := range map[string]string{
		"b(a) c(a) d(b,c)": "",
		"b(a) c(b) d(c) e(d) f(d,b) g(e,f,d) h(b) i(b,d,h) j(i,g,a)": "",
		"a(a)":               "a → a",
		"b(a) a(b)":          "a → b → a",
		"b(a) c(b) a(c)":     "a → b → c → a",
		"b(a) c(b) c() a(c)": "",
		"b(a,a,a) a()":       "",
	} {
		bad := follow(NewGraph(), text)
		switch {
		case (bad == nil) != (want == ""):
			t.Errorf("%s: %v", text, bad)
		case bad != nil && !strings.Contains(bad.Problems[0].Message, " cycle: "+want+": "):
			t.Errorf("%s: %s, not %s", text, bad.Problems[0].Message, want)
		}
	}
}

// TestChains: as long as the limit is accepted, one more is not, at either end
// and in the middle.
func TestChains(t *testing.T) {
	g := NewGraph()
	for i := 1; i < MaxChain; i++ {
		if bad := g.Set(fmt.Sprint("j", i), []string{fmt.Sprint("j", i-1)}); bad != nil {
			t.Fatalf("job %d: %v", i+1, bad)
		}
	}
	for id, up := range map[string]string{"last": fmt.Sprint("j", MaxChain-1), "j0": "first"} {
		if bad := g.Set(id, []string{up}); bad == nil || !strings.Contains(bad.Problems[0].Message, "chain of 101") {
			t.Errorf("%s after %s: %v", id, up, bad)
		}
	}
	if bad := g.Set("beside", []string{fmt.Sprint("j", MaxChain-2)}); bad != nil {
		t.Error(bad)
	}
}

// TestALongChain: ten thousand jobs that are there already take no stack, and a
// cycle through all of them is found.
func TestALongChain(t *testing.T) {
	g := NewGraph()
	for i := 1; i < 10_000; i++ {
		g.Load(fmt.Sprint("j", i), []string{fmt.Sprint("j", i-1)})
	}
	if bad := g.Set("j0", []string{"j9999"}); bad == nil || strings.Count(bad.Problems[0].Message, "→") != 10_000 {
		t.Error("the cycle was not found")
	}
	if bad := g.Set("next", []string{"j9999"}); bad == nil || !strings.Contains(bad.Problems[0].Message, "chain of 10001") {
		t.Error(bad)
	}
	if edges, all := g.Around("j5000", 100); all || len(edges) != 100 {
		t.Errorf("%d edges, all: %t", len(edges), all)
	}
}

func TestWidth(t *testing.T) {
	g := NewGraph()
	for i := range MaxDependents {
		if bad := g.Set(fmt.Sprint("d", i), []string{"a"}); bad != nil {
			t.Fatal(bad)
		}
	}
	if bad := g.Set("one-more", []string{"a"}); bad == nil {
		t.Error("it is too wide, and was accepted")
	}
	if bad := g.Set("d7", []string{"a", "b"}); bad != nil {
		t.Errorf("one that depends on it already: %v", bad)
	}
}

// TestGraphAgainstAnOracle: edges are refused exactly when a walk over all of
// them comes back, and what is refused changes nothing.
func TestGraphAgainstAnOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, ups := NewGraph(), map[string][]string{}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			id, to := name.Draw(t, "job"), rapid.SliceOfNDistinct(name, 0, 4, rapid.ID[string]).Draw(t, "upstreams")
			before := ups[id]
			ups[id] = to
			bad := g.Set(id, to)
			if back := reaches(ups, id, id, 0); back != (bad != nil) {
				t.Fatalf("%s after %v, in %v: %v", id, to, ups, bad)
			}
			if bad != nil {
				checkPath(t, ups, bad.Problems[0].Message)
				ups[id] = before
			}
		}
		for id, want := range ups {
			if got := g.Upstreams(id); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Fatalf("%s follows %v, not %v", id, got, want)
			}
			edges, _ := g.Around(id, 1000)
			for _, e := range edges {
				if !slices.Contains(ups[e.Dependent], e.Upstream) {
					t.Fatalf("%v is no edge of %v", e, ups)
				}
			}
		}
	})
}

// reaches walks upwards without remembering where it was.
func reaches(ups map[string][]string, from, to string, steps int) bool {
	if steps > len(ups) {
		return true
	}
	return slices.ContainsFunc(ups[from], func(u string) bool { return u == to || reaches(ups, u, to, steps+1) })
}

// checkPath: the message names steps that there are, back to the first.
func checkPath(t *rapid.T, ups map[string][]string, message string) {
	path := strings.Split(strings.Split(message, ": ")[1], " → ")
	for i := 1; i < len(path); i++ {
		if !slices.Contains(ups[path[i]], path[i-1]) {
			t.Fatalf("%s does not follow %s in %v", path[i], path[i-1], ups)
		}
	}
	if len(path) < 2 || path[0] != path[len(path)-1] {
		t.Fatalf("%q is no way around", message)
	}
}
