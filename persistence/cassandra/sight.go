package cassandra

import (
	"context"
	"errors"
	"fmt"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// A read of this table with every replica succeeds only at a node that sees them
// all alive: the table has three replicas in any cluster, and is empty.
const sightQuery = "SELECT * FROM system_distributed.parent_repair_history"

// awaitSight waits until each node sees all others alive. A cluster with a node
// that is down has nothing to wait for.
func (s *Server) awaitSight(ctx context.Context) error {
	if len(s.nodes) == 1 {
		return nil
	}
	for _, n := range s.nodes {
		if !n.up() {
			return nil
		}
	}
	level := frame.All
	if len(s.nodes) == 2 {
		level = frame.Two // of three replicas only two can be
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for _, n := range s.nodes {
		err := poll(ctx, n.proc.ended, func(ctx context.Context) error {
			return ask(ctx, n.host, frame.Query(sightQuery, level))
		})
		if err != nil {
			return fmt.Errorf("%s does not see all others: %w", n.name, err)
		}
	}
	return nil
}

// ask asks one thing in a conversation of its own.
func ask(ctx context.Context, host string, f frame.Frame) error {
	c, err := frame.Dial(ctx, host)
	if err != nil {
		return err
	}
	_, err = c.Do(ctx, f)
	return errors.Join(err, c.Close())
}
