package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/guards"
)

// slowDisk is how long an operation may take before it is worth a warning.
const slowDisk = 5 * time.Second

// Store is a pebble database as Belfry's store.
type Store struct {
	dir   string
	db    *pebble.DB
	fault *fault
	gate  *gate
	room  *room

	closing sync.Once
	closed  chan struct{} // closed when Close is called
	ended   chan struct{} // closed when pebble is shut down
	result  error         // of the shutdown; read after ended
	free    []io.Closer   // what Close gives back afterwards, in order

	setup      sync.Mutex // serialises Cluster and RaiseFormat
	mu         sync.Mutex
	partitions map[int32]*partition // never removed: one small struct each
}

var _ persistence.Store = (*Store)(nil)

// Open opens the store in a directory, making it when it is not there. It
// recovers what a crash has left: every acknowledged batch, and no part of
// another. ErrInUse when another process has it.
func Open(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Store{
		dir: cfg.Dir, fault: newFault(cfg.Logger), gate: newGate(),
		closed: make(chan struct{}), ended: make(chan struct{}),
		partitions: map[int32]*partition{},
	}
	if err := s.open(cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", cfg.Dir, err), s.release())
	}
	go s.watch()
	return s, nil
}

func (s *Store) open(cfg Config) error {
	fs := s.disk(cfg)
	s.room = &room{fs: fs, dir: cfg.Dir, reserve: cfg.ReserveBytes}
	lock, err := lockDirectory(cfg.Dir, fs)
	if err != nil {
		return err
	}
	s.free = append([]io.Closer{lock}, s.free...)
	g := newGuard(fs, s.fault)
	if s.db, err = pebble.Open(cfg.Dir, cfg.options(s.fault, g, lock)); err != nil {
		return err
	}
	g.arm()
	if err := s.fault.err(); err != nil {
		return errors.Join(err, s.db.Close())
	}
	return nil
}

// disk is the file system to use; the real one tells when it is slow.
func (s *Store) disk(cfg Config) vfs.FS {
	if cfg.FS != nil {
		return cfg.FS
	}
	fs, closer := vfs.WithDiskHealthChecks(vfs.Default, slowDisk, nil, func(info vfs.DiskSlowInfo) {
		cfg.Logger.Warn("the disk is slow", "dir", cfg.Dir, "operation", info.String())
	})
	s.free = append(s.free, closer)
	return fs
}

// watch shuts pebble down when the store breaks or is closed. A broken store
// is shut at once, so that pebble does not repeat a failing flush without end.
func (s *Store) watch() {
	defer close(s.ended)
	select {
	case <-s.fault.broken:
	case <-s.closed:
	}
	s.gate.close()
	s.result = s.db.Close()
	if s.fault.err() != nil {
		s.result = nil // the cause is known, and what follows from it is no news
	}
}

// Close ends the store: it waits for the calls under way and gives the
// directory back. A second call does nothing.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.closed)
		<-s.ended
		err = errors.Join(s.result, s.release())
	})
	if err != nil {
		return fmt.Errorf("close store %s: %w", s.dir, err)
	}
	return nil
}

func (s *Store) release() (err error) {
	for _, c := range s.free {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Healthy is nil while writes can be acknowledged. A failure of the disk is
// told for ever; a full disk as long as it is full.
func (s *Store) Healthy() error {
	if err := s.fault.refusal(); err != nil {
		return err
	}
	select {
	case <-s.closed:
		return errClosed
	default:
		return s.room.check()
	}
}

var errClosed = fmt.Errorf("%w: the store is closed", job.ErrUnavailable)

// enter begins a call; the caller leaves by s.gate.leave when it is nil.
func (s *Store) enter(ctx context.Context) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := s.fault.refusal(); err != nil {
		return err
	}
	if !s.gate.enter() {
		return errors.Join(s.fault.refusal(), errClosed)
	}
	return nil
}

// ended is the answer to a context that is over.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", job.ErrUnavailable, context.Cause(ctx))
}

// write applies a batch and answers when it is on disk.
func (s *Store) write(b *pebble.Batch) error {
	if err := s.fault.refusal(); err != nil {
		return err
	}
	if err := s.db.Apply(b, &pebble.WriteOptions{Sync: !guards.NoSync}); err != nil {
		s.fault.fail(fmt.Errorf("write: %w", err))
	}
	if err := s.fault.doubt(); err != nil {
		return err
	}
	return b.Close()
}

// get calls use with the value of a key, which is only lent; found is false,
// and use is not called, when there is none.
func (s *Store) get(key []byte, use func(value []byte) error) (found bool, err error) {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w: read: %w", job.ErrUnavailable, err)
	}
	return true, errors.Join(use(value), closer.Close())
}

// Cluster returns the stored constants, and stores the wanted ones when there
// are none. *persistence.Mismatch names the first that does not admit the node.
func (s *Store) Cluster(ctx context.Context, want persistence.Cluster) (stored persistence.Cluster, err error) {
	if err := s.enter(ctx); err != nil {
		return stored, fmt.Errorf("cluster constants: %w", err)
	}
	defer s.gate.leave()
	s.setup.Lock()
	defer s.setup.Unlock()
	stored, found, err := s.constants()
	if err == nil && !found {
		stored, err = s.create(want)
	}
	if err != nil {
		return persistence.Cluster{}, fmt.Errorf("cluster constants: %w", err)
	}
	return stored, stored.Admit(want)
}

// constants are the stored ones. The caller holds setup.
func (s *Store) constants() (c persistence.Cluster, found bool, err error) {
	found, err = s.get([]byte{kindCluster}, func(value []byte) (err error) {
		c, err = decodeCluster(value)
		return err
	})
	return c, found, err
}

func (s *Store) create(c persistence.Cluster) (persistence.Cluster, error) {
	if c.ID == uuid.Nil {
		c.ID = uuid.New()
	}
	return c, s.writeConstants(&c)
}

func (s *Store) writeConstants(c *persistence.Cluster) error {
	b := s.db.NewBatch()
	if err := b.Set([]byte{kindCluster}, appendCluster(nil, c), nil); err != nil {
		return err
	}
	return s.write(b)
}

// RaiseFormat raises the stored format.
func (s *Store) RaiseFormat(ctx context.Context, from, to int) error {
	if err := s.raiseFormat(ctx, from, to); err != nil {
		return fmt.Errorf("raise the format from %d to %d: %w", from, to, err)
	}
	return nil
}

func (s *Store) raiseFormat(ctx context.Context, from, to int) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	s.setup.Lock()
	defer s.setup.Unlock()
	stored, found, err := s.constants()
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: the cluster has no constants yet", job.ErrUnavailable)
	}
	raised, change, err := stored.Raise(from, to)
	if err != nil || !change {
		return err
	}
	if err := s.room.check(); err != nil {
		return err
	}
	return s.writeConstants(&raised)
}
