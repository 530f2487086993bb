package embedded

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// fault remembers the first failure of the disk or of pebble, for ever. It is
// also pebble's logger, since that is how pebble says that it cannot go on.
type fault struct {
	log    *slog.Logger
	once   sync.Once
	cause  atomic.Pointer[error]
	broken chan struct{} // closed once cause is set
}

func newFault(log *slog.Logger) *fault {
	return &fault{log: log, broken: make(chan struct{})}
}

// fail breaks the store. It returns after the cause can be seen by everybody,
// so a write that failed cannot be acknowledged by a commit that waits for it.
func (f *fault) fail(err error) {
	f.once.Do(func() {
		f.cause.Store(&err)
		close(f.broken)
		f.log.Error("the store is broken: nothing more is acknowledged, restart the process", "error", err)
	})
}

// err is nil while the store is whole.
func (f *fault) err() error {
	if p := f.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// refusal is the answer to a call that begins after the failure.
func (f *fault) refusal() error {
	if err := f.err(); err != nil {
		return fmt.Errorf("%w: the store is broken: %w", job.ErrUnavailable, err)
	}
	return nil
}

// doubt is the answer to a write that was under way when the store broke.
func (f *fault) doubt() error {
	if err := f.err(); err != nil {
		return fmt.Errorf("%w: %w: the store broke: %w", job.ErrUnavailable, persistence.ErrInDoubt, err)
	}
	return nil
}

// background is told of a flush or compaction that failed. Pebble would try it
// again without end.
func (f *fault) background(err error) { f.fail(fmt.Errorf("in the background: %w", err)) }

// Infof is part of pebble's Logger: files created and deleted.
func (f *fault) Infof(format string, args ...any) {
	f.log.Debug("pebble", "says", fmt.Sprintf(format, args...))
}

// Errorf is part of pebble's Logger: what it can live with.
func (f *fault) Errorf(format string, args ...any) {
	f.log.Warn("pebble", "says", fmt.Sprintf(format, args...))
}

// Fatalf is part of pebble's Logger, and is expected to end the process. It
// ends the store instead and returns. What pebble does next cannot harm: the
// directory is frozen, each commit looks at the fault before it answers, and
// the database is about to be closed.
func (f *fault) Fatalf(format string, args ...any) {
	f.fail(fmt.Errorf("pebble: "+format, args...))
}
