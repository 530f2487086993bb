package cql

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/scylladb/gocqlx/v2"

	"github.com/belfry-scheduler/belfry/messages/job"
)

const (
	turns      = 16              // barriers and acquires in flight
	copies     = 8               // batches of history being copied
	lastCopies = 2 * time.Second // that Close gives the copies under way
)

// Store is a ScyllaDB or Cassandra keyspace as Belfry's store.
type Store struct {
	cfg   Config
	log   *slog.Logger
	db    gocqlx.Session
	route *detour

	patience patience
	turns    chan struct{} // holds a token for each barrier or acquire in flight
	copies   chan struct{} // and for each batch of history
	health   *health

	partitions atomic.Int32             // of the cluster; 0 until known
	nodes      atomic.Pointer[[]string] // names of those whose beats were last read; nil until then

	mu       sync.Mutex
	outboxes map[int32]*outbox // never removed: one small struct each

	ctx     context.Context // ends with the store
	cancel  context.CancelFunc
	closing sync.Once
	working sync.WaitGroup // goroutines of the store
}

func newStore(cfg Config, db gocqlx.Session, route *detour) *Store {
	s := &Store{
		cfg: cfg, log: cfg.Logger.With("store", "cql", "keyspace", cfg.Keyspace), db: db, route: route,
		patience: patience{least: cfg.seams.patience},
		turns:    make(chan struct{}, turns), copies: make(chan struct{}, copies),
		health: newHealth(), outboxes: map[int32]*outbox{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.working.Add(1)
	go func() {
		defer s.working.Done()
		s.watch()
	}()
	return s
}

var errClosed = fmt.Errorf("%w: the store is closed", job.ErrUnavailable)

// enter begins a call.
func (s *Store) enter(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return errClosed
	}
	return ended(ctx)
}

// start runs something beside the calls, unless the store is being closed.
func (s *Store) start(work func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.working.Add(1)
	go func() {
		defer s.working.Done()
		work()
	}()
}

// Close gives the copies of history that are under way a moment, and ends the
// store. What is not copied by then is copied by the next owner.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.drain(lastCopies)
		s.mu.Lock()
		s.cancel()
		s.mu.Unlock()
		s.working.Wait()
		s.db.Close()
	})
	return nil
}

// outbox is a partition's, made on first use.
func (s *Store) outbox(partition int32) *outbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outboxes[partition]
	if o == nil {
		o = newOutbox(partition)
		s.outboxes[partition] = o
	}
	return o
}

// turn waits for one of the places that barriers and acquires share.
func (s *Store) turn(ctx context.Context) error {
	select {
	case s.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	case <-s.ctx.Done():
		return errClosed
	}
}

// backoff is a pause that grows with each try, with jitter: 50 ms to 1 s.
func backoff(try int) time.Duration {
	d := min(50*time.Millisecond<<min(try, 5), time.Second)
	return d/2 + rand.N(d/2)
}
