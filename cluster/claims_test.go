package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/persistence"
)

// claimsWorld is some nodes with their Claims, and a model of the store between
// them: fences that move by compare-and-set, beats, answers that take their time
// or never come, nodes that die, stand still, or see other members than there
// are.
type claimsWorld struct {
	t      *testing.T
	r      *rand.Rand
	now    time.Duration
	queue  []claimsEvent // by time
	serial int
	nodes  []*claimsNode
	fences []persistence.Fence
	beats  map[persistence.Owner]int64
	away   bool // the store answers nothing
	steady bool // and never fails otherwise
	moves  int
}

type claimsEvent struct {
	at     time.Duration
	serial int
	to     *claimsNode
	do     func()
}

// claimsNode is a process: one that has died does nothing any more, one that
// stands still does everything later.
type claimsNode struct {
	w        *claimsWorld
	self     Member
	claims   *Claims
	dead     bool
	stopped  bool
	draining bool
	owners   map[int32]int64 // epochs of the owners that run here
	blind    map[string]bool // nodes that it does not see
}

const claimsPartitions = 16

var claimsSettings = Settings{TTL: 3 * time.Second}

func newClaimsWorld(t *testing.T, seed uint64, nodes int) *claimsWorld {
	w := &claimsWorld{t: t, r: rand.New(rand.NewPCG(seed, 7)), beats: map[persistence.Owner]int64{}, fences: make([]persistence.Fence, claimsPartitions)}
	for p := range w.fences {
		w.fences[p].Partition = int32(p)
	}
	for i := range nodes {
		w.start(fmt.Sprintf("n%d", i))
	}
	return w
}

func (w *claimsWorld) start(name string) *claimsNode {
	n := &claimsNode{w: w, self: Member{Node: name, Incarnation: w.uuid(), Started: int64(w.now), Roles: Roles{Scheduler}}, owners: map[int32]int64{}, blind: map[string]bool{}}
	n.claims = NewClaims(DefaultClaims(n.self.Owner(), claimsPartitions), NewWatch(claimsSettings))
	w.nodes = slices.DeleteFunc(w.nodes, func(o *claimsNode) bool { return o.self.Node == name })
	w.nodes = append(w.nodes, n)
	w.later(n, w.upTo(50*time.Millisecond), n.beat)
	w.later(n, w.upTo(50*time.Millisecond), n.round)
	w.look()
	return n
}

func (w *claimsWorld) uuid() uuid.UUID {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(w.r.UintN(256))
	}
	return id
}

func (w *claimsWorld) upTo(d time.Duration) time.Duration {
	return time.Duration(w.r.Int64N(int64(d)) + 1)
}

// later does something on a node, unless that has died by then.
func (w *claimsWorld) later(n *claimsNode, after time.Duration, do func()) {
	w.serial++
	w.queue = append(w.queue, claimsEvent{w.now + after, w.serial, n, do})
}

// run lets time pass.
func (w *claimsWorld) run(d time.Duration) {
	for end := w.now + d; ; {
		i := w.first()
		if i < 0 || w.queue[i].at > end {
			w.now = end
			return
		}
		e := w.queue[i]
		w.queue = slices.Delete(w.queue, i, i+1)
		w.now = max(w.now, e.at)
		switch {
		case e.to.dead:
		case e.to.stopped:
			w.later(e.to, 50*time.Millisecond, e.do)
		default:
			e.do()
		}
	}
}

func (w *claimsWorld) first() int {
	best := -1
	for i, e := range w.queue {
		if best < 0 || cmp.Or(cmp.Compare(e.at, w.queue[best].at), cmp.Compare(e.serial, w.queue[best].serial)) < 0 {
			best = i
		}
	}
	return best
}

// look tells every node who is there, a moment or more later.
func (w *claimsWorld) look() {
	for _, n := range w.nodes {
		w.later(n, w.upTo(1500*time.Millisecond), n.look)
	}
}

