package partition

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// A run waits in c for its upstreams when one of those is taken away, and the
// outcome that it waits for comes before that is durable, or after; and the owner
// dies after any of the batches. The run reaches c once: it is skipped, and runs
// all the same when what are its upstreams now have succeeded.
func TestUpstreamsChangeUnderARun(t *testing.T) {
	for _, left := range [][]string{{"b"}, {"b", "d"}, {"a", "b"}} {
		for _, early := range []bool{true, false} {
			for dies := range 12 {
				t.Run(fmt.Sprintf("%s/early=%t/dies=%d", strings.Join(left, "+"), early, dies), func(t *testing.T) {
					s := newRunOfC(t, "a", "b", "d")
					s.notify("a")
					s.dieAfter(dies)
					if early {
						s.hold()
					}
					s.register(left...)
					s.notify("b")
					s.goOn()
					s.die(dies)
					s.register(left...)
					for _, u := range append([]string{"b"}, left...) {
						s.notify(u)
					}
					s.ranOnce()
				})
			}
		}
	}
}

// What waits when the upstreams of its job change is skipped, also when the owner
// dies before it has said so.
func TestUpstreamsChangeAndARunIsOver(t *testing.T) {
	for dies := range 5 {
		t.Run(fmt.Sprint(dies), func(t *testing.T) {
			s := newRunOfC(t, "a", "b", "d")
			s.notify("a")
			s.dieAfter(dies)
			s.register("a", "b")
			s.die(dies)
			s.register("a", "b")
			if got := fmt.Sprint(s.lines()); got != "[skipped: the dependencies were changed]" {
				t.Errorf("the run that waited is %s", got)
			}
			if got := s.w.state.jobs["c"].past.counters.skipped; got != 1 {
				t.Errorf("%d skipped runs are counted", got)
			}
		})
	}
}

// runOfC is an owner of c, in which one run of a's arrives. Other owners agree to
// everything.
type runOfC struct {
	t     *testing.T
	w     *world
	run   *belfryv1.Run
	batch persistence.Batch // in flight
	held  bool              // until goOn
}

func newRunOfC(t *testing.T, upstreams ...string) *runOfC {
	s := &runOfC{t: t, w: newWorldOf(t, job.PartitionOf("c", 16))}
	s.w.tell = func(c *belfryv1.Command) {
		s.w.pending = append(s.w.pending, func() { s.w.stepNow(Told{c.GetId(), done()}) })
	}
	s.run = &belfryv1.Run{Id: job.ScheduledID("a", 1, origin), Root: "a", Instant: origin.UnixMilli()}
	s.register(upstreams...)
	return s
}

func (s *runOfC) register(upstreams ...string) {
	s.w.ask(&belfryv1.Command{JobId: "c", Action: &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: following(upstreams)}}})
}

// notify tells c that an upstream has succeeded in the run, as often as it is told.
func (s *runOfC) notify(upstream string) {
	u := s.w.state.jobs["c"].ups()[upstream]
	if u == nil {
		return
	}
	n := map[string]int64{"a": 1001, "b": 1002, "d": 1003}[upstream]
	o := &belfryv1.Outcome{N: n, ExecutionId: upstream, Run: proto.Clone(s.run).(*belfryv1.Run), Status: string(job.Succeeded)}
	s.w.ask(&belfryv1.Command{JobId: "c", Action: &belfryv1.Command_Notify{Notify: &belfryv1.Notify{Upstream: upstream, Edge: u.GetEdge(), Outcomes: []*belfryv1.Outcome{o}}}})
}

// dieAfter lets the store take so many batches more, and no other until die; 0:
// the owner lives.
func (s *runOfC) dieAfter(n int) {
	left := n
	s.w.fate.commit = func() verdict {
		if left--; n > 0 && left < 0 {
			return silent
		}
		return fine
	}
}

func (s *runOfC) die(n int) {
	s.w.fate.commit = nil
	if n > 0 {
		s.w.crash()
		s.w.boot()
	}
}

// hold keeps the next batch in flight until goOn.
func (s *runOfC) hold() {
	fate := s.w.fate.commit
	s.w.fate.commit = func() verdict {
		s.w.fate.commit = fate
		s.held = fate() == fine
		return silent
	}
	s.w.stalled = func(c Commit) { s.w.stalled = func(Commit) {}; s.batch = c.Batch }
}

func (s *runOfC) goOn() {
	if s.held {
		s.held = false
		s.w.store.apply(s.batch)
		s.w.step(Applied{s.w.store.fence})
	}
}

func (s *runOfC) lines() (out []string) {
	for _, l := range s.w.lines("c") {
		out = append(out, strings.TrimSuffix(l.status+": "+l.reason, ": "))
	}
	return out
}

func (s *runOfC) ranOnce() {
	s.t.Helper()
	calls := map[string]bool{}
	for _, d := range s.w.deliveries {
		calls[d.id] = true
	}
	if got := fmt.Sprint(s.lines()); got != "[succeeded]" || len(calls) != 1 {
		s.t.Errorf("the run is %s, and the target was called for %d executions", got, len(calls))
	}
	for k := range s.w.store.rows {
		if strings.HasPrefix(k[1], "join/") {
			s.t.Errorf("the run still waits: %v, upstreams %v", k, s.w.state.jobs["c"].links.ups)
		}
	}
}
