package gateway

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// plan is a compiled schedule with what there is to say about it.
type plan struct {
	timing      job.Timing
	schedule    *job.Schedule
	once        sync.Once
	warnings    []string
	description string
}

// words fills in what is only needed when a schedule is shown.
func (p *plan) words() (warnings []string, description string) {
	p.once.Do(func() { p.warnings, p.description = job.Warnings(p.timing), job.Describe(p.timing) })
	return p.warnings, p.description
}

// wordsOf is words for a job, which its upstreams may trigger.
func (p *plan) wordsOf(s *belfryv1.JobSpec) (warnings []string, description string) {
	upstreams := s.GetDependsOn()
	if len(upstreams) == 0 {
		return p.words()
	}
	if p.timing.Expr != "" {
		warnings = []string{"schedule_expr is not evaluated: the jobs of depends_on trigger this one"}
	}
	return warnings, "After the success of " + strings.Join(upstreams, ", ") + "."
}

// nextRuns lists the first n instants after one, in UTC and on the wall clock.
func nextRuns(s *job.Schedule, after time.Time, n int) (utc []time.Time, local []string) {
	utc, local = make([]time.Time, 0, n), make([]string, 0, n)
	for len(utc) < n {
		at, ok := s.Next(after)
		if !ok {
			break
		}
		utc, local = append(utc, at), append(local, s.In(at).Format(time.RFC3339Nano))
		after = at
	}
	return utc, local
}

// maxPlans bounds the cache; when it is full it starts anew.
const maxPlans = 4096

// schedules remembers compiled schedules: many jobs share few expressions, and
// one that nobody shares is asked for again when its job is shown.
type schedules struct {
	mu   sync.RWMutex
	kept map[job.Key]*plan
}

func newSchedules() *schedules { return &schedules{kept: map[job.Key]*plan{}} }

func (s *schedules) compile(t job.Timing) (*plan, error) {
	key := t.Key()
	s.mu.RLock()
	p := s.kept[key]
	s.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	schedule, err := job.Compile(t)
	if err != nil {
		return nil, err
	}
	p = &plan{timing: t, schedule: schedule}
	s.keep(key, p)
	return p, nil
}

func (s *schedules) keep(key job.Key, p *plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= maxPlans {
		clear(s.kept)
	}
	s.kept[key] = p
}

// validate checks a normalised spec and returns its schedule.
func (g *Gateway) validate(spec job.Spec) (*plan, []job.Problem) {
	p, err := g.schedules.compile(spec.Schedule)
	return p, append(problemsOf(spec.ValidateCompiled(g.cfg.Policy, err)), g.brokerProblems(spec.Target)...)
}

// brokerProblems finds a broker that this server does not know.
func (g *Gateway) brokerProblems(t job.Target) []job.Problem {
	switch {
	case t.NATS != nil:
		return g.unknownBroker("nats", t.NATS.Broker)
	case t.Kafka != nil:
		return g.unknownBroker("kafka", t.Kafka.Broker)
	}
	return nil
}

func (g *Gateway) unknownBroker(kind, name string) []job.Problem {
	var known []string
	for n, k := range g.cfg.Brokers {
		if k == kind {
			known = append(known, n)
		}
	}
	if slices.Contains(known, name) || !job.ValidBrokerName(name) {
		return nil
	}
	slices.Sort(known)
	return job.Refuse("target."+kind+".broker", "this server knows no %s broker %q: its operator names them in --brokers-file (there are: %s)", kind, clip(name), cmp.Or(strings.Join(known, ", "), "none")).Problems
}

func problemsOf(err error) []job.Problem {
	var bad *job.Invalid
	if errors.As(err, &bad) {
		return bad.Problems
	}
	return nil
}