func (n *claimsNode) look() {
	view, candidates := &View{}, []Member{}
	for _, o := range n.w.nodes {
		if o.dead || n.blind[o.self.Node] {
			continue
		}
		view.Members = append(view.Members, o.self)
		if !o.draining {
			candidates = append(candidates, o.self)
		}
	}
	n.carry(n.claims.See(n.w.now, view, candidates))
}

func (n *claimsNode) beat() {
	if !n.w.away {
		n.w.beats[n.self.Owner()]++
	}
	n.w.later(n, claimsSettings.Every(), n.beat)
}

// round reads the beats. A node that stood still learns of it by its lease.
func (n *claimsNode) round() {
	began := n.w.now
	if n.w.away {
		n.w.later(n, claimsSettings.Every(), n.round)
		return
	}
	var rows []persistence.Beat
	for o, b := range n.w.beats {
		rows = append(rows, persistence.Beat{Owner: o, N: b})
	}
	n.w.later(n, n.w.upTo(20*time.Millisecond), func() {
		n.carry(n.claims.Able(n.w.now, true))
		n.carry(n.claims.Beats(began, n.w.now, rows))
		for p, epoch := range n.owners {
			if n.w.fences[p].Epoch > epoch { // as the other owner says
				n.carry(n.claims.Rival(n.w.now, p))
			}
		}
		n.w.later(n, claimsSettings.Every(), n.round)
	})
}

func (n *claimsNode) owns(f persistence.Fence) bool {
	return f.Owner == n.self.Node && f.Incarnation == n.self.Incarnation
}

// carry carries effects out, as a host does.
func (n *claimsNode) carry(effects []ClaimEffect) {
	w := n.w
	for _, e := range slices.Clone(effects) {
		switch e := e.(type) {
		case ReadFence:
			f, err := w.fences[e.Partition], w.failure()
			w.later(n, w.upTo(30*time.Millisecond), func() {
				_, effects := n.claims.Fence(w.now, e.Partition, e.Reading, f, err)
				n.carry(effects)
			})
		case Take:
			n.take(e)
		case Yield:
			w.later(n, w.upTo(30*time.Millisecond), func() { n.yielded(e.Partition) })
		case Offer:
			n.offer(e)
		case Release:
			w.later(n, w.upTo(30*time.Millisecond), func() { n.release(e) })
		case End:
			n.ended(e.Partition)
		}
	}
	if at, ok := n.claims.Wake(); ok {
		w.later(n, max(at-w.now, 1), func() { n.carryTick() })
	}
}

func (n *claimsNode) carryTick() {
	if effects := n.claims.Tick(n.w.now); len(effects) > 0 {
		n.carry(effects)
	}
}

var errClaims = errors.New("the store is away")

func (w *claimsWorld) failure() error {
	if w.away || !w.steady && w.r.IntN(50) == 0 {
		return errClaims
	}
	return nil
}

func (n *claimsNode) take(e Take) {
	w, p := n.w, e.Partition
	w.later(n, w.upTo(30*time.Millisecond), func() {
		doubt := !w.steady && w.r.IntN(10) == 0 // whether it was applied, nobody says
		applied := w.fences[p] == e.Seen && w.failure() == nil && !(doubt && w.r.IntN(2) == 0)
		if !applied {
			n.carry(n.claims.Took(w.now, p, doubt, errClaims))
			return
		}
		f := persistence.Fence{Partition: p, Epoch: e.Seen.Epoch + 1, Seq: e.Seen.Seq + 1, Owner: n.self.Node, Incarnation: n.self.Incarnation}
		w.fences[p] = f
		w.moves++
		if doubt {
			n.carry(n.claims.Took(w.now, p, true, errClaims))
			return
		}
		w.later(n, w.upTo(200*time.Millisecond), func() { // loaded
			err := w.failure()
			if err == nil {
				if was, double := n.owners[p]; double {
					w.t.Errorf("%s starts an owner of partition %d under epoch %d beside its own under %d", n.self.Node, p, f.Epoch, was)
				}
				n.owners[p] = f.Epoch
			}
			n.carry(n.claims.Took(w.now, p, true, err))
		})
	})
}

