package cluster

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/persistence"
)

// observer is a watch with a clock, which reads rows every 500 ms. A reading
// takes 10 ms.
type observer struct {
	*testing.T
	*Watch
	now  time.Duration // when the next reading begins
	rows map[persistence.Owner]int64
	self persistence.Owner
	view *View
}

const readingTakes = 10 * time.Millisecond

func newObserver(t *testing.T) *observer {
	o := &observer{
		T: t, Watch: NewWatch(Settings{}), now: time.Hour, rows: map[persistence.Owner]int64{},
		self: persistence.Owner{Node: "self", Incarnation: uuid.New()}, view: &View{},
	}
	o.view.Members = []Member{member(o.self)}
	return o
}

func member(o persistence.Owner) Member { return Member{Node: o.Node, Incarnation: o.Incarnation} }

// node makes a node with a row, which is a member too.
func (o *observer) node(name string) persistence.Owner {
	n := persistence.Owner{Node: name, Incarnation: uuid.New()}
	o.view.Members = append(o.view.Members, member(n))
	o.rows[n] = 1
	return n
}

// gone takes a node out of the members.
func (o *observer) gone(n persistence.Owner) {
	var left []Member
	for _, m := range o.view.Members {
		if m.Owner() != n {
			left = append(left, m)
		}
	}
	o.view = &View{Members: left}
}

// read makes a number of readings, before each of which some nodes beat.
func (o *observer) read(times int, beating ...persistence.Owner) {
	for range times {
		for _, n := range beating {
			o.rows[n]++
		}
		var rows []persistence.Beat
		for n, beat := range o.rows {
			rows = append(rows, persistence.Beat{Owner: n, N: beat})
		}
		o.Saw(o.now, o.now+readingTakes, rows)
		o.now += 500 * time.Millisecond
	}
}

// last is the moment at which the last reading ended.
func (o *observer) last() time.Duration { return o.now - 500*time.Millisecond + readingTakes }

func (o *observer) want(what string, holder persistence.Owner, want bool) {
	o.Helper()
	if got, _ := o.MayTake(o.last(), holder, o.self, o.view); got != want {
		o.Errorf("%s: may take is %v, want %v", what, got, want)
	}
}

func TestReleasedIsTakenAtOnce(t *testing.T) {
	o := newObserver(t)
	o.want("released", persistence.Owner{}, true)
	o.want("our own", o.self, true)
}

// TestEarlierIncarnationIsTakenAtOnce: by the node itself, unless the members
// know it as the later one.
func TestEarlierIncarnationIsTakenAtOnce(t *testing.T) {
	o := newObserver(t)
	before := o.node("self")
	o.gone(before)
	o.read(1, before)
	o.want("held by our former self", before, true)

	o.gone(o.self)
	o.view = &View{Members: []Member{member(before)}}
	o.read(3, before)
	o.want("held by our later self", before, false)
}

// TestRestartedElsewhere: what a node held before it came back under its name is
// taken by others when one beat is missing.
func TestRestartedElsewhere(t *testing.T) {
	o := newObserver(t)
	old := o.node("a")
	o.read(3, old)
	o.gone(old)
	later := o.node("a")
	o.read(2, later)
	o.want("after 1 s", old, false)
	o.read(1, later)
	o.want("after 1.5 s", old, true)
	o.want("the later incarnation", later, false)
}

// TestMemberIsTakenAfterATTL: stillness is counted from the end of the reading
// that showed the last move to the begin of the last one.
func TestMemberIsTakenAfterATTL(t *testing.T) {
	o := newObserver(t)
	n := o.node("a")
	o.read(10, n)
	o.want("while it beats", n, false)
	o.read(6)
	o.want("after 2.99 s", n, false)
	o.read(1)
	o.want("after 3.49 s", n, true)
	o.read(1, n)
	o.want("after it beat again", n, false)
}

// TestGoneIsTakenWhenABeatIsMissing: the members have declared it dead.
func TestGoneIsTakenWhenABeatIsMissing(t *testing.T) {
	o := newObserver(t)
	n := o.node("a")
	o.read(5, n)
	o.gone(n)
	o.want("at once", n, false)
	o.read(2)
	o.want("after 0.99 s", n, false)
	o.read(1)
	o.want("after 1.49 s", n, true)

	beats := o.node("b")
	o.gone(beats)
	o.read(20, beats)
	o.want("declared dead, and beats", beats, false)
}

// TestFirstSightCountsAsMoved: who begins to watch learns nothing from a row
// that it sees for the first time.
func TestFirstSightCountsAsMoved(t *testing.T) {
	o := newObserver(t)
	n := o.node("a")
	o.read(1)
	o.want("at first sight", n, false)
	o.read(6)
	o.want("after 2.99 s", n, false)
	o.read(1)
	o.want("after 3.49 s", n, true)
}

// TestHolderWithoutARow: it stands still since it was first asked about.
func TestHolderWithoutARow(t *testing.T) {
	for _, known := range []bool{true, false} {
		o := newObserver(t)
		n := o.node("a")
		delete(o.rows, n)
		need := 7
		if !known {
			o.gone(n)
			need = 3
		}
		o.read(20)
		o.want("asked for the first time", n, false)
		o.read(need - 1)
		o.want("a reading too early", n, false)
		o.read(1)
		o.want("in time", n, true)
		o.rows[n] = 1
		o.read(1)
		o.want("with its first beat", n, false)
	}
}

