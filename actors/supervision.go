package actors

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
)

// Stopped tells whoever supervises that an actor was stopped after a panic.
type Stopped func(child *actor.PID, reason any)

// Supervises sets what happens to the children of an actor, all of one kind.
// The hook, if any, runs as part of the parent, before the parent gets the
// child's Terminated.
func (f *Factory) Supervises(kind Kind, hook Stopped) Option {
	s := f.strategy(kind, hook)
	return func(o *options) { o.props = append(o.props, actor.WithSupervisor(s)) }
}

// Guardian makes the policy of a kind apply to actors that are spawned from the
// root context, which have no parent. The hook runs in the failed actor's
// goroutine. Make one Option per kind and keep it: protoactor never forgets a
// guardian.
func (f *Factory) Guardian(kind Kind, hook Stopped) Option {
	s := f.strategy(kind, hook)
	return func(o *options) { o.props = append(o.props, actor.WithGuardian(s)) }
}

func (f *Factory) strategy(kind Kind, hook Stopped) *strategy {
	return &strategy{
		kind: kind, factory: f, hook: hook, failures: failures{of: map[string][]time.Time{}},
		restarts: f.metrics.restarts.WithLabelValues(kind.Name), stops: f.metrics.stops.WithLabelValues(kind.Name),
	}
}

// strategy is an actor.SupervisorStrategy that pauses before it restarts, and
// gives up.
type strategy struct {
	kind            Kind
	failures        failures
	factory         *Factory
	hook            Stopped
	restarts, stops prometheus.Counter
}

var _ actor.SupervisorStrategy = (*strategy)(nil)

// HandleFailure implements actor.SupervisorStrategy. It does not use the
// statistics that protoactor carries along: those grow with every failure of
// an actor's life.
func (s *strategy) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	policy := s.kind.OnPanic
	failures := s.failures.add(child.GetId(), time.Now(), policy.Within)
	if failures > policy.Restarts {
		s.stop(supervisor, child, reason, failures)
		return
	}
	pause := policy.pause(failures, rand.Float64())
	s.restarts.Inc()
	s.factory.log.Warn("actor is restarted", "kind", s.kind.Name, "actor", child.GetId(), "failures", failures, "pause", pause.String())
	time.AfterFunc(pause, func() { supervisor.RestartChildren(child) })
}

func (s *strategy) stop(supervisor actor.Supervisor, child *actor.PID, reason any, failures int) {
	s.stops.Inc()
	s.factory.log.Error("actor is stopped", "kind", s.kind.Name, "actor", child.GetId(), "failures", failures, "reason", fmt.Sprint(reason))
	supervisor.StopChildren(child)
	if s.hook == nil {
		return
	}
	defer func() { // a panic here would take the supervisor down, or the process
		if r := recover(); r != nil {
			s.factory.log.Error("panic in a supervisor's hook", "kind", s.kind.Name, "reason", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	s.hook(child, reason)
}

// failures remembers when actors failed, no longer than it matters. It has a
// lock because actors without a parent report from goroutines of their own.
type failures struct {
	mu sync.Mutex
	of map[string][]time.Time
}

// add notes a failure of an actor and returns how many it had in the window.
func (f *failures) add(id string, now time.Time, within time.Duration) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := func(t time.Time) bool { return now.Sub(t) >= within }
	for other, times := range f.of {
		if times = slices.DeleteFunc(times, old); len(times) == 0 {
			delete(f.of, other)
		} else {
			f.of[other] = times
		}
	}
	if within <= 0 {
		return 1
	}
	f.of[id] = append(f.of[id], now)
	return len(f.of[id])
}

// pause is how long the n-th failure in a window is waited out; random is in
// [0, 1).
func (p Policy) pause(n int, random float64) time.Duration {
	d := float64(p.Backoff) * math.Pow(2, float64(n-1))
	if limit := float64(p.MaxBackoff); !(d < limit) {
		d = limit
	}
	return time.Duration(d * (1 + p.Jitter*(2*random-1)))
}
