package cassandra

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// One node through its whole life: it answers, freezes and goes on, and what it
// acknowledged outlives a kill.
func TestOneNode(t *testing.T) {
	if othersServer(t) {
		return
	}
	db := Start(t, 1)
	host := db.Hosts()[0]
	mustSay(t, host, frame.One,
		"CREATE KEYSPACE kept WITH replication = {'class': 'NetworkTopologyStrategy', '"+db.LocalDC()+"': 1}",
		"CREATE TABLE kept.t (p int PRIMARY KEY)",
		"INSERT INTO kept.t (p) VALUES (1) IF NOT EXISTS",
	)
	db.Pause(0)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := ask(ctx, host, frame.Query("SELECT p FROM kept.t", frame.One)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused node: %v", err)
	}
	db.Resume(0)
	mustSay(t, host, frame.One, "SELECT p FROM kept.t")

	before := len(db.Log(0))
	if before == 0 {
		t.Error("an empty log")
	}
	db.Kill(0)
	if err := say(t, host, "SELECT p FROM kept.t", frame.One); err == nil {
		t.Error("a killed node answers")
	}
	db.Restart(0)
	mustSay(t, host, frame.One, "SELECT p FROM kept.t")
	if len(db.Log(0)) <= before {
		t.Error("the log begins anew with a restart")
	}
	if Start(t, 1).Hosts()[0] != host {
		t.Error("another server for the same test binary")
	}
}

// othersServer: the environment names a server. Then that is what is tried, and
// it is not harmed; what servers of our own do is tried without that variable.
func othersServer(t *testing.T) bool {
	t.Helper()
	if external() == nil {
		return false
	}
	db := Start(t, 1)
	mustSay(t, db.Hosts()[0], frame.One, "SELECT key FROM system.local")
	if err := db.Server().Kill(0); !errors.Is(err, ErrExternal) {
		t.Errorf("kill: %v", err)
	}
	return true
}

// Three nodes see each other from the first moment, two are a quorum, and a node
// that comes back is seen again. The shared server runs meanwhile.
func TestThreeNodes(t *testing.T) {
	if othersServer(t) {
		return
	}
	shared := Start(t, 1)
	db := Start(t, 3)
	hosts := db.Hosts()
	if len(hosts) != 3 {
		t.Fatalf("hosts: %v", hosts)
	}
	mustSay(t, hosts[0], frame.All,
		"CREATE KEYSPACE three WITH replication = {'class': 'NetworkTopologyStrategy', '"+db.LocalDC()+"': 3}",
		"CREATE TABLE three.t (p int PRIMARY KEY)",
	)
	for _, h := range hosts { // the table reaches the others a moment after it was made
		noLater(t, "a write to all nodes", func() bool { return say(t, h, "INSERT INTO three.t (p) VALUES (1)", frame.All) == nil })
	}
	db.Stop(2)
	mustSay(t, hosts[0], frame.Quorum, "INSERT INTO three.t (p) VALUES (2)")
	var refused *frame.Error
	if err := say(t, hosts[0], "INSERT INTO three.t (p) VALUES (3)", frame.All); !errors.As(err, &refused) {
		t.Errorf("a write to all nodes with one of them away: %v", err)
	}
	db.Restart(2)
	for _, h := range hosts {
		mustSay(t, h, frame.All, "SELECT p FROM three.t")
	}
	mustSay(t, shared.Hosts()[0], frame.One, "SELECT key FROM system.local")
}

// What a test did to the shared server and did not undo is undone for the next.
func TestLeftAsFound(t *testing.T) {
	if othersServer(t) {
		return
	}
	host := Start(t, 1).Hosts()[0]
	t.Run("careless", func(t *testing.T) { Start(t, 1).Pause(0) })
	mustSay(t, host, frame.One, "SELECT key FROM system.local")
}

// A node that does not come up says why, in its own words, and leaves nothing.
func TestNodeThatFails(t *testing.T) {
	dir := t.TempDir()
	java := script(t, dir, "java", `echo "out of luck"; exit 3`)
	t.Setenv("TMPDIR", t.TempDir())
	s, err := prepare(Config{Nodes: 1}, java, dir)
	if err != nil {
		t.Fatal(err)
	}
	err = s.start(t.Context())
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("start: %v", err)
	}
	if err := s.Close(false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
}

// Verbs that cannot be carried out say so.
func TestVerbsRefused(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	s, err := prepare(Config{Nodes: 1}, script(t, dir, "java", `exec sleep 60`), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(false)
	n := s.nodes[0]
	if n.proc, err = launch(sleeper(n)); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		err  error
		says string
	}{
		"restart of one that runs": {s.Restart(t.Context(), 0), "node1 is running"},
		"a node too many":          {s.Kill(1), "no node 1 among 1"},
		"pause":                    {s.Pause(0), ""},
		"stop of a paused one":     {s.Stop(0), "node1 is paused"},
		"resume":                   {s.Resume(0), ""},
		"stop":                     {s.Stop(0), ""},
		"pause of one that ended":  {s.Pause(0), "node1 does not run"},
	} {
		switch {
		case c.says == "" && c.err != nil:
			t.Errorf("%s: %v", what, c.err)
		case c.says != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.says)):
			t.Errorf("%s: %v, want %s", what, c.err, c.says)
		}
	}
}
