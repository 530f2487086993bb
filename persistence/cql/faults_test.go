package cql

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
	"github.com/belfry-scheduler/belfry/persistence/storetest"
)

// doubtful commits a row and expects a doubt, or to hear that nothing was
// written.
func (c *chain) doubtful(jobID string, want ...string) (op uuid.UUID, got string) {
	c.Helper()
	op = uuid.New()
	begun := time.Now()
	_, err := c.s.Commit(context.Background(), c.held, persistence.Batch{OpID: op, Rows: []persistence.Row{{JobID: jobID, Status: job.Active}}})
	got = outcome(err)
	for _, w := range want {
		if got == w {
			c.Logf("%s after %s: %v", got, time.Since(begun), err)
			return op, got
		}
	}
	c.Fatalf("the outcome is %q (%v), want %v", got, err, want)
	return op, got
}

// isThere tells whether a job is stored, and asks again until the store answers.
func (c *chain) isThere(jobID string) (there bool) {
	c.Helper()
	eventually(c, "the store answers", func() bool {
		_, err := c.s.Get(context.Background(), c.held.Partition, 0, jobID, "")
		there = err == nil
		return err == nil || errors.Is(err, job.ErrNotFound)
	})
	return there
}

// TestPausedServer: a server that stands still leaves a doubt after the time
// that a commit may take; the store is unhealthy meanwhile and well afterwards,
// and the verdict is true.
func TestPausedServer(t *testing.T) {
	b := setup(t).impatient()
	s := b.open()
	warm(t, s)
	c := newChain(t, s, 0)
	for i, id := range []string{"a", "b", "c"} {
		b.db.Pause(0)
		op, _ := c.doubtful(id, "doubt")
		if i == 0 {
			eventually(t, "the store is unhealthy", func() bool { return s.Healthy() != nil })
		}
		b.db.Resume(0)
		applied, err := c.settle(op)
		if err != nil || applied != c.isThere(id) {
			t.Errorf("settle: applied=%v, %v, and it is there: %v", applied, err, c.isThere(id))
		}
		c.must("commit", c.commit(persistence.Batch{}))
	}
	eventually(t, "the store is well", func() bool { return s.Healthy() == nil })
}

// TestKilledServer: with the database killed nothing is acknowledged and nothing
// that was is lost; when it is back, the same store goes on, and one that was
// opened meanwhile begins.
func TestKilledServer(t *testing.T) {
	b := setup(t)
	s := b.open()
	if _, err := s.Cluster(t.Context(), storetest.Constants()); err != nil {
		t.Fatal(err)
	}
	c := newChain(t, s, 0)
	c.must("commit", c.commit(persistence.Batch{Rows: []persistence.Row{{JobID: "kept", Status: job.Active}}}))
	c.record(0, 3)
	b.db.Kill(0)
	op, got := c.doubtful("lost", "doubt", "unavailable")
	eventually(t, "the store is unhealthy", func() bool { return s.Healthy() != nil })
	if _, err := s.ReadFence(t.Context(), 0); outcome(err) != "unavailable" {
		t.Errorf("read fence: got error %v, want ErrUnavailable", err)
	}
	opened := make(chan *Store, 1)
	waits := make(chan string, 1000)
	cfg := b.cfg
	cfg.Waiting = func(why string) { waits <- why }
	go func() {
		late, err := Open(context.Background(), cfg)
		if err != nil {
			t.Errorf("open while the database is away: %v", err)
		}
		opened <- late
	}()
	<-waits
	b.db.Restart(0)
	back := time.Now()
	eventually(t, "the store is well", func() bool { return s.Healthy() == nil })
	t.Logf("well again %s after the server answered", time.Since(back))
	late := <-opened
	if late == nil {
		return
	}
	defer late.Close()
	if got == "doubt" {
		applied, err := c.settle(op)
		if err != nil || applied != c.isThere("lost") {
			t.Errorf("settle: applied=%v, %v, and it is there: %v", applied, err, c.isThere("lost"))
		}
	}
	if !c.isThere("kept") {
		t.Error("an acknowledged row is lost")
	}
	c.must("commit", c.commit(persistence.Batch{}))
	sameLines(t, lines(t, s, 0), 0, 3)
	if found, err := late.Cluster(t.Context(), storetest.Constants()); err != nil || found.Partitions != storetest.Partitions {
		t.Errorf("constants: %+v, %v", found, err)
	}
}

// TestOneOfThreeServers: with one replica of three paused or dead, commits go on;
// the one that met it is in doubt, and its barrier goes through another server.
func TestOneOfThreeServers(t *testing.T) {
	t.Parallel()
	db := cassandra.Start(t, 3)
	b := &bench{TB: t, db: db, cfg: setupConfig(t, db)}
	s := b.impatient().open()
	warm(t, s)
	var chains []*chain
	for p := range int32(6) { // so that each server is the first replica of some
		chains = append(chains, newChain(t, s, p))
	}
	slowest := time.Duration(0)
	for round, harm := range []func(int){db.Pause, db.Kill} {
		harm(1)
		for range 5 {
			for _, c := range chains {
				begun := time.Now()
				c.must("commit", c.commit(persistence.Batch{Rows: []persistence.Row{{JobID: "j", Revision: int64(round), Status: job.Active}}}))
				slowest = max(slowest, time.Since(begun))
			}
		}
		if err := s.Healthy(); err != nil {
			t.Errorf("with one server of three away: %v", err)
		}
		if round == 0 {
			db.Resume(1)
		}
	}
	for _, c := range chains {
		if got, err := s.Get(t.Context(), c.held.Partition, 0, "j", ""); err != nil || got.Revision != 1 {
			t.Errorf("partition %d: %+v, %v", c.held.Partition, got, err)
		}
		if now, err := s.ReadFence(t.Context(), c.held.Partition); err != nil || now != c.held {
			t.Errorf("partition %d: the fence is %+v, %v, want %+v", c.held.Partition, now, err, c.held)
		}
	}
	t.Logf("the slowest commit took %s with its settling", slowest)
	if slowest > 10*time.Second {
		t.Errorf("a commit took %s", slowest)
	}
}
