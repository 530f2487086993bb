package cluster

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// world is a simulation of some nodes that beat, and watch each other's beats,
// through one store: clocks that drift, requests that take their time or are
// lost, processes that are stopped, go on and die. Time is the world's.
type world struct {
	*testing.T
	seed  uint64
	rand  *rand.Rand
	set   Settings
	now   time.Duration
	queue events
	count int
	nodes []*animal
	view  *View
	rows  map[persistence.Owner]int64
	moves map[persistence.Owner][]time.Duration // of each row

	quick  bool            // every request takes a few milliseconds
	lossy  float64         // requests lost on their way, or their answers
	outage []time.Duration // from, to, from, to, …: nothing reaches the store

	takes int
	took  func(by, of *animal) // called with each take
}

// animal is a node: a pulse, a watch and a clock, and its fate.
type animal struct {
	*world
	self   persistence.Owner
	offset time.Duration
	drift  float64
	pulse  *pulse
	watch  *Watch
	stops  []time.Duration                     // from, to, …: it is stopped
	dies   time.Duration                       // 0: it does not
	mute   bool                                // its beats are lost, its readings are not
	timer  int                                 // the one that counts
	saw    time.Duration                       // when its last reading that was answered began
	taken  map[persistence.Owner]time.Duration // when each other was first taken from
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(e any)   { *q = append(*q, e.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// spanned tells whether a moment lies in one of some spans, and where that ends.
func spanned(spans []time.Duration, at time.Duration) (end time.Duration, in bool) {
	for i := 0; i+1 < len(spans); i += 2 {
		if at >= spans[i] && at < spans[i+1] {
			return spans[i+1], true
		}
	}
	return 0, false
}

func newWorld(t *testing.T, seed uint64, nodes int) *world {
	w := &world{
		T: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 7)), set: Settings{TTL: 3 * time.Second}, view: &View{},
		rows: map[persistence.Owner]int64{}, moves: map[persistence.Owner][]time.Duration{}, took: func(_, _ *animal) {},
	}
	for i := range nodes {
		a := &animal{
			world: w, self: persistence.Owner{Node: fmt.Sprint("n", i), Incarnation: uuid.UUID{byte(i + 1)}},
			offset: time.Duration(w.rand.Int64N(int64(1000 * time.Hour))), drift: (w.rand.Float64() - 0.5) / 50, // ± 1 %
			pulse: newPulse(w.set), watch: NewWatch(w.set), taken: map[persistence.Owner]time.Duration{},
		}
		w.nodes = append(w.nodes, a)
		w.view.Members = append(w.view.Members, member(a.self))
	}
	return w
}

func (w *world) at(when time.Duration, do func()) {
	w.count++
	heap.Push(&w.queue, event{when, w.count, do})
}

// run lets the world go on until a moment.
func (w *world) run(until time.Duration) {
	for _, a := range w.nodes {
		a.pulse.due = a.clock()
		a.at(w.between(0, w.set.Every()), a.beat)
		a.at(w.between(0, w.set.Every()), a.read)
	}
	for len(w.queue) > 0 && w.queue[0].at < until && !w.Failed() {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
}

func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rand.Int64N(int64(to-from)))
}

// clock is the node's BOOTTIME clock.
func (a *animal) clock() time.Duration {
	return a.offset + a.now + time.Duration(float64(a.now)*a.drift)
}

func (a *animal) dead() bool { return a.dies != 0 && a.now >= a.dies }

func (a *animal) alive() bool { return !a.dead() && a.clock() < a.pulse.until }

// then has the node do something at a moment: when it goes on, if it is stopped
// then, and never, if it is dead.
func (a *animal) then(when time.Duration, do func()) {
	a.at(when, func() {
		if end, in := spanned(a.stops, a.now); in {
			a.then(end+a.between(0, time.Millisecond), do)
		} else if !a.dead() {
			do()
		}
	})
}

// request carries something out at the store and answers, or one of them not.
// The answer comes once, late ones as a failure at the timeout.
func (a *animal) request(timeout time.Duration, lost bool, carry func() error, answer func(error)) {
	way, back := a.latency(), a.latency()
	answered := false
	finish := func(err error) {
		if !answered {
			answered = true
			answer(err)
		}
	}
	a.then(a.now+timeout, func() { finish(job.ErrUnavailable) })
	a.at(a.now+way, func() {
		if _, gone := spanned(a.outage, a.now); gone || lost || a.rand.Float64() < a.lossy {
			return
		}
		err := carry()
		if a.rand.Float64() >= a.lossy {
			a.then(a.now+back, func() { finish(err) })
		}
	})
}