func (n *claimsNode) yielded(p int32) {
	if epoch, runs := n.owners[p]; runs {
		f := n.w.fences[p]
		if f.Epoch != epoch { // it is fenced, and ends
			n.ended(p)
			return
		}
		n.carry(n.claims.Yielded(n.w.now, p, f))
	}
}

func (n *claimsNode) offer(e Offer) {
	w := n.w
	i := slices.IndexFunc(w.nodes, func(o *claimsNode) bool { return o.self.Owner() == e.Next.Owner() })
	if i < 0 || w.r.IntN(10) == 0 {
		return // lost
	}
	next := w.nodes[i]
	w.later(next, w.upTo(20*time.Millisecond), func() {
		accepted, effects := next.claims.Offered(w.now, e.Partition, e.Fence)
		next.carry(effects)
		w.later(n, w.upTo(60*time.Millisecond), func() {
			taken := accepted && w.fences[e.Partition].Epoch > e.Fence.Epoch && next.owns(w.fences[e.Partition])
			n.carry(n.claims.Answered(w.now, e.Partition, e.Fence.Epoch, taken))
		})
	})
}

func (n *claimsNode) release(e Release) {
	w := n.w
	switch {
	case w.failure() != nil:
		n.claims.Unreleased(e.Partition)
	case w.fences[e.Partition] == e.Fence:
		w.fences[e.Partition].Seq++
		w.fences[e.Partition].Owner, w.fences[e.Partition].Incarnation = "", uuid.UUID{}
	}
	n.ended(e.Partition)
}

func (n *claimsNode) ended(p int32) {
	delete(n.owners, p)
	n.w.later(n, n.w.upTo(5*time.Millisecond), func() { n.carry(n.claims.Ended(n.w.now, p)) })
}

// settled fails unless every partition has the one owner that everybody would
// propose, and that one runs.
func (w *claimsWorld) settled(when string) {
	w.t.Helper()
	var live []Member
	for _, n := range w.nodes {
		if !n.dead && !n.draining {
			live = append(live, n.self)
		}
	}
	for p, want := range Assign(claimsPartitions, live) {
		p := int32(p)
		for _, n := range w.nodes {
			epoch, runs := n.owners[p]
			switch current := runs && epoch == w.fences[p].Epoch && n.owns(w.fences[p]); {
			case n.dead:
			case n.self.Node == want.Node && !current:
				w.t.Errorf("%s: partition %d is to be owned by %s, whose owner has epoch %d (runs: %v), and the fence is %+v; claims: %s", when, p, want.Node, epoch, runs, w.fences[p], w.claimsOn(p))
			case n.self.Node != want.Node && runs:
				w.t.Errorf("%s: %s still owns partition %d", when, n.self.Node, p)
			}
		}
	}
}

// claimsOn is what every node makes of a partition.
func (w *claimsWorld) claimsOn(p int32) (out string) {
	for _, n := range w.nodes {
		out += fmt.Sprintf(" %s/%s %+v able=%v;", n.self.Node, n.self.Incarnation, n.claims.claims[p], n.claims.able)
	}
	return out
}

// TestClaims: nodes die, stand still, drain and come back, the store goes away,
// offers and answers are lost. In the end each partition has one owner, the
// proposed one, without anybody's help.
func TestClaims(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newClaimsWorld(t, seed, 3)
			w.run(10 * time.Second)
			w.settled("after the start")
			for range 6 {
				w.fault()
				w.run(w.upTo(5 * time.Second))
			}
			w.heal()
			w.run(25 * time.Second)
			w.settled("in the end")
		})
	}
}

