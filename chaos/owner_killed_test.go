package chaos

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(brokerKind); kind != "" {
		fmt.Fprintln(os.Stderr, serveBroker(kind))
		os.Exit(1)
	}
	goleak.VerifyTestMain(cassandra.Tests(scenarios{m}), goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// scenarios are tests that share what they have built.
type scenarios struct{ *testing.M }

func (s scenarios) Run() int {
	defer RemoveBuilds()
	return s.M.Run()
}

// TestOwnerKilled: 500 executions a second on the embedded store, and the node
// is killed in the middle, again and again. No occurrence is without its record,
// none has a second id, and what comes twice was in flight at a kill and keeps
// its key.
//
// BELFRY_CHAOS_KILLS sets how often (5), BELFRY_CHAOS_SEED replays a run.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	node := &Process{DataDir: t.TempDir(), Args: []string{"--partitions", "16"}}
	kills := envInt(t, "BELFRY_CHAOS_KILLS", 5)
	underLoad(t, node, 500, kills, func() {
		node.Kill()
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
	})
}

// underLoad runs so many jobs a second on a node, lets a fault happen again and
// again, and checks what was due against what came and what is recorded.
func underLoad(t *testing.T, node *Process, jobs, faults int, fault func()) *load {
	t.Helper()
	_, l := alone(t, node)
	l.add("tick", jobs, time.Second, l.ledger.URL)
	for range faults {
		l.anywhere()
		f := Fault{Kind: Killed, At: time.Now()}
		fault()
		f.End = f.At // whatever the fault was: one node has nobody who takes over
		l.history.Faults = append(l.history.Faults, f)
	}
	l.flow(2 * jobs)
	l.finish()
	return l
}

// alone starts a node that has no others, and prepares a load on it.
func alone(t *testing.T, node *Process) (*Process, *load) {
	t.Helper()
	start(t, node)
	return node, newLoad(t, node)
}

// start starts a node, at an address of its own where none is given. It ends with
// the test.
func start(t *testing.T, node *Process) {
	t.Helper()
	if node.Bin == "" {
		bin, err := Built()
		if err != nil {
			t.Fatal(err)
		}
		node.Bin = bin
	}
	if node.Listen == "" {
		node.Listen = net.JoinHostPort(newHost(t), apiPort)
	}
	t.Cleanup(node.Kill)
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
}

// killedAlone kills a node that has no others, and starts it again.
func (l *load) killedAlone(node *Process) {
	l.t.Helper()
	f := Fault{Kind: Killed, At: time.Now()}
	node.Kill()
	f.End = time.Now()
	if err := node.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.history.Faults = append(l.history.Faults, f)
}

// eventually polls until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(slow(t, time.Minute)); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("in all this time it is not so that %s", what)
		}
	}
}

func envInt(t *testing.T, name string, def int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
