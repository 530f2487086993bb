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
	}
}

// probe is a serial read: it needs the replicas that a conditional write needs.
func (s *Store) probe() {
	ctx, cancel := context.WithTimeout(s.ctx, probeTimeout)
	defer cancel()
	_, _, err := s.look(ctx, job.SystemPartition)
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
	s.health.failed(fmt.Errorf("the database does not take writes: %w", err))
}
