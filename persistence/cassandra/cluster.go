package cassandra

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// Cluster is a Server as one test has it: what goes wrong fails the test, so its
// verbs belong into the test's own goroutine. Nodes count from 0.
type Cluster struct {
	t      testing.TB
	server *Server

	mu      sync.Mutex
	touched map[int]bool // nodes that this test killed, stopped or paused
}

// Start gives a test the database: for one node the server that all tests of this
// binary share, for several nodes a cluster of its own. The test leaves the
// shared server as it found it: what the test did to a node and did not undo is
// undone at its end. A test that harms it must not run beside others; Own gives
// it a server for itself.
func Start(t testing.TB, nodes int) *Cluster {
	t.Helper()
	if nodes != 1 {
		return Own(t, nodes)
	}
	s, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{t: t, server: s, touched: map[int]bool{}}
	t.Cleanup(func() {
		if t.Failed() {
			keepSharedLogs()
			tellLogs(t, s)
		}
		c.heal()
	})
	return c
}

// Own gives a test a database that nobody else uses and that ends with it.
func Own(t testing.TB, nodes int) *Cluster {
	t.Helper()
	s, err := Open(context.Background(), Config{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			tellLogs(t, s)
		}
		if err := s.Close(t.Failed()); err != nil {
			t.Errorf("end the database: %v", err)
		}
	})
	return &Cluster{t: t, server: s, touched: map[int]bool{}}
}

func tellLogs(t testing.TB, s *Server) {
	t.Helper()
	if !s.External() {
		t.Logf("logs of the database: %s", s.Dir())
	}
}

// StartMain starts a database for a TestMain or a command, and answers with what
// ends it. There is no test to fail: where a verb of the Cluster would, it panics.
func StartMain(nodes int) (*Cluster, func(), error) {
	s, err := Open(context.Background(), Config{Nodes: nodes})
	if err != nil {
		return nil, nil, err
	}
	end := func() { _ = s.Close(false) } // what stays is swept by the next run
	return &Cluster{t: outsideTests{}, server: s, touched: map[int]bool{}}, end, nil
}

// Hosts are the nodes as host:port.
func (c *Cluster) Hosts() []string { return c.server.Hosts() }

// LocalDC is the data centre that clients are in.
func (c *Cluster) LocalDC() string { return c.server.LocalDC() }

// External: the database is the one that BELFRY_TEST_CQL_HOSTS names, and the
// verbs below fail the test.
func (c *Cluster) External() bool { return c.server.External() }

// Server is the same with errors instead of failures, for other goroutines.
func (c *Cluster) Server() *Server { return c.server }

// Kill ends node i as kill -9 does.
func (c *Cluster) Kill(i int) { c.t.Helper(); c.touch(i); c.must(c.server.Kill(i)) }

// Stop asks node i to end.
func (c *Cluster) Stop(i int) { c.t.Helper(); c.touch(i); c.must(c.server.Stop(i)) }

// Pause freezes node i with its sockets open.
func (c *Cluster) Pause(i int) { c.t.Helper(); c.touch(i); c.must(c.server.Pause(i)) }

// Resume lets node i go on.
func (c *Cluster) Resume(i int) { c.t.Helper(); c.must(c.server.Resume(i)) }

// Restart starts node i again and waits until it takes clients.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.must(c.server.Restart(context.Background(), i))
}

// Log is what node i has written so far.
func (c *Cluster) Log(i int) string {
	c.t.Helper()
	text, err := c.server.Log(i)
	c.must(err)
	return text
}

func (c *Cluster) touch(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched[i] = true
}

// heal undoes what the test did to nodes of the shared server.
func (c *Cluster) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.touched {
		if c.External() {
			return
		}
		if err := c.server.heal(context.Background(), i); err != nil {
			c.t.Errorf("bring back node %d of the shared database: %v", i, err)
		}
	}
}

func (c *Cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// outsideTests stands for the test of a Cluster that StartMain made.
type outsideTests struct{ testing.TB }

func (outsideTests) Helper()           {}
func (outsideTests) Fatal(args ...any) { panic(fmt.Sprint(args...)) }
