package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestSoak: three nodes under load, callers who change jobs at random, and a random
// fault a minute, drawn from a seed, for as long as it is given. What was done and
// what came of it is written as a report, in Markdown and in JSON.
//
// The last node is paused as the others are, but neither killed nor asked to stop:
// a process that ends shows no slope. It takes over what the others lose, and
// what it has of memory, descriptors and goroutines does not grow.
//
//	BELFRY_SOAK_MINUTES    how long (0: two faults, one after the other)
//	BELFRY_SOAK_DATABASES  how many database nodes (1); of three, one dies at times
//	BELFRY_SOAK_RATE       executions a second (40)
//	BELFRY_SOAK_REPORT     a directory for the report
//	BELFRY_CHAOS_SEED      replays the faults
func TestSoak(t *testing.T) {
	t.Parallel()
	long := time.Duration(envInt(t, "BELFRY_SOAK_MINUTES", 0)) * time.Minute
	db := cassandra.Start(t, envInt(t, "BELFRY_SOAK_DATABASES", 1))
	c := NewNodes(t, db, 3)
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", envInt(t, "BELFRY_SOAK_RATE", 40), time.Second, l.ledger.URL)
	x := newChanges(l, 4, c.processes()...)
	l.seconds(2)
	began := time.Now()
	grown := watch(c.All[len(c.All)-1], began)
	for n := 0; n < 2 || time.Since(began) < long; n++ {
		next := began.Add(time.Duration(n+1) * time.Minute)
		l.anyFault(c, db)
		if long > 0 {
			<-time.After(time.Until(next))
		}
	}
	took, trends := time.Since(began), grown.end()
	l.seconds(2)
	x.end()
	l.finishOn(c)
	grown.judge(t, trends)
	if dir := os.Getenv("BELFRY_SOAK_REPORT"); dir != "" {
		s := l.soaked(took, len(db.Hosts()))
		s.Growth = trends
		if err := s.write(dir); err != nil {
			t.Error(err)
		}
	}
}

// anyFault does something random to a random node, and waits until all is as
// before. Now and then all nodes die at once but the last.
func (l *load) anyFault(c *Nodes, db *cassandra.Cluster) {
	l.t.Helper()
	mortal := c.All[:len(c.All)-1]
	kinds := []func(){
		func() { l.killed(c, l.anyOf(mortal)) },
		func() { l.stop(c, l.anyOf(c.All), time.Duration(100+l.random.IntN(900))*time.Millisecond) },
		func() { l.stop(c, l.anyOf(c.All), 2*TTL+time.Duration(l.random.IntN(2000))*time.Millisecond) },
		func() { l.restarted(c, l.anyOf(mortal)) },
	}
	if len(db.Hosts()) >= 3 && !db.External() {
		kinds = append(kinds, func() { l.databaseKilled(db) })
	}
	if l.random.IntN(20) == 0 {
		kinds = []func(){func() { l.killed(c, mortal...) }}
	}
	kinds[l.random.IntN(len(kinds))]()
	l.recovered(c)
}

func (l *load) anyOf(nodes []*Node) *Node { return nodes[l.random.IntN(len(nodes))] }

// killed kills nodes at once, and starts them when others have what they had.
func (l *load) killed(c *Nodes, nodes ...*Node) {
	l.t.Helper()
	l.anywhere()
	for _, n := range nodes {
		over := l.hit(Killed, n)
		n.Kill()
		over()
	}
	for _, n := range nodes {
		c.WaitTaken(n, slow(l.t, RecoveryBound))
	}
	l.join(c, nodes...)
}

// restarted asks a node to stop, and starts it again.
func (l *load) restarted(c *Nodes, n *Node) {
	l.t.Helper()
	l.anywhere()
	over := l.hit(Restarted, n)
	c.Terminate(n)
	c.Start(n)
	over()
}

// databaseKilled kills a database node, has some seconds of work done without it,
// and starts it again.
func (l *load) databaseKilled(db *cassandra.Cluster) {
	l.t.Helper()
	l.anywhere()
	h := &l.history
	h.Faults = append(h.Faults, Fault{Kind: Shaken, At: time.Now()})
	f := &h.Faults[len(h.Faults)-1]
	i := l.random.IntN(len(db.Hosts()))
	db.Kill(i)
	l.seconds(1 + 5*l.random.Float64())
	db.Restart(i)
	f.End = time.Now()
}

// soak is a report.
type soak struct {
	Seed      int            `json:"seed"`
	Took      string         `json:"took"`
	Nodes     int            `json:"nodes"`
	Databases int            `json:"databases"`
	Rate      float64        `json:"executions_a_second"`
	Faults    map[string]int `json:"faults"`
	Slots     int            `json:"slots"`
	Receipts  int            `json:"receipts"`
	Repeats   int            `json:"repeats"`
	Lateness  string         `json:"lateness_outside_faults"`
	Killed    string         `json:"failover_after_a_kill"`
	Paused    string         `json:"failover_after_a_pause"`
	Growth    []trend        `json:"growth_of_the_last_node"`
	Findings  []string       `json:"findings"`
}

func (l *load) soaked(took time.Duration, databases int) soak {
	h := l.history
	s := soak{
		Seed: l.seed, Took: took.Round(time.Second).String(), Nodes: 3, Databases: databases, Rate: l.rate, Faults: map[string]int{},
		Slots: h.Slots(), Receipts: len(h.Receipts), Repeats: h.Repeats(), Lateness: check.Spread(h.Lateness()),
		Killed: check.Spread(h.Moves(Killed)), Paused: check.Spread(h.Moves(Paused)), Findings: []string{},
	}
	for _, f := range h.Faults {
		s.Faults[string(f.Kind)]++
	}
	for _, f := range h.Check() {
		s.Findings = append(s.Findings, f.String())
	}
	return s
}

func (s soak) write(dir string) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, fmt.Sprint("soak-", s.Seed))
	if err := os.WriteFile(name+".json", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(name+".md", []byte(s.markdown()), 0o644)
}

func (s soak) markdown() string {
	var kinds []string
	for kind, n := range s.Faults {
		kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(kinds)
	var b strings.Builder
	fmt.Fprintf(&b, "# Soak of %s\n\n| | |\n|---|---|\n", s.Took)
	for _, row := range [][2]any{
		{"seed", s.Seed}, {"nodes, database nodes", fmt.Sprintf("%d, %d", s.Nodes, s.Databases)}, {"executions a second", s.Rate},
		{"faults", strings.Join(kinds, ", ")}, {"slots", s.Slots}, {"receipts", s.Receipts}, {"of them repeats", s.Repeats},
		{"late outside faults", s.Lateness}, {"failover after a kill", s.Killed}, {"failover after a pause", s.Paused}, {"findings", len(s.Findings)},
	} {
		fmt.Fprintf(&b, "| %v | %v |\n", row[0], row[1])
	}
	b.WriteString("\nOf the last node, the medians of the thirds of its time:\n\n")
	for _, t := range s.Growth {
		fmt.Fprintf(&b, "- %s\n", t)
	}
	for _, f := range s.Findings {
		fmt.Fprintf(&b, "\n    %s", f)
	}
	return b.String()
}
