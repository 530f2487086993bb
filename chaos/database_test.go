package chaos

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// onDatabase is a node whose jobs are in a keyspace of their own.
func onDatabase(t *testing.T, db *cassandra.Cluster, keyspace string) *Process {
	t.Helper()
	host := newHost(t)
	return &Process{
		Listen: net.JoinHostPort(host, apiPort),
		Args:   append(OnDatabase(db, keyspace), "--cluster-listen", net.JoinHostPort(host, gossipPort)),
	}
}

// TestOwnerKilledOnDatabase: as TestOwnerKilled, with the jobs in Cassandra.
func TestOwnerKilledOnDatabase(t *testing.T) {
	t.Parallel()
	node := onDatabase(t, cassandra.Start(t, 1), "owner_killed")
	underLoad(t, node, 100, envInt(t, "BELFRY_CHAOS_KILLS", 5), func() {
		node.Kill()
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDatabaseNodeKilled: one of three database nodes dies and comes back with
// what it had then, again and again, and nothing is lost, early or doubled, nor
// 99 of 100 slots more than a second late. Each node that comes back was away while
// its partitions were written.
//
// BELFRY_CHAOS_DATABASE_KILLS sets how often (2). It does not run beside others:
// database nodes that start take all of a small machine.
func TestDatabaseNodeKilled(t *testing.T) {
	db := cassandra.Start(t, 3)
	node := onDatabase(t, db, "database_node_killed")
	n := 0
	l := underLoad(t, node, 30, envInt(t, "BELFRY_CHAOS_DATABASE_KILLS", 2), func() {
		db.Kill(n % 3)
		db.Restart(n % 3)
		n++
	})
	late := l.history.Lateness() // of all: no fault is an excuse here
	t.Logf("late: %s", check.Spread(late))
	within(t, "a slot while database nodes die", late, 0.99, time.Second)
}

// TestDatabaseAway: a node that loses its database promises nothing and sends
// nothing that it cannot record. When the database is back it goes on within the
// recovery bound, by itself, and of what was due meanwhile runs what the policy of
// each job says, nothing early and nothing twice.
//
// BELFRY_CHAOS_AWAY_SECONDS is how long the database is away at last (0: until a
// request was refused); the first time it is a sixth of that.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	most := time.Duration(envInt(t, "BELFRY_CHAOS_AWAY_SECONDS", 0)) * time.Second
	db := cassandra.Own(t, 1)
	node, l := alone(t, onDatabase(t, db, "database_away"))
	l.history.OnTime, l.history.Recovery = slow(t, 2*time.Second), slow(t, RecoveryBound)
	l.registerWith("tick", 10, time.Second, time.Second, l.ledger.URL, map[string]any{
		"catch_up": map[string]any{"policy": check.All, "max": 1000, "window": "1h"},
	})
	l.seconds(2)
	l.away(node, db, most/6)
	l.caughtUp(time.Now())
	policies := l.registerPolicies(time.Now().Add(slow(t, 2*time.Second)).Truncate(time.Second).UTC(), max(most, 15*time.Second))
	l.flow(policies)
	l.away(node, db, most)
	l.caughtUp(time.Now())
	l.seconds(2)
	l.finish()
}

// away has the database stand still for so long, and at least until the node has
// refused a request.
func (l *load) away(node *Process, db *cassandra.Cluster, long time.Duration) {
	l.t.Helper()
	shaken := Fault{Kind: Shaken, At: time.Now()}
	over := time.After(long)
	db.Pause(0)
	out := Fault{Kind: Outage, At: time.Now().Add(TTL)} // it may act until its lease is over
	refused := false
	for end := time.Now().Add(anyWithin); !refused && time.Now().Before(end); {
		err := node.Post("/v1/jobs", map[string]any{"schedule_expr": "0 0 1 1 *", "target": "https://example.com/"}, 201)
		if err == nil {
			l.t.Error("a job was acknowledged while the database was away")
			break
		}
		refused = strings.Contains(err.Error(), "503")
	}
	if !refused {
		l.t.Error("no 503 while the database was away")
	}
	<-over
	shaken.End, out.End = time.Now(), time.Now()
	db.Resume(0)
	l.history.Faults = append(l.history.Faults, shaken)
	if out.At.Before(out.End) {
		l.history.Faults = append(l.history.Faults, out)
	}
}