// latency is mostly a few milliseconds.
func (w *world) latency() time.Duration {
	if !w.quick && w.rand.IntN(20) == 0 {
		return w.between(0, 400*time.Millisecond)
	}
	return w.between(time.Millisecond, 10*time.Millisecond)
}

// beat is the loop of a Beater.
func (a *animal) beat() {
	for a.pulse.wait(a.clock()) <= 0 {
		try := a.pulse.begin(a.clock())
		if try.n == 0 {
			var stored int64
			a.request(a.set.attemptTimeout(), false, func() error { stored = a.rows[a.self]; return nil }, func(err error) {
				a.pulse.found(try, stored, err, a.clock())
				a.beat()
			})
			continue
		}
		a.request(a.set.attemptTimeout(), a.mute, func() error { return a.move(try.n) }, func(err error) {
			a.pulse.moved(try, err, a.clock())
			a.beat()
		})
	}
	a.timer++
	this := a.timer
	a.then(a.now+min(a.pulse.wait(a.clock()), a.set.Every()), func() {
		if this == a.timer {
			a.beat()
		}
	})
}

func (a *animal) move(n int64) error {
	switch a.rows[a.self] {
	case n - 1:
		a.rows[a.self] = n
		a.moves[a.self] = append(a.moves[a.self], a.now)
	case n:
	default:
		return persistence.ErrBeatLost
	}
	return nil
}

// read is the loop of whoever feeds a Watch.
func (a *animal) read() {
	began, real := a.clock(), a.now
	var rows []persistence.Beat
	a.request(a.set.Every(), false, func() error {
		for o, n := range a.rows {
			rows = append(rows, persistence.Beat{Owner: o, N: n})
		}
		return nil
	}, func(err error) {
		if err == nil {
			a.saw = real
			a.watch.Saw(began, a.clock(), rows)
		}
		a.judge()
		a.then(max(real+a.set.Every(), a.now), a.read)
	})
}

// judge takes what it may.
func (a *animal) judge() {
	for _, of := range a.nodes {
		if of == a {
			continue
		}
		ok, again := a.watch.MayTake(a.clock(), of.self, a.self, a.view)
		if again < 0 || !ok && again == 0 {
			a.Errorf("seed %d: ask again in %s", a.seed, again)
		}
		if ok {
			a.takes++
			if _, before := a.taken[of.self]; !before {
				a.taken[of.self] = a.now
			}
			a.lawful(of)
			a.took(a, of)
		}
	}
}

// lawful checks a take from a node that is among the members: as its taker last
// read, which is not long ago, its row had stood still for a TTL, as clocks that
// are 1 % off measure it, and it had stopped sending by itself. It may have come
// back since: then the fence decides.
func (a *animal) lawful(of *animal) {
	if age := a.now - a.saw; age > 2*a.set.Every()*102/100 {
		a.Errorf("seed %d: at %s %s takes from %s on a reading of %s ago", a.seed, a.now, a.self.Node, of.self.Node, age)
	}
	last, back := a.lastMove(of, a.saw)
	if still := a.saw - last; still < a.set.ttl()*98/100 {
		a.Errorf("seed %d: at %s %s takes from %s, whose beat had stood still for %s", a.seed, a.now, a.self.Node, of.self.Node, still)
	}
	if of.alive() && !back {
		a.Errorf("seed %d: at %s %s takes from %s, which still sends", a.seed, a.now, a.self.Node, of.self.Node)
	}
}

// lastMove is when a node's row last moved, as it stood at a moment, and whether
// it has moved since.
func (w *world) lastMove(of *animal, at time.Duration) (last time.Duration, since bool) {
	for _, moved := range w.moves[of.self] {
		if moved > at {
			return last, true
		}
		last = moved
	}
	return last, false
}

// worlds runs a number of them.
func worlds(t *testing.T, nodes int, check func(w *world)) {
	first := rand.Uint64N(1 << 40)
	takes := 0
	for i := range uint64(60) {
		w := newWorld(t, first+i, nodes)
		check(w)
		takes += w.takes
		if t.Failed() {
			return
		}
	}
	t.Logf("seeds from %d: %d judgements that a node may be taken from", first, takes)
}

