package partition

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestDependencies plays random lives of jobs that follow one another, one a
// seed, in partitions of their own: messages between owners are lost, repeated
// and late, owners die between any two effects, the store answers in doubt,
// executions fail. At the end of it each run has reached each job once: it ran
// exactly when all its upstreams had succeeded, after them, and else was skipped.
//
// BELFRY_SIM_SEEDS sets how many are played, BELFRY_SIM_SEED replays one.
func TestDependencies(t *testing.T) {
	t.Parallel()
	var total netStats
	seeds := lives(t)
	for _, life := range seeds {
		total.add(newNetSim(t, life.seed).play())
		if t.Failed() {
			return
		}
	}
	t.Logf("%+v", total)
	if len(seeds) >= 100 && (total.Ran == 0 || total.Skipped == 0 || total.Lost == 0 || total.Crashes == 0) {
		t.Error("the simulation does not reach what it is for")
	}
}

type netStats struct{ Ran, Skipped, Lost, Crashes int }

func (s *netStats) add(o netStats) {
	s.Ran += o.Ran
	s.Skipped += o.Skipped
	s.Lost += o.Lost
	s.Crashes += o.Crashes
}

// network is several partitions, each a world of its own, and what lies between.
type network struct {
	t      testing.TB
	r      *rand.Rand
	now    time.Time
	worlds map[int32]*world
	order  []int32
	queue  []*arrival
	made   int
	shaky  bool // messages are lost, repeated and late
	rough  bool // stores answer in doubt, and owners die between effects
	stats  netStats
	log    []string
}

// arrival is something that will happen.
type arrival struct {
	at time.Time
	n  int
	do func()
}

func newNetwork(t testing.TB, seed uint64, jobs ...string) *network {
	n := &network{t: t, r: seeded(seed), now: origin, worlds: map[int32]*world{}}
	n.open(job.SystemPartition)
	for _, id := range jobs {
		n.open(job.PartitionOf(id, 16))
	}
	return n
}

func (n *network) open(p int32) {
	if n.worlds[p] != nil {
		return
	}
	w := newWorldOf(n.t, p)
	n.worlds[p] = w
	n.order = append(n.order, p)
	w.tell = func(c *belfryv1.Command) { n.send(p, c) }
	w.interrupt = func() bool { return n.rough && n.r.IntN(60) == 0 }
	w.fate.commit = func() verdict {
		if !n.rough || n.r.IntN(3) > 0 {
			return fine
		}
		return []verdict{doubtDone, doubtDead, unavailable}[n.r.IntN(3)]
	}
}

func (n *network) of(id string) *world { return n.worlds[job.PartitionOf(id, 16)] }

func (n *network) fail(format string, args ...any) {
	n.t.Helper()
	n.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(n.log, "\n"))
}

