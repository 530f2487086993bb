package cql

import (
	"context"
	"errors"

	"github.com/gocql/gocql"
)

// readTries is how often a read is tried: reading again does no harm, and goes
// to a node that has not just been silent.
const readTries = 3

// again runs a read until it is answered, a few times at most.
func (s *Store) again(ctx context.Context, read func() error) (err error) {
	for range readTries {
		if err = read(); err == nil || !worthwhile(ctx, err) {
			return err
		}
	}
	return err
}

// worthwhile tells whether another node may answer a read that this one did not.
func worthwhile(ctx context.Context, err error) bool {
	return ctx.Err() == nil && silent(err) && !errors.Is(err, gocql.ErrNotFound) && !errors.Is(err, gocql.ErrNoConnections)
}