func (w *claimsWorld) fault() {
	n := w.nodes[w.r.IntN(len(w.nodes))]
	switch w.r.IntN(7) {
	case 0:
		n.dead = true
	case 1:
		n.stopped = true
		w.run(w.upTo(8 * time.Second))
		n.stopped = false
		n.carry(n.claims.Able(w.now, false)) // its lease has lapsed, if only for a moment
	case 2:
		n.draining = true
	case 3:
		w.away = true
	case 4:
		w.away = false
	case 5:
		for _, o := range w.nodes {
			n.blind[o.self.Node], o.blind[n.self.Node] = o != n, o != n
		}
	case 6: // a process that was replaced by another one of its name stops
		w.start(n.self.Node)
		w.later(n, w.upTo(2*time.Second), func() { n.dead = true })
	}
	w.look()
}

func (w *claimsWorld) heal() {
	w.away = false
	for _, n := range slices.Clone(w.nodes) {
		n.stopped, n.draining = false, false
		clear(n.blind)
		if n.dead {
			w.start(n.self.Node)
		}
	}
	w.look()
}

// TestClaimsTakeOver: what a dead node had is owned elsewhere within a TTL and a
// little, and by memberlist's word much sooner.
func TestClaimsTakeOver(t *testing.T) {
	for seed := range uint64(50) {
		w := newClaimsWorld(t, seed, 3)
		w.steady = true
		w.run(10 * time.Second)
		w.nodes[0].dead = true
		w.look()
		w.run(claimsSettings.TTL + claimsSettings.Every())
		w.settled(fmt.Sprintf("seed %d", seed))
	}
}

// TestClaimsMoveOnlyWhatMustMove: a node that joins gets its share, one hand-over
// each.
func TestClaimsMoveOnlyWhatMustMove(t *testing.T) {
	w := newClaimsWorld(t, 1, 3)
	w.steady = true
	w.run(10 * time.Second)
	before, moves := slices.Clone(w.fences), w.moves
	w.start("n3")
	w.run(10 * time.Second)
	w.settled("after the join")
	moved := 0
	for p, f := range w.fences {
		if f.Owner != before[p].Owner {
			moved++
			if f.Owner != "n3" {
				t.Errorf("partition %d went from %s to %s", p, before[p].Owner, f.Owner)
			}
		}
	}
	if moved == 0 || w.moves-moves > 2*moved {
		t.Errorf("%d partitions moved in %d acquisitions", moved, w.moves-moves)
	}
}

// alone is the claims of one node that has beats, and of which the test is the
// host and the store.
type alone struct {
	*Claims
	t    *testing.T
	self Member
	now  time.Duration
}

func setupClaims(t *testing.T) *alone {
	self := memberAt("self", here)
	a := &alone{t: t, self: self, Claims: NewClaims(DefaultClaims(self.Owner(), 1), NewWatch(claimsSettings))}
	a.want(a.Able(0, true))
	return a
}

// propose says to whom the only partition is proposed.
func (a *alone) propose(to Member) []ClaimEffect {
	return a.See(a.now, &View{Members: []Member{a.self, to}}, []Member{to})
}

// later lets the pauses of a claim pass.
func (a *alone) later() []ClaimEffect {
	a.now += 2 * time.Second
	return a.Tick(a.now)
}

// want fails unless these are the effects.
func (a *alone) want(got []ClaimEffect, want ...ClaimEffect) {
	a.t.Helper()
	if !slices.EqualFunc(got, want, func(a, b ClaimEffect) bool { return reflect.DeepEqual(a, b) }) {
		a.t.Fatalf("%+v, want %+v", got, want)
	}
}

func (a *alone) fence(reading int, f persistence.Fence, err error) []ClaimEffect {
	_, effects := a.Fence(a.now, 0, reading, f, err)
	return effects
}

// holds is a fence that names a member.
func holds(m Member, epoch int64) persistence.Fence {
	return persistence.Fence{Epoch: epoch, Owner: m.Node, Incarnation: m.Incarnation}
}

// owned brings the partition to be owned, under epoch 1, after reading 1.
func (a *alone) owned() {
	a.t.Helper()
	a.want(a.propose(a.self), ReadFence{0, 1})
	a.want(a.fence(1, persistence.Fence{}, nil), Take{Ended: true})
	a.want(a.Took(a.now, 0, true, nil))
}