func (n *network) say(format string, args ...any) {
	n.log = append(n.log, n.now.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (n *network) after(d time.Duration, do func()) {
	n.made++
	n.queue = append(n.queue, &arrival{n.now.Add(d), n.made, do})
}

func (n *network) delay() time.Duration {
	if n.shaky {
		return time.Duration(n.r.IntN(4000)) * time.Millisecond
	}
	return time.Duration(n.r.IntN(5)) * time.Millisecond
}

func (n *network) lost() bool {
	lost := n.shaky && n.r.IntN(4) == 0
	if lost {
		n.stats.Lost++
	}
	return lost
}

// send carries a command to its owner, and the answer back, each of which may be
// lost. Then the asker gives up after a while, as its shell does.
func (n *network) send(from int32, c *belfryv1.Command) {
	asker := n.worlds[from]
	state := asker.state
	told := false
	tell := func(a *belfryv1.Answer) {
		if !told && asker.state == state && state != nil {
			told = true
			n.step(from, Told{c.GetId(), a})
		}
	}
	n.after(errandTimeout, func() { tell(nil) })
	for range 1 + n.r.IntN(2) {
		if n.lost() {
			continue
		}
		n.after(n.delay(), func() { n.deliver(c, tell) })
	}
}

func (n *network) deliver(c *belfryv1.Command, tell func(*belfryv1.Answer)) {
	to := job.PartitionOf(c.GetJobId(), 16)
	w := n.worlds[to]
	if w == nil || w.state == nil {
		return
	}
	w.nextRef++
	ref := w.nextRef
	n.step(to, Asked{Ref: ref, Commands: []*belfryv1.Command{proto.Clone(c).(*belfryv1.Command)}, Single: true})
	n.await(to, ref, func(a *belfryv1.Answer) {
		if !n.lost() {
			n.after(n.delay(), func() { tell(a) })
		}
	})
}

// await looks for an answer until its owner is gone.
func (n *network) await(p int32, ref Ref, got func(*belfryv1.Answer)) {
	w := n.worlds[p]
	if a, ok := w.answers[ref].(*belfryv1.Answer); ok {
		delete(w.answers, ref)
		got(a)
		return
	}
	if state := w.state; state != nil {
		n.after(20*time.Millisecond, func() {
			if w.state == state {
				n.await(p, ref, got)
			}
		})
	}
}

// step tells one owner something. One that died is replaced after a while.
func (n *network) step(p int32, e Event) {
	w := n.worlds[p]
	if w.state == nil {
		return
	}
	w.now = n.now
	w.step(e)
	if w.state == nil {
		n.stats.Crashes++
		n.say("the owner of %d dies", p)
		n.after(time.Duration(n.r.IntN(5000))*time.Millisecond, func() { n.boot(p) })
	}
}

func (n *network) boot(p int32) {
	w := n.worlds[p]
	w.now = n.now
	rough := n.rough
	n.rough = false
	w.boot()
	n.rough = rough
}

// run lets time pass.
func (n *network) run(d time.Duration) {
	end := n.now.Add(d)
	for {
		at, do := end, func() {}
		found := false
		for _, p := range n.order {
			w := n.worlds[p]
			if w.state == nil {
				continue
			}
			if wake, ok := w.state.Wake(); ok && !wake.After(at) {
				at, found, do = wake, true, func() { n.step(p, Tick{}) }
			}
		}
		var first *arrival
		for _, a := range n.queue {
			if !a.at.After(at) && (first == nil || a.at.Before(first.at) || a.at.Equal(first.at) && a.n < first.n) {
				first = a
			}
		}
		if first != nil {
			at, found, do = first.at, true, first.do
			n.queue = slices.DeleteFunc(n.queue, func(a *arrival) bool { return a == first })
		}
		if at.After(n.now) {
			n.now = at
		}
		if !found {
			return
		}
		do()
	}
}

// ask sends a command as a client does, and waits for its answer; nil: it gave
// up.
func (n *network) ask(c *belfryv1.Command, wait time.Duration) *belfryv1.Answer {
	n.made++
	c.Id, c.Keyed = fmt.Sprint("client", n.made), true
	var answer *belfryv1.Answer
	to := job.PartitionOf(c.GetJobId(), 16)
	for until := n.now.Add(wait); answer == nil && n.now.Before(until); {
		if w := n.worlds[to]; w.state != nil {
			w.nextRef++
			ref := w.nextRef
			n.step(to, Asked{Ref: ref, Commands: []*belfryv1.Command{proto.Clone(c).(*belfryv1.Command)}, Single: true})
			n.await(to, ref, func(a *belfryv1.Answer) {
				if !passing(a.GetRefusal().GetCode()) {
					answer = a
				}
			})
		}
		for again := n.now.Add(2 * time.Second); answer == nil && n.now.Before(again); {
			n.run(50 * time.Millisecond)
		}
	}
	return answer
}

func (n *network) register(id string, sp *belfryv1.JobSpec) *belfryv1.Answer {
	return n.ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: sp}}}, time.Minute)
}

// following is the spec of a job that follows others.
func following(upstreams []string, edit ...func(*job.Spec)) *belfryv1.JobSpec {
	return spec("", append([]func(*job.Spec){func(s *job.Spec) { s.DependsOn = upstreams }}, edit...)...)
}

// heal ends every fault.
func (n *network) heal() {
	n.shaky, n.rough = false, false
	for _, p := range n.order {
		if n.worlds[p].state == nil {
			n.boot(p)
		}
	}
}

// netSim is one random life of a graph with one root.
type netSim struct {
	*network
	jobs    []string
	ups     map[string][]string
	outcome map[string]bool // of an execution, as its target decides once and for all
	ran     map[string]int  // where in the order of deliveries an execution stands first
	from    time.Time       // the runs that count begin after it
}

func newNetSim(t *testing.T, seed uint64) *netSim {
	s := &netSim{network: newNetwork(t, seed, "a", "b", "c", "d", "e"), ups: map[string][]string{}, outcome: map[string]bool{}, ran: map[string]int{}}
	s.say("seed=%d", seed)
	s.jobs = []string{"a", "b", "c", "d", "e"}[:2+s.r.IntN(4)]
	for i, id := range s.jobs[1:] {
		for _, u := range s.jobs[:i+1] {
			if s.r.IntN(2) == 0 {
				s.ups[id] = append(s.ups[id], u)
			}
		}
		if s.ups[id] == nil {
			s.ups[id] = []string{s.jobs[s.r.IntN(i+1)]}
		}
	}
	for _, w := range s.worlds {
		w.fate.outcome = s.receive
	}
	return s
}

