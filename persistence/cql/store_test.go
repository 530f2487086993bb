package cql

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
	"github.com/belfry-scheduler/belfry/persistence/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(cassandra.Tests(m)) }

// bench is a database and a keyspace of its own in it.
type bench struct {
	testing.TB
	db  *cassandra.Cluster
	cfg Config
}

func setup(t testing.TB) *bench {
	t.Helper()
	db := cassandra.Start(t, 1)
	return &bench{TB: t, db: db, cfg: setupConfig(t, db)}
}

func setupConfig(t testing.TB, db *cassandra.Cluster) Config {
	return Config{
		Hosts: db.Hosts(), LocalDC: db.LocalDC(), Keyspace: "t" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20],
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		seams:  seams{patience: DefaultTimeout}, // a busy machine is no fault
	}
}

// impatient has stores give a commit up as early as they do in earnest.
func (b *bench) impatient() *bench {
	b.cfg.seams.patience = 0
	return b
}

// open opens a store that the end of the test closes.
func (b *bench) open() *Store { b.Helper(); return b.openAs(func(*Config) {}) }

func (b *bench) openAs(change func(*Config)) *Store {
	b.Helper()
	cfg := b.cfg
	change(&cfg)
	s, err := Open(context.Background(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func TestSuite(t *testing.T) {
	if os.Getenv(storetest.HistoriesEnv) == "" {
		t.Setenv(storetest.HistoriesEnv, "10") // each takes longer here, and TestFightsUnderFaults records more
	}
	s := setup(t).open()
	storetest.Run(t, func(t *testing.T) persistence.Store { return s })
}
