package embedded

import (
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/storetest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderEnv); dir != "" {
		holdDirectory(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func TestSuite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) persistence.Store { return openMem(t, vfs.NewMem()) })
}

// TestFormats runs on a disk: a write that takes its time lets others in.
func TestFormats(t *testing.T) {
	storetest.RunFormats(t, func(t *testing.T) persistence.Store {
		cfg := small(nil)
		cfg.Dir = t.TempDir()
		s, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { mustClose(t, s) })
		return s
	})
}

// TestSuiteOnOneDisk runs the suite in one directory, as it will be run on a
// database that keeps what earlier cases have left.
func TestSuiteOnOneDisk(t *testing.T) {
	cfg := small(nil)
	cfg.Dir = t.TempDir()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	storetest.Run(t, func(*testing.T) persistence.Store { return s })
}

// small is a configuration that flushes and compacts after few writes.
func small(fs vfs.FS) Config {
	return Config{Dir: "data", FS: fs, MemTableBytes: minMemTableBytes, CacheBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)}
}

// openMem opens a small store that the test's end closes.
func openMem(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open(small(fs))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestReopenKeepsConstantsAndFences(t *testing.T) {
	fs := vfs.NewMem()
	s := openMem(t, fs)
	made, err := s.Cluster(t.Context(), storetest.Constants())
	if err != nil {
		t.Fatal(err)
	}
	c := newChain(t, s, 3)
	if err := c.commit(persistence.Batch{LastNumber: 42}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)

	s = openMem(t, fs)
	found, err := s.Cluster(t.Context(), storetest.Constants())
	if err != nil || found != made {
		t.Fatalf("constants: got %v, %v, want %v", found, err, made)
	}
	// An acquire after a restart need not be preceded by a read.
	next, err := s.Acquire(t.Context(), c.held, persistence.Owner{Node: "b"}, uuid.New())
	if err != nil || next.Epoch != c.held.Epoch+1 || next.LastNumber != 42 {
		t.Fatalf("acquire: got %v, %v after %v", next, err, c.held)
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	c := newChain(t, s, 0)
	mustClose(t, s)
	mustClose(t, s) // a second time
	refusesEverything(t, s, c.held)
}

// refusesEverything checks that each call is answered with ErrUnavailable and
// leaves no doubt.
func refusesEverything(t testing.TB, s *Store, held persistence.Fence) {
	t.Helper()
	ctx, p := t.Context(), held.Partition
	_, clusterErr := s.Cluster(ctx, storetest.Constants())
	_, readErr := s.ReadFence(ctx, p)
	_, acquireErr := s.Acquire(ctx, held, persistence.Owner{Node: "b"}, uuid.New())
	_, commitErr := s.Commit(ctx, held, persistence.Batch{OpID: uuid.New()})
	_, _, settleErr := s.Settle(ctx, held, uuid.New(), uuid.New())
	_, getErr := s.Get(ctx, p, 0, "x", "")
	_, _, _, listErr := s.List(ctx, persistence.Position{}, 10)
	_, executionsErr := s.Executions(ctx, p, 0, "x", nil, 10)
	_, attemptsErr := s.Attempts(ctx, p, 0, "x", 0, "e")
	for what, err := range map[string]error{
		"healthy": s.Healthy(), "cluster": clusterErr, "read": readErr, "acquire": acquireErr,
		"commit": commitErr, "settle": settleErr, "get": getErr, "list": listErr,
		"executions": executionsErr, "attempts": attemptsErr,
		"raise":   s.RaiseFormat(ctx, 1, 2),
		"release": s.Release(ctx, held, uuid.New()),
		"load":    s.Load(ctx, p, 0, 64, func(persistence.Row) error { return nil }),
		"expire":  s.Expire(ctx, p, 1),
	} {
		if !errors.Is(err, job.ErrUnavailable) || errors.Is(err, persistence.ErrInDoubt) {
			t.Errorf("%s: got error %v, want ErrUnavailable and no doubt", what, err)
		}
	}
}

func TestOpenNamesTheFieldThatIsWrong(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Dir":           {},
		"CacheBytes":    {Dir: "d", CacheBytes: -1},
		"MemTableBytes": {Dir: "d", MemTableBytes: 5},
	} {
		if _, err := Open(cfg); err == nil || !contains(err, field) {
			t.Errorf("%s: got error %v", field, err)
		}
	}
	if err := (Config{Dir: "d", MemTableBytes: 2 << 30}).Validate(); err == nil || !contains(err, "MemTableBytes") {
		t.Errorf("a large memtable: got error %v", err)
	}
}
