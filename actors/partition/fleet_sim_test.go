package partition

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestFleet plays random lives of a cluster, one a seed: owners that are killed,
// paused, cut off, replaced too early and handed over; workers with them, full,
// draining, lost and back; a network that loses, repeats and delays; a store
// that answers in doubt. The invariants hold after each step, no execution runs
// twice where its owner could have known, and at the end every slot has one
// record and every request its line. See explore.
func TestFleet(t *testing.T) {
	var mu sync.Mutex
	var total fleetStats
	n := explore(t, "fleet", fleetActs, func(t testing.TB, p plan) {
		stats := newFleetSim(t, p.seed).play(p)
		mu.Lock()
		defer mu.Unlock()
		total.add(stats)
	})
	t.Logf("%d lives: %+v", n, total)
	if n >= 100 && (total.Repeats == 0 || total.Handed == 0 || total.Receipts == 0) {
		t.Error("the simulation does not reach what it is for")
	}
}

// fleetStats says what the lives were like.
type fleetStats struct{ Receipts, Repeats, Handed, Takeovers int }

func (s *fleetStats) add(o fleetStats) {
	s.Receipts += o.Receipts
	s.Repeats += o.Repeats
	s.Handed += o.Handed
	s.Takeovers += o.Takeovers
}

type fleetSim struct {
	*fleet
	jobs      []string
	takeovers int
	fills     []*fill
	witness   *witness
}

func newFleetSim(t testing.TB, seed uint64) *fleetSim {
	s := &fleetSim{fleet: newFleet(t, seed), witness: newWitness(t)}
	s.witness.lossy, s.witness.slack = true, mostSkew+time.Millisecond
	for i := 0; len(s.jobs) < 3; i++ {
		if id := fmt.Sprint("j", i); job.PartitionOf(id, 16) == s.cfg.Partition {
			s.jobs = append(s.jobs, id)
		}
	}
	for i := range 2 + s.r.IntN(3) {
		s.start(fmt.Sprint("n", i), 1+s.r.IntN(8))
	}
	s.run(time.Second)
	s.nodes[0].acquire(true)
	return s
}

// fleetActs is how many random things happen to a fleet.
const fleetActs = 70

func (s *fleetSim) play(p plan) fleetStats {
	s.sparse = p.sparse
	for act := range fleetActs {
		if !p.dropped[act] {
			s.r = seeded(p.luck(act))
			s.act()
			s.collect()
		}
	}
	s.heal()
	s.verify()
	return fleetStats{Receipts: len(s.receipts), Repeats: s.repeats, Handed: s.handed, Takeovers: s.takeovers}
}

func (s *fleetSim) node() *fleetNode {
	live := s.live()
	return live[s.r.IntN(len(live))]
}

// act does one random thing.
func (s *fleetSim) act() {
	if s.r.IntN(10) == 0 {
		s.shutRandom()
	}
	switch s.r.IntN(24) {
	case 0, 1:
		s.registerRandom()
	case 2, 3, 4:
		s.askRandom()
	case 5:
		s.rough = !s.rough
	case 6:
		s.shaky = !s.shaky
	case 7:
		s.kill(s.node())
	case 8:
		s.pauseNode(s.node(), time.Duration(s.r.IntN(8000))*time.Millisecond)
	case 9:
		s.cutNode(s.node(), time.Duration(s.r.IntN(8000))*time.Millisecond)
	case 10:
		s.cutStore(s.node(), time.Duration(s.r.IntN(8000))*time.Millisecond)
	case 11, 12:
		s.takeOver()
	case 13, 14:
		s.handOverRandom()
	case 15:
		s.drainNode(s.node())
	case 16:
		if len(s.live()) < 5 {
			s.start(fmt.Sprint("n", s.births), 1+s.r.IntN(8))
		}
	default:
		s.run(time.Duration(s.r.IntN(20_000)) * time.Millisecond)
	}
	s.run(time.Duration(s.r.IntN(700)) * time.Millisecond)
	s.ensureOwner()
}

func (s *fleetSim) kill(n *fleetNode) {
	if len(s.live()) == 1 {
		return
	}
	s.say("%s is killed", n.worker.id)
	n.up = false
	s.after(time.Duration(s.r.IntN(5000))*time.Millisecond, func() { s.start(n.name, n.worker.slots) })
}

func (s *fleetSim) pauseNode(n *fleetNode, d time.Duration) {
	if n.paused {
		return
	}
	s.say("%s is paused for %s", n.worker.id, d)
	n.paused = true
	s.after(d, func() { s.goOn(n) })
}

func (s *fleetSim) goOn(n *fleetNode) {
	if !n.paused {
		return
	}
	s.say("%s goes on", n.worker.id)
	n.paused = false
	missed := n.missed
	n.missed = nil
	for _, do := range missed {
		n.now(do)
	}
}

func (s *fleetSim) cutNode(n *fleetNode, d time.Duration) {
	s.say("%s is cut off for %s", n.worker.id, d)
	n.cut = true
	s.after(d, func() { n.cut = false; s.say("%s is reachable", n.worker.id) })
}

