package job

import (
	"slices"
	"strings"
)

// Bounds of the graph of dependencies.
const (
	MaxUpstreams  = 100  // of a job
	MaxDependents = 1000 // of a job
	MaxChain      = 100  // jobs that follow one another
)

// Graph is which jobs follow which. It has no cycle, and no chain in it is
// longer than MaxChain: Set sees to that. Nothing here recurses.
type Graph struct {
	up, down map[string][]string // Invariant: each is the other's reverse, sorted, and has no empty list.
}

// Edge is a job that follows another.
type Edge struct{ Upstream, Dependent string }

// NewGraph is a graph without edges.
func NewGraph() *Graph { return &Graph{up: map[string][]string{}, down: map[string][]string{}} }

// Upstreams are the jobs that one follows.
func (g *Graph) Upstreams(id string) []string { return g.up[id] }

// Set gives a job other upstreams, or says why it cannot have them: then the
// graph is as it was.
func (g *Graph) Set(id string, upstreams []string) *Invalid {
	bad := g.Check(id, upstreams)
	if bad == nil {
		g.set(id, upstreams)
	}
	return bad
}

// Check says what Set would. A job without an id yet is "".
func (g *Graph) Check(id string, upstreams []string) *Invalid {
	if path := g.cycle(id, upstreams); path != nil {
		return Refuse("depends_on", "it would close a cycle: %s: leave one of its steps out", strings.Join(path, " → "))
	}
	above := 0
	for _, u := range upstreams {
		above = max(above, height(u, g.up))
	}
	if n := above + height(id, g.down); n > MaxChain {
		return Refuse("depends_on", "it would be part of a chain of %d jobs, and at most %d may follow one another: do several steps in one job", n, MaxChain)
	}
	for _, u := range upstreams {
		if n := len(g.down[u]); n >= MaxDependents && !slices.Contains(g.down[u], id) {
			return Refuse("depends_on", "%d jobs depend on %q, the most that may: let a job between pass its runs on", n, u)
		}
	}
	return nil
}

func (g *Graph) set(id string, upstreams []string) {
	for _, u := range g.up[id] {
		if rest := slices.DeleteFunc(g.down[u], func(d string) bool { return d == id }); len(rest) > 0 {
			g.down[u] = rest
		} else {
			delete(g.down, u)
		}
	}
	delete(g.up, id)
	for _, u := range slices.Compact(slices.Sorted(slices.Values(upstreams))) {
		g.up[id] = append(g.up[id], u)
		at, _ := slices.BinarySearch(g.down[u], id)
		g.down[u] = slices.Insert(g.down[u], at, id)
	}
}

// cycle is the shortest way around that new upstreams of a job would close, from
// the job to itself; nil: there is none.
func (g *Graph) cycle(id string, upstreams []string) []string {
	closes := map[string]bool{}
	for _, u := range upstreams {
		closes[u] = true
	}
	from := map[string]string{id: ""}
	for wave := []string{id}; len(wave) > 0; {
		var next []string
		for _, at := range wave {
			if closes[at] {
				return way(from, at, id)
			}
			for _, d := range g.down[at] {
				if _, seen := from[d]; !seen {
					from[d] = at
					next = append(next, d)
				}
			}
		}
		wave = next
	}
	return nil
}

// way is the steps that led to a job, and back to the first.
func way(from map[string]string, at, first string) []string {
	path := []string{first}
	for ; at != ""; at = from[at] {
		path = append(path, at)
	}
	slices.Reverse(path)
	return path
}

// height is how many jobs the longest chain has that begins with a job and goes
// one way. Each is looked at once: before all that lead to it have been, it waits.
func height(id string, next map[string][]string) int {
	leads := map[string]int{id: 0} // to each job within reach, how many edges
	for reach := []string{id}; len(reach) > 0; reach = reach[1:] {
		for _, n := range next[reach[0]] {
			if _, seen := leads[n]; !seen {
				reach = append(reach, n)
			}
			leads[n]++
		}
	}
	longest := 0
	for wave := []string{id}; len(wave) > 0; longest++ {
		var free []string
		for _, at := range wave {
			for _, n := range next[at] {
				if leads[n]--; leads[n] == 0 {
					free = append(free, n)
				}
			}
		}
		wave = free
	}
	return longest
}

// Around is every edge on a way to or from a job, nearest first; false: there
// are more than limit.
func (g *Graph) Around(id string, limit int) ([]Edge, bool) {
	var edges []Edge
	walk := func(next map[string][]string, edge func(at, n string) Edge) {
		seen := map[string]bool{id: true}
		for wave := []string{id}; len(wave) > 0 && len(edges) <= limit; wave = wave[1:] {
			for _, n := range next[wave[0]] {
				edges = append(edges, edge(wave[0], n))
				if !seen[n] {
					seen[n] = true
					wave = append(wave, n)
				}
			}
		}
	}
	walk(g.up, func(at, n string) Edge { return Edge{n, at} })
	walk(g.down, func(at, n string) Edge { return Edge{at, n} })
	if len(edges) > limit {
		return edges[:limit], false
	}
	return edges, true
}

// Load gives a job the upstreams that are stored: they were judged before.
func (g *Graph) Load(id string, upstreams []string) { g.set(id, upstreams) }