// TestRowVanishes: a row that goes away is a move, and then stands still.
func TestRowVanishes(t *testing.T) {
	o := newObserver(t)
	n := o.node("a")
	o.read(5)
	delete(o.rows, n)
	o.read(7)
	o.want("2.99 s after it vanished", n, false)
	o.read(1)
	o.want("3.49 s after it vanished", n, true)
	o.read(100)
	if s := o.seen[n]; s != nil {
		t.Errorf("a node without a row that nobody asks about is remembered: %+v", s)
	}
}

// TestStoppedChallengerDoesNotSteal: a node that was stopped sees an old answer
// and then fresh ones, and counts nothing for the time in between.
func TestStoppedChallengerDoesNotSteal(t *testing.T) {
	o := newObserver(t)
	n := o.node("a")
	o.read(5, n)
	began := o.now
	rows := []persistence.Beat{{Owner: n, N: o.rows[n]}}
	o.now += time.Minute // stopped, with the answer in a buffer
	if ok, _ := o.MayTake(o.now, n, o.self, o.view); ok {
		t.Error("it steals before a reading")
	}
	o.Saw(began, o.now, rows)
	if ok, _ := o.MayTake(o.now, n, o.self, o.view); ok {
		t.Error("it steals on the old answer")
	}
	o.read(1) // the store was away as well, and the holder comes second
	o.want("on the first reading after it", n, false)
	o.read(1, n)
	o.want("on the next", n, false)
}

// TestOldReadingsDecideNothing: who was stopped after it had counted a TTL does
// not take from a holder that may have come back meanwhile.
func TestOldReadingsDecideNothing(t *testing.T) {
	o := newObserver(t)
	n := o.node("a")
	o.read(8)
	o.want("after 3.49 s", n, true)
	if ok, again := o.MayTake(o.last()+time.Minute, n, o.self, o.view); ok || again <= 0 {
		t.Errorf("a minute later, without a reading: may take is %v, again in %s", ok, again)
	}
	o.now += time.Minute
	o.read(1)
	o.want("with a new reading", n, true)
}

// TestLostReadings: one may fail and is counted over; when two fail the time
// between does not count, and what was counted before remains.
func TestLostReadings(t *testing.T) {
	o := newObserver(t)
	n := o.node("a")
	o.read(1, n)
	for range 3 {
		o.now += 500 * time.Millisecond // one fails
		o.read(1)
	}
	o.want("after 2.99 s with every other reading lost", n, false)
	o.read(1)
	o.want("after 3.49 s", n, true)

	o.read(1, n)
	o.read(3)          // 1.49 s
	o.now += time.Hour // the store is away
	o.read(1)          // not counted
	o.read(3)          // 2.99 s
	o.want("2.99 s that count", n, false)
	o.read(1)
	o.want("3.49 s that count", n, true)
}

// TestAskAgain: it is worth asking again when the reading is in that decides,
// and not before.
func TestAskAgain(t *testing.T) {
	o := newObserver(t)
	n := o.node("a")
	o.read(4, n)
	_, again := o.MayTake(o.last(), n, o.self, o.view)
	if want := 3500 * time.Millisecond; again != want {
		t.Errorf("ask again in %s, want %s", again, want)
	}
	at := o.last() + again
	for o.last() < at {
		o.want("before that", n, false)
		o.read(1)
	}
	o.want("then", n, true)

	o.read(1, n)
	o.gone(n)
	if _, again := o.MayTake(o.last(), n, o.self, o.view); again != 1500*time.Millisecond {
		t.Errorf("ask about a node that is gone again in %s, want 1.5 s", again)
	}
	late := o.last() + 10*time.Second
	if _, again := o.MayTake(late, n, o.self, o.view); again <= 0 || again > time.Second {
		t.Errorf("while readings fail, ask again in %s", again)
	}
	if _, again := NewWatch(Settings{}).MayTake(time.Hour, n, o.self, o.view); again <= 0 || again > 4*time.Second {
		t.Errorf("before any reading, ask again in %s", again)
	}
}

func TestLive(t *testing.T) {
	o := newObserver(t)
	n := o.node("a")
	if o.Live(n, o.view) {
		t.Error("it is live before it was seen")
	}
	o.read(1, n)
	if !o.Live(n, o.view) {
		t.Error("it is not live though it beats")
	}
	o.read(6)
	if !o.Live(n, o.view) {
		t.Error("it is not live after 2.99 s")
	}
	o.now += time.Hour
	if !o.Live(n, o.view) {
		t.Error("it is not live, for want of readings")
	}
	o.read(2)
	if o.Live(n, o.view) {
		t.Error("it is live though it stood still for a TTL")
	}
	o.read(1, n)
	o.gone(n)
	if !o.Live(n, o.view) {
		t.Error("it is not live by the word of gossip alone, though it beats")
	}
	o.read(3)
	if o.Live(n, o.view) {
		t.Error("it is live though the members declared it dead, and beats are missing")
	}
}