func (s *fleetSim) cutStore(n *fleetNode, d time.Duration) {
	s.say("%s loses the store for %s", n.worker.id, d)
	n.noDB = true
	s.after(d, func() { n.noDB = false })
}

// drainNode lets a process take nothing new; it is killed once it has had time
// to end what it had.
func (s *fleetSim) drainNode(n *fleetNode) {
	if len(s.live()) < 3 || n.worker.draining {
		return
	}
	s.say("%s drains", n.worker.id)
	n.worker.draining = true
	if n == s.owner() {
		s.yield(n, s.candidate())
	}
	s.after(time.Duration(s.r.IntN(60_000))*time.Millisecond, func() { s.kill(n) })
}

// takeOver lets another node take the partition, whatever its owner is doing.
func (s *fleetSim) takeOver() {
	if n := s.candidate(); n != nil && n != s.owner() {
		s.takeovers++
		n.acquire(false)
	}
}

func (s *fleetSim) handOverRandom() {
	if n := s.owner(); n != nil && !n.paused {
		s.yield(n, s.candidate())
	}
}

func (s *fleetSim) yield(n, next *fleetNode) {
	s.say("%s is to yield", n.name)
	n.next = next
	n.now(func() {
		if n.state != nil && !n.told && !n.given {
			n.given = true
			n.step(Yield{})
		}
	})
}

// ensureOwner takes the partition of a node that has been silent for the TTL, or
// that nobody owns.
func (s *fleetSim) ensureOwner() {
	n := s.owner()
	if n != nil && s.now.Sub(n.beat) < ttl {
		return
	}
	for _, o := range s.live() {
		if n == nil && o.given && !o.told && o.state.life == s.life() && s.now.Sub(o.beat) < ttl {
			return // it is being handed over
		}
	}
	s.takeOver()
}

func (s *fleetSim) registerRandom() {
	id := s.jobs[s.r.IntN(len(s.jobs))]
	sp := spec(simExprs[s.r.IntN(len(simExprs))], func(j *job.Spec) {
		j.CatchUp.Policy = []job.CatchUpPolicy{job.CatchUpLatest, job.CatchUpAll, job.CatchUpNone}[s.r.IntN(3)]
		j.CatchUp.Max = 1 + s.r.IntN(20)
		j.CatchUp.Grace = time.Duration(1+s.r.IntN(60)) * time.Second
		j.Retry.MaxAttempts = 1 + s.r.IntN(4)
		j.MaxOutstanding = 1 + s.r.IntN(5)
		j.Timeout = time.Duration(1+s.r.IntN(60)) * time.Second
		j.Overlap, j.OverlapQueue = simOverlaps[s.r.IntN(len(simOverlaps))], 1+s.r.IntN(3)
		throttled(s.r)(j)
	})
	s.tell(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: sp}}})
}

func (s *fleetSim) askRandom() {
	id := s.jobs[s.r.IntN(len(s.jobs))]
	c := &belfryv1.Command{JobId: id}
	switch s.r.IntN(12) {
	case 10, 11:
		s.askBackfill(id)
		return
	case 3, 4:
		if s.cancelRandom(id, c) {
			break
		}
		fallthrough
	case 5, 6, 7, 8, 9:
		c.Action = &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}
	case 0:
		c.Action = &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}
	case 1:
		c.Action = &belfryv1.Command_Pause{Pause: &belfryv1.Pause{}}
	case 2:
		c.Action = &belfryv1.Command_Resume{Resume: &belfryv1.Resume{CatchUp: s.r.IntN(2) == 0}}
	}
	s.tell(c)
}

// cancelRandom makes a command of one that cancels an execution in flight.
func (s *fleetSim) cancelRandom(id string, c *belfryv1.Command) bool {
	o := s.owner()
	if o == nil || o.state.jobs[id] == nil || len(o.state.jobs[id].flights()) == 0 {
		return false
	}
	flights := o.state.jobs[id].flights()
	c.Action = &belfryv1.Command_Cancel{Cancel: &belfryv1.Cancel{ExecutionId: flights[s.r.IntN(len(flights))].id}}
	return true
}

// tell sends a command to the owner, or to one that believes it is.
func (s *fleetSim) tell(c *belfryv1.Command) {
	to := s.owner()
	if s.r.IntN(4) == 0 {
		to = s.node()
	}
	s.witness.asked(s.ask(to, c), c, s.now)
	if c.GetRegister() != nil {
		s.run(300 * time.Millisecond)
	}
}

// collect takes answers.
func (s *fleetSim) collect() {
	s.witness.hear(func(ref Ref) *belfryv1.Answer { return s.answers[ref] })
}

// heal ends every fault and lets everything come to rest.
func (s *fleetSim) heal() {
	s.rough, s.shaky = false, false
	s.quiet = true
	for _, n := range s.live() {
		s.goOn(n)
		n.cut, n.noDB, n.worker.draining, n.worker.shut = false, false, false, nil
		if n.worker.slots < 4 {
			n.worker.slots = 4
		}
	}
	for range 6 {
		s.run(10 * time.Second)
		s.ensureOwner()
	}
	s.run(2 * time.Minute)
	s.collect()
	for s.owner() == nil {
		s.takeOver()
		s.run(10 * time.Second)
	}
	s.witness.fault(check.Shaken, "", origin, s.now)
	s.run(time.Minute)
	for o := s.owner(); o.state.queue.flying != nil; {
		s.run(time.Millisecond) // until what was reported is durable
	}
	s.collect()
}

