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

// TestDatabaseAway: a server that starts before its database waits for it and
// says so; one that loses it promises nothing, and goes on when it is back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	db := cassandra.Own(t, 1)
	node := onDatabase(t, db, "database_away")
	underLoad(t, node, 20, 1, func() {
		db.Pause(0)
		refused := false
		for end := time.Now().Add(30 * time.Second); !refused && time.Now().Before(end); {
			err := node.Post("/v1/jobs", map[string]any{"schedule_expr": "0 0 1 1 *", "target": "https://example.com/"}, 201)
			if err == nil {
				t.Error("a job was acknowledged while the database was paused")
				break
			}
			refused = strings.Contains(err.Error(), "503")
		}
		if !refused {
			t.Error("no 503 while the database was paused")
		}
		db.Resume(0)
	})
}
