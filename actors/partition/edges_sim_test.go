package partition

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestEdges asks for random dependencies and deletions, many at once, through
// lost messages and dying owners, one life a seed. At the end all three parties
// to each edge agree on it, and there is no cycle.
//
// BELFRY_SIM_SEEDS sets how many are played, BELFRY_SIM_SEED replays one.
func TestEdges(t *testing.T) {
	t.Parallel()
	edges, refused := 0, 0
	seeds := lives(t)
	for _, life := range seeds {
		s := &edgeSim{network: newNetwork(t, life.seed, "a", "b", "c", "d", "e")}
		s.say("seed=%d", life.seed)
		edges += s.play()
		refused += s.refused
	}
	t.Logf("%d edges, %d refusals", edges, refused)
	if len(seeds) >= 100 && (edges == 0 || refused == 0) {
		t.Error("the simulation does not reach what it is for")
	}
}

type edgeSim struct {
	*network
	refused int
}

func (s *edgeSim) play() int {
	jobs := []string{"a", "b", "c", "d", "e"}
	for range 40 {
		s.shaky, s.rough = s.r.IntN(2) == 0, s.r.IntN(3) == 0
		id := jobs[s.r.IntN(len(jobs))]
		c := &belfryv1.Command{JobId: id, Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}}
		if s.r.IntN(6) > 0 {
			sp := spec("@every 1h")
			if ups := s.some(jobs); len(ups) > 0 {
				sp = following(ups)
			}
			c.Action = &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: sp}}
		}
		s.start(c)
		s.run(time.Duration(s.r.IntN(700)) * time.Millisecond)
	}
	s.heal()
	s.run(3 * time.Minute)
	return s.verify(jobs)
}

func (s *edgeSim) some(jobs []string) []string {
	var out []string
	for _, id := range jobs {
		if s.r.IntN(4) == 0 {
			out = append(out, id)
		}
	}
	return out
}

func (s *edgeSim) start(c *belfryv1.Command) {
	s.startThen(c, func(a *belfryv1.Answer) {
		if a.GetRefusal() != nil {
			s.refused++
		}
	})
}

// startThen sends a command and does not wait.
func (s *network) startThen(c *belfryv1.Command, got func(*belfryv1.Answer)) {
	s.made++
	c.Id, c.Keyed = fmt.Sprint("client", s.made), true
	to := job.PartitionOf(c.GetJobId(), 16)
	w := s.worlds[to]
	if w.state == nil {
		return
	}
	w.nextRef++
	ref := w.nextRef
	s.step(to, Asked{Ref: ref, Commands: []*belfryv1.Command{proto.Clone(c).(*belfryv1.Command)}, Single: true})
	s.await(to, ref, got)
}

// verify: the job, its upstreams and the system partition say the same.
func (s *edgeSim) verify(jobs []string) int {
	graph, fresh, edges := s.worlds[job.SystemPartition].state.graph, job.NewGraph(), 0
	for _, id := range jobs {
		w := s.of(id)
		if len(w.state.wirings) > 0 || len(w.state.errands) > 0 {
			s.fail("the partition of %s has %d wirings and %d errands left", id, len(w.state.wirings), len(w.state.errands))
		}
		j := w.state.jobs[id]
		ups := j.upstreams()
		edges += len(ups)
		if got := graph.Upstreams(id); !slices.Equal(got, ups) {
			s.fail("%s follows %v, and the system partition has %v", id, ups, got)
		}
		if bad := fresh.Set(id, ups); bad != nil {
			s.fail("%s follows %v: %v", id, ups, bad)
		}
		for _, u := range ups {
			d := s.downOf(u, id)
			if d == nil || d.edge != j.links.ups[u].GetEdge() {
				s.fail("%s follows %s by edge %d, and that has %+v", id, u, j.links.ups[u].GetEdge(), d)
			}
		}
		if j == nil || j.status == job.Deleted {
			if len(ups) > 0 || j != nil && len(j.downs()) > 0 {
				s.fail("%s is gone, and has links: %+v", id, j.links)
			}
			continue
		}
		for d := range j.downs() {
			if s.of(d).state.jobs[d].ups()[id] == nil {
				s.fail("%s does not follow %s, which believes it does", d, id)
			}
		}
	}
	for p, w := range s.worlds {
		for k := range w.store.rows {
			if k[1] == "wiring" {
				s.fail("partition %d keeps a row of %s: %s", p, k[0], k[1])
			}
		}
	}
	return edges
}

func (s *edgeSim) downOf(id, dependent string) *downstream {
	if j := s.of(id).state.jobs[id]; j != nil {
		return j.downs()[dependent]
	}
	return nil
}
