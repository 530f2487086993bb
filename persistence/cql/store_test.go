package cql

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
	"github.com/belfry-scheduler/belfry/persistence/storetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(storetest.HistoriesEnv) == "" {
		// Each takes longer here, and TestFightsUnderFaults records more.
		os.Setenv(storetest.HistoriesEnv, "10")
	}
	goleak.VerifyTestMain(cassandra.Tests(m))
}

// bench is a database and a keyspace of its own in it.
type bench struct {
	testing.TB
	db  *cassandra.Cluster
	cfg Config
}

func setup(t testing.TB) *bench {
	t.Helper()
	db := cassandra.Start(t, 1)
	b := &bench{TB: t, db: db, cfg: setupConfig(t, db)}
	t.Cleanup(b.drop) // after the stores are closed
	return b
}

// drop removes the keyspace: a server with hundreds of tables is slow.
func (b *bench) drop() {
	cfg := b.cfg.withDefaults()
	cfg.seams = seams{} // the proxy is closed
	d, err := cfg.driver()
	if err != nil {
		b.Fatal(err)
	}
	db, err := session(context.Background(), d)
	if err != nil {
		b.Errorf("drop the keyspace: %v", err)
		return
	}
	defer db.Close()
	q := db.Query("DROP KEYSPACE IF EXISTS "+b.cfg.Keyspace, nil)
	q.SetRequestTimeout(20 * time.Second)
	if err := q.ExecRelease(); err != nil {
		b.Errorf("drop the keyspace: %v", err)
	}
}

func setupConfig(t testing.TB, db interface {
	Hosts() []string
	LocalDC() string
}) Config {
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
	t.Parallel()
	s := setup(t).open()
	storetest.Run(t, func(t *testing.T) persistence.Store { return s })
}

func TestFormats(t *testing.T) {
	t.Parallel()
	storetest.RunFormats(t, func(t *testing.T) persistence.Store { return setup(t).open() })
}