// verify compares what was promised and received with what is recorded.
func (s *fleetSim) verify() {
	o := s.owner()
	if o == nil {
		s.fail("nobody owns the partition")
		return
	}
	w := &world{t: s.t, state: o.state, store: s.store, now: s.now}
	for _, f := range o.state.running {
		if s.now.UnixMilli()-f.sendAt() > (2 * time.Minute).Milliseconds() {
			s.fail("%s is due since %s, in phase %d, attempt %d", f.id, stamp(f.sendAt()), f.phase, f.attempt)
		}
	}
	for _, n := range s.live() {
		for _, h := range n.worker.sorted() {
			if h.result != nil && s.now.UnixMilli()-h.result.GetFinishedAt() > time.Minute.Milliseconds() {
				s.fail("%s still holds %s", n.worker.id, h.x.GetExecutionId())
			}
		}
	}
	s.verifyAnswers(w)
	for _, id := range s.jobs {
		(&sim{world: w}).verifyRecords(id)
	}
	w.verifyBackfills(s.fills)
	s.verifyAttempts(w)
	s.judged()
}

// judged: the checker of chaos finds nothing. While there were faults it excuses
// repeats, which received looks at itself.
func (s *fleetSim) judged() {
	h := &s.witness.history
	h.Partitions, h.Takeovers = 1, s.terms
	h.TTL = time.Minute // a former owner learns of its loss by a commit, which may be in doubt for long
	for _, n := range s.nodes {
		s.witness.fault(check.Skewed, n.name, origin, s.now)
		h.Faults[len(h.Faults)-1].Ahead = mostSkew
	}
	for _, rc := range s.receipts {
		if s.owner().state.running[rc.id] == nil {
			h.Receipts = append(h.Receipts, rc.receipt())
		}
	}
	if found := s.witness.findings(&s.store, s.owner().state, s.now); found != "" {
		s.fail("%s", found)
	}
}

// verifyAnswers: what was promised is there.
func (s *fleetSim) verifyAnswers(w *world) {
	known := map[string]bool{}
	for _, id := range s.jobs {
		for _, l := range w.lines(id) {
			known[l.id] = true
		}
	}
	for _, a := range s.answers {
		if x := a.GetExecution(); x != nil && !known[x.GetExecutionId()] {
			s.fail("execution %s was acknowledged and has no record", x.GetExecutionId())
		}
	}
}

// verifyAttempts: every request has its line, and attempts are 1, 2, … to the
// number that the summary names.
func (s *fleetSim) verifyAttempts(w *world) {
	lines := map[string]bool{}      // execution/attempt/epoch
	made := map[string]int32{}      // attempts by the newest summary
	decision := map[string]int64{}  // of it
	numbers := map[resultKey]bool{} // attempts with a line
	for _, h := range s.store.history {
		r := new(belfryv1.Record)
		if err := proto.Unmarshal(h.Record, r); err != nil {
			s.t.Fatal(err)
		}
		if n := lineOf(s.t, h); n > 0 {
			lines[fmt.Sprint(h.ExecutionID, "/", n, "/", h.Epoch)] = true
			numbers[resultKey{h.ExecutionID, n}] = true
		}
		if h.Attempt == 0 && r.GetRange() == nil && h.Decision >= decision[h.ExecutionID] {
			decision[h.ExecutionID], made[h.ExecutionID] = h.Decision, r.GetAttempts()
		}
	}
	for id, n := range made {
		for k := int32(1); k <= n; k++ {
			if !numbers[resultKey{id, k}] {
				s.fail("%s made %d attempts, and number %d has no line", id, n, k)
			}
		}
	}
	state := w.state
	for _, rc := range s.receipts {
		if state.running[rc.id] != nil {
			continue
		}
		n, decided := made[rc.id]
		switch {
		case !decided && rc.stale:
			// A slot that the next owner had paused or moved before it was due, and
			// the last sent it all the same.
		case !decided:
			s.fail("%s was received and has no summary", rc.id)
		case rc.attempt > n && !rc.stale:
			s.fail("%s: attempt %d was received, and %d were made", rc.id, rc.attempt, n)
		case !lines[fmt.Sprint(rc.id, "/", rc.attempt, "/", rc.epoch)]:
			s.fail("%s attempt %d epoch %d was received at %s and has no line", rc.id, rc.attempt, rc.epoch, rc.at.Format("15:04:05.000"))
		}
		ref, _ := job.ParseExecutionID(rc.id)
		if ref.Kind == job.Scheduled && rc.id != job.ScheduledID(ref.JobID, ref.Generation, time.UnixMilli(rc.slot)) {
			s.fail("%s is not the id of its slot", rc.id)
		}
	}
}
