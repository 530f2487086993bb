package cql

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
)

const (
	probeEvery   = time.Second
	probeTimeout = 2 * time.Second
	probePause   = 100 * time.Millisecond // between two, however many ask
)

// health is whether the database takes writes, as far as is known: from the
// last conditional write, and when there was none lately, from a probe.
type health struct {
	mu   sync.Mutex
	good time.Time // of the last answer to a write or probe
	err  error
	kick chan struct{} // asks for a probe now
}

func newHealth() *health { return &health{good: time.Now(), kick: make(chan struct{}, 1)} }

func (h *health) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.good, h.err = time.Now(), nil
}

// doubtful asks for a probe after a write without a clear answer.
func (h *health) doubtful() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

func (h *health) quietFor() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.good)
}

func (h *health) state() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Healthy is nil while writes can be acknowledged. It is nil again when the
// database is back.
func (s *Store) Healthy() error {
	if s.ctx.Err() != nil {
		return errClosed
	}
	return s.health.state()
}

// watch probes the database while nothing else tells how it is.
func (s *Store) watch() {
	if s.cfg.seams.noProbes {
		return
	}
	t := time.NewTicker(probeEvery)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.health.kick:
		case <-t.C:
			if s.health.quietFor() < probeEvery {
				continue
			}
		}
		s.probe()
		if pause(s.ctx, probePause) != nil {
			return
		}
	}
}

// probe sends a conditional write that is never applied: it needs the replicas,
// the rights and the room that any other needs.
func (s *Store) probe() {
	ctx, cancel := context.WithTimeout(s.ctx, probeTimeout)
	defer cancel()
	_, err := unpanicked(func() (answer, error) {
		q := s.db.ContextQuery(ctx, neverFence, nil).Bind(job.SystemPartition)
		defer q.Release()
		return readCAS(q.Iter().Iter)
	})
	was := s.health.state()
	if err == nil {
		s.health.answered()
		if was != nil {
			s.log.Info("the database is back")
		}
		return
	}
	if s.ctx.Err() != nil {
		return
	}
	if was == nil {
		s.log.Warn("the database does not take writes", "err", err)
	}
	s.health.failed(fmt.Errorf("%w: the database does not take writes: %w", job.ErrUnavailable, err))
}
