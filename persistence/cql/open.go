package cql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gocql/gocql"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/persistence"
)

const (
	firstWait   = 200 * time.Millisecond
	longestWait = 2 * time.Second
)

// Open connects to the database and makes the schema if need be. While the
// database is away it waits, and tells Config.Waiting and the log what for,
// until ctx ends. What waiting cannot mend is returned at once: a Config that
// cannot be used, a data centre that is not there (*WrongDC).
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	wait, said := firstWait, ""
	for {
		s, err := open(ctx, cfg)
		var wrong *WrongDC
		var file *unusableFile
		if err == nil || errors.As(err, &wrong) || errors.As(err, &file) {
			return s, err
		}
		if why := err.Error(); ctx.Err() == nil {
			cfg.waiting(why, why != said)
			said = why
		}
		if pause(ctx, wait) != nil {
			return nil, fmt.Errorf("open store at %s: %w; last: %w", strings.Join(cfg.Hosts, ","), context.Cause(ctx), err)
		}
		wait = min(2*wait, longestWait)
	}
}

// waiting says why Open does not go on; the log is told once for each reason.
func (c Config) waiting(why string, news bool) {
	why = fmt.Sprintf("waiting for the database at %s: %s", strings.Join(c.Hosts, ","), why)
	if news {
		c.Logger.Warn(why)
	}
	if c.Waiting != nil {
		c.Waiting(why)
	}
}

// open is one attempt.
func open(ctx context.Context, cfg Config) (*Store, error) {
	if err := prepare(ctx, cfg); err != nil {
		return nil, err
	}
	db, route, err := cfg.connect(ctx)
	if err != nil {
		return nil, err
	}
	s := newStore(cfg, db, route)
	s.learnRoutes(ctx)
	return s, nil
}

// prepare sees to the schema, over a session of its own: that of the store
// cannot be made before the keyspace is there.
func prepare(ctx context.Context, cfg Config) error {
	d, err := cfg.driver()
	if err != nil {
		return &unusableFile{err}
	}
	d.PoolConfig.HostSelectionPolicy = gocql.RoundRobinHostPolicy()
	d.NumConns = 1
	db, err := session(ctx, d)
	if err != nil {
		return err
	}
	defer db.Close()
	m := &schema{Config: cfg, db: db, holder: uuid.New()}
	if m.at, err = readTopology(ctx, db); err != nil {
		return err
	}
	if err := m.at.check(cfg.LocalDC); err != nil {
		return err
	}
	if m.files, err = files(cfg); err != nil {
		return err
	}
	return m.prepare(ctx)
}

// unusableFile is a file named by a Config that cannot be read.
type unusableFile struct{ error }

func (e *unusableFile) Unwrap() error { return e.error }

var _ persistence.Store = (*Store)(nil)