// TestAnAnswerAboutAnEarlierOwner: it neither ends nor confirms the next one.
func TestAnAnswerAboutAnEarlierOwner(t *testing.T) {
	for name, of := range map[string]Member{"ours": memberAt("self", here), "another's": memberAt("other", "10.0.0.1:1")} {
		t.Run(name, func(t *testing.T) {
			a := setupClaims(t)
			a.owned()
			a.want(a.Rival(a.now, 0), ReadFence{0, 2})
			a.want(a.Rival(a.now, 0)) // and once more after it
			a.want(a.Ended(a.now, 0))
			a.want(a.later(), ReadFence{0, 3})
			a.want(a.fence(2, holds(of, 1), nil))
			a.want(a.fence(3, persistence.Fence{}, nil), Take{Ended: true})
			a.want(a.Able(a.now, false))
			a.want(a.Able(a.now, true)) // it lapsed
			a.want(a.fence(2, holds(of, 1), nil))
			a.want(a.Took(a.now, 0, true, nil), ReadFence{0, 4})
			if confirmed, _ := a.Fence(a.now, 0, 2, holds(of, 1), nil); confirmed || a.Is(0) != Owned {
				t.Errorf("confirmed: %v, %v", confirmed, a.Is(0))
			}
			if confirmed, effects := a.Fence(a.now, 0, 4, holds(a.self, 2), nil); !confirmed || len(effects) != 0 {
				t.Errorf("confirmed: %v, and %+v", confirmed, effects)
			}
		})
	}
}

// TestAnAnswerToAnEarlierOffer does not end an owner that came after it.
func TestAnAnswerToAnEarlierOffer(t *testing.T) {
	a, other := setupClaims(t), memberAt("other", "10.0.0.1:1")
	a.owned()
	offer := func(epoch int64) {
		t.Helper()
		a.want(a.propose(other))
		a.want(a.later(), Yield{0, other})
		a.want(a.Yielded(a.now, 0, holds(a.self, epoch)), Offer{0, holds(a.self, epoch), other})
	}
	offer(1)
	a.want(a.later(), Release{0, holds(a.self, 1)})
	a.want(a.Ended(a.now, 0))
	a.want(a.propose(a.self), ReadFence{0, 2})
	a.want(a.fence(2, persistence.Fence{Epoch: 1}, nil), Take{Seen: persistence.Fence{Epoch: 1}, Ended: true})
	a.want(a.Took(a.now, 0, true, nil))
	offer(2)
	a.want(a.Answered(a.now, 0, 1, true))
	a.want(a.Answered(a.now, 0, 1, false))
	a.want(a.Answered(a.now, 0, 2, true), End{0})
}

// TestATakeInDoubt: the fence is read until it does not name this node, also
// when the partition is proposed to another one.
func TestATakeInDoubt(t *testing.T) {
	a, other := setupClaims(t), memberAt("other", "10.0.0.1:1")
	a.want(a.propose(a.self), ReadFence{0, 1})
	a.want(a.fence(1, persistence.Fence{}, nil), Take{Ended: true})
	a.want(a.propose(other))
	a.want(a.Took(a.now, 0, true, errClaims))
	a.want(a.propose(other))
	if a.Is(0) != Wanted {
		t.Fatalf("it is %v, and may be held", a.Is(0))
	}
	a.want(a.later(), ReadFence{0, 2})
	a.want(a.fence(2, persistence.Fence{}, errClaims))
	a.want(a.later(), ReadFence{0, 3})
	mine := holds(a.self, 1)
	a.want(a.fence(3, mine, nil), Take{Seen: mine, Ended: true}) // to give it up
	a.want(a.Took(a.now, 0, false, errClaims))
	a.want(a.later(), ReadFence{0, 4})
	a.want(a.fence(4, holds(other, 2), nil))
	if a.Is(0) != Away || !a.Idle() {
		t.Errorf("it is %v, and another's", a.Is(0))
	}
}