// spans draws some spans of time, one after another.
func (w *world) spans(n int, longest time.Duration) (spans []time.Duration) {
	at := w.between(2*time.Second, 6*time.Second)
	for range n {
		to := at + w.between(0, longest)
		spans = append(spans, at, to)
		at = to + w.between(0, 10*time.Second)
	}
	return spans
}

// TestNoLiveNodeIsTakenFrom: requests and answers are lost, the store goes away
// for all, and nobody loses anything.
func TestNoLiveNodeIsTakenFrom(t *testing.T) {
	worlds(t, 4, func(w *world) {
		w.lossy = 0.05
		w.outage = w.spans(3, 20*time.Second)
		w.took = func(by, of *animal) {
			w.Errorf("seed %d: at %s %s takes from %s, which lives", w.seed, w.now, by.self.Node, of.self.Node)
		}
		w.run(60 * time.Second)
		for _, a := range w.nodes {
			if w.rows[a.self] < 10 {
				w.Errorf("seed %d: %s is at beat %d after a minute", w.seed, a.self.Node, w.rows[a.self])
			}
		}
	})
}

// TestStoppedNodesNeitherStealNorSend: nodes are stopped and go on, some cannot
// beat, some die, the store goes away; every take is lawful. Nobody takes from
// a node that was never stopped, muted or dead.
func TestStoppedNodesNeitherStealNorSend(t *testing.T) {
	worlds(t, 5, func(w *world) {
		w.lossy = 0.05
		if w.rand.IntN(2) == 0 {
			w.outage = w.spans(2, 10*time.Second)
		}
		for _, a := range w.nodes[1:] {
			switch w.rand.IntN(4) {
			case 0:
				a.dies = w.between(5*time.Second, 40*time.Second)
			case 1:
				a.at(w.between(5*time.Second, 40*time.Second), func() { a.mute = !a.mute })
			case 2:
				a.at(w.between(5*time.Second, 20*time.Second), func() { a.mute = true })
				a.at(w.between(20*time.Second, 40*time.Second), func() { a.mute = false })
				fallthrough
			default:
				a.stops = w.spans(4, 8*time.Second)
			}
		}
		w.took = func(by, of *animal) {
			if of == w.nodes[0] {
				w.Errorf("seed %d: at %s %s takes from %s, which never stopped", w.seed, w.now, by.self.Node, of.self.Node)
			}
		}
		w.run(60 * time.Second)
	})
}

// TestDeadNodeIsTakenInTime: within a TTL and an interval of the reading that
// showed its last beat, which comes an interval after it, by each that can read.
func TestDeadNodeIsTakenInTime(t *testing.T) {
	worst := time.Duration(0)
	worlds(t, 4, func(w *world) {
		w.quick = true
		dead := w.nodes[0]
		dead.dies = w.between(5*time.Second, 10*time.Second)
		w.run(20 * time.Second)
		last, _ := w.lastMove(dead, w.now)
		limit := last + (w.set.ttl()+2*w.set.Every()+3*20*time.Millisecond)*102/100 // a reading takes 20 ms at most
		for _, a := range w.nodes[1:] {
			at, ok := a.taken[dead.self]
			if !ok || at > limit {
				w.Errorf("seed %d: %s took from a node whose last beat was at %s at %s, %v; want %s at the latest", w.seed, a.self.Node, last, at, ok, limit)
			}
			worst = max(worst, at-last)
		}
	})
	t.Logf("at most %s after the last beat", worst)
}

// TestPulseRestarts: a node that was stopped for so long that its row is gone
// beats again, and is not taken from once it does.
func TestPulseRestarts(t *testing.T) {
	worlds(t, 2, func(w *world) {
		a := w.nodes[0]
		a.stops = []time.Duration{5 * time.Second, 15 * time.Second}
		w.at(14*time.Second, func() { delete(w.rows, a.self) })
		w.run(16 * time.Second)
		if a.alive() && w.rows[a.self] == 0 {
			w.Errorf("seed %d: it sends without a row", w.seed)
		}
		for len(w.queue) > 0 && w.queue[0].at < 25*time.Second {
			e := heap.Pop(&w.queue).(event)
			w.now = e.at
			e.do()
		}
		if !a.alive() || w.rows[a.self] < 10 {
			w.Errorf("seed %d: ten seconds after it went on it is alive: %v, at beat %d", w.seed, a.alive(), w.rows[a.self])
		}
	})
}
