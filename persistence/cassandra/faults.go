package cassandra

import (
	"context"
	"errors"
	"fmt"
)

// ErrExternal is the answer when a server that is not ours should be killed,
// paused or read.
var ErrExternal = errors.New("the database is the one that BELFRY_TEST_CQL_HOSTS names: it is not ours to stop, pause or read the log of; run this test without that variable")

// Kill ends node i (from 0) as kill -9 does. What it acknowledged is in its
// commit log; Restart brings it back.
func (s *Server) Kill(i int) error {
	return s.with(i, func(n *node) error { n.kill(); return nil })
}

// Stop asks node i to end; it flushes and says goodbye to its peers.
func (s *Server) Stop(i int) error { return s.with(i, (*node).stop) }

// Pause freezes node i: its sockets stay open and nothing answers.
func (s *Server) Pause(i int) error {
	return s.with(i, func(n *node) error { return n.pause(true) })
}

// Resume lets a paused node go on.
func (s *Server) Resume(i int) error {
	return s.with(i, func(n *node) error { return n.pause(false) })
}

// Restart starts node i again after Kill or Stop, with its data and address. It
// returns when the node takes clients and, if all nodes are up, when they see
// each other.
func (s *Server) Restart(ctx context.Context, i int) error {
	err := s.with(i, func(n *node) error { return n.start(ctx) })
	if err != nil {
		return err
	}
	return s.awaitSight(ctx)
}

// Log is what node i has written so far, over all its starts.
func (s *Server) Log(i int) (string, error) {
	var text []byte
	err := s.with(i, func(n *node) error { text = n.readLog(); return nil })
	return string(text), err
}

// heal undoes what was done to node i.
func (s *Server) heal(ctx context.Context, i int) error {
	err := s.with(i, func(n *node) error { return n.heal(ctx) })
	if err != nil {
		return err
	}
	return s.awaitSight(ctx)
}

func (s *Server) with(i int, do func(*node) error) error {
	if s.External() {
		return ErrExternal
	}
	if i < 0 || i >= len(s.nodes) {
		return fmt.Errorf("there is no node %d among %d", i, len(s.nodes))
	}
	return do(s.nodes[i])
}

// Wait returns when ctx ends, with nil, or when node i ends, with an error.
func (s *Server) Wait(ctx context.Context, i int) error {
	return s.with(i, func(n *node) error { return n.wait(ctx) })
}
