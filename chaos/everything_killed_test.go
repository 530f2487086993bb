package chaos

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestEverythingKilled: all nodes are killed at once, and every other time the
// database with them, in any order, while jobs run and are changed. When all is
// back, each operation that was acknowledged holds, and what was due meanwhile has
// run: every node was down across scheduled times.
//
// BELFRY_CHAOS_BLACKOUTS sets how often (2).
func TestEverythingKilled(t *testing.T) {
	t.Parallel()
	db := cassandra.Own(t, 1)
	c := NewNodes(t, db, 3)
	c.StartAll()
	l := onNodes(t, c)
	l.registerWith("tick", 20, time.Second, time.Second, l.ledger.URL, map[string]any{
		"catch_up": map[string]any{"policy": check.All, "max": 1000, "window": "1h"},
	})
	x := newChanges(l, 16, c.processes()...)
	for i := range envInt(t, "BELFRY_CHAOS_BLACKOUTS", 2) {
		l.seconds(2)
		l.anywhere()
		l.blackOut(c, db, i%2 == 0)
		l.recovered(c)
		l.caughtUp(time.Now())
	}
	l.seconds(4)
	x.end()
	l.history.Takeovers = c.Takeovers()
	l.finish()
}

// blackOut kills all nodes, and the database among them or not, and starts all of
// it again: nodes wait for a database that is not there yet.
func (l *load) blackOut(c *Nodes, db *cassandra.Cluster, database bool) {
	l.t.Helper()
	out := Fault{Kind: Outage, At: time.Now()}
	last := len(c.All)
	if !database {
		last--
	}
	for _, i := range l.random.Perm(last + 1) {
		if i == len(c.All) {
			db.Kill(0)
		} else {
			c.All[i].Kill()
		}
	}
	c.Launch(c.All...)
	if database {
		db.Restart(0)
	}
	for _, n := range c.All {
		if err := n.WaitReady(slow(l.t, readyWithin)); err != nil {
			l.t.Fatal(err)
		}
	}
	out.End = time.Now()
	l.history.Faults = append(l.history.Faults, out)
	l.t.Logf("everything was killed, the database: %t; ready again after %s", database, out.End.Sub(out.At).Round(time.Millisecond))
}