// receive is every target: what becomes of an execution does not depend on how
// often it is delivered.
func (s *netSim) receive(x *belfryv1.Delivery) *belfryv1.Result {
	id := x.GetExecutionId()
	if _, seen := s.ran[id]; !seen {
		s.ran[id] = len(s.ran) + 1
		s.outcome[id] = s.r.IntN(5) > 0
		s.say("%s runs: %t", id, s.outcome[id])
	}
	if !s.outcome[id] {
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, StatusCode: 500, Error: "500"}
	}
	return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED, StatusCode: 200}
}

func (s *netSim) play() netStats {
	once := func(j *job.Spec) { j.Retry.MaxAttempts = 1; j.CatchUp.Policy = job.CatchUpAll }
	if s.register("a", spec("@every 10s", once)).GetJob() == nil {
		s.fail("a was not registered")
	}
	s.shaky, s.rough = s.r.IntN(2) == 0, s.r.IntN(2) == 0
	for _, id := range s.jobs[1:] {
		outstanding := func(j *job.Spec) { j.MaxOutstanding = 1 + s.r.IntN(3) }
		a := s.register(id, following(s.ups[id], once, outstanding))
		if a.GetRefusal() != nil {
			s.fail("%s was refused: %v", id, a)
		}
		if a == nil { // nobody knows: it has to be there in the end
			s.heal()
			if a = s.register(id, following(s.ups[id], once, outstanding)); a.GetJob() == nil {
				s.fail("%s was not registered: %v", id, a)
			}
		}
	}
	s.from = s.now
	for range 6 {
		s.shaky, s.rough = s.r.IntN(2) == 0, s.r.IntN(3) == 0
		s.run(time.Duration(s.r.IntN(15_000)) * time.Millisecond)
	}
	s.heal()
	s.ask(&belfryv1.Command{JobId: "a", Action: &belfryv1.Command_Pause{Pause: &belfryv1.Pause{}}}, time.Minute)
	s.run(2 * time.Minute)
	s.verify()
	return s.stats
}

// verify follows each run through the graph.
func (s *netSim) verify() {
	for id := range s.ran {
		if ref, _ := job.ParseExecutionID(id); ref.JobID == "a" && ref.At.After(s.from) {
			s.verifyRun(id, ref.At)
		}
	}
	for _, id := range s.jobs {
		j := s.of(id).state.jobs[id]
		if len(j.flights()) > 0 || j.links != nil && (len(j.links.outs) > 0 || slices.ContainsFunc(j.links.joins, func(x *belfryv1.Join) bool {
			return x.GetCause() == "" && job.Instant(x.GetRun().GetInstant()).After(s.from)
		})) {
			s.fail("%s does not come to rest: %d in flight, links %+v", id, len(j.flights()), j.links)
		}
	}
	for p, w := range s.worlds {
		if len(w.state.wirings) > 0 || len(w.state.errands) > 0 {
			s.fail("partition %d has %d wirings and %d errands left", p, len(w.state.wirings), len(w.state.errands))
		}
	}
}

func (s *netSim) verifyRun(root string, at time.Time) {
	status := map[string]string{}
	exec := map[string]string{"a": root}
	for _, id := range s.jobs {
		w := s.of(id)
		if id != "a" {
			exec[id] = job.DependentID(id, w.state.jobs[id].gen, job.CommandHash(root), at)
		}
		for _, l := range w.lines(id) {
			if l.id == exec[id] {
				status[id] = l.status
			}
		}
		want := string(job.Succeeded)
		if slices.ContainsFunc(s.ups[id], func(u string) bool { return status[u] != string(job.Succeeded) }) {
			want = string(job.Skipped)
		} else if !s.outcome[exec[id]] {
			want = string(job.Failed)
		}
		if status[id] != want {
			s.fail("run %s: %s is %q, not %q (%v follow %v): %v", root, id, status[id], want, id, s.ups[id], slices.Collect(maps.Keys(s.ran)))
		}
		_, ran := s.ran[exec[id]]
		if ran == (want == string(job.Skipped)) {
			s.fail("run %s: %s is %s, and ran: %t", root, id, want, ran)
		}
		for _, u := range s.ups[id] {
			if ran && s.ran[exec[u]] > s.ran[exec[id]] {
				s.fail("run %s: %s ran before %s", root, id, u)
			}
		}
		if ran {
			s.stats.Ran++
		} else {
			s.stats.Skipped++
		}
	}
}
