package execution

import "time"

// An offer has at least offerChunk slots, or an eighth of all if that is less:
// what one partition begins together ends together and is recorded in one
// batch. Free slots are gathered for that, but no longer than gatherFor, since
// the others may be held by calls that hang.
const (
	offerChunk = 64
	gatherFor  = 5 * time.Millisecond
)

// line is the partitions that were told Busy, in the order in which they are
// offered slots, and the offers that are not answered yet. There is one for
// slots, and one for each host that takes less than is sent to it.
//
// Invariant: a partition in line has a waiter without an offer; a waiter with
// an offer is not in line.
type line struct {
	host     *host // nil: any
	waiters  map[int32]*waiter
	order    []int32
	pledges  *pledges
	lapsing  []*offer // oldest first; answered ones have no slots
	promised int      // slots of unanswered offers

	chunk     int
	gathering time.Time // since when fewer free slots than a chunk wait for more; zero: none do
}

type waiter struct {
	offered bool // an offer is on its way
	again   bool // told Busy after that offer was made
	silent  int  // offers in a row that lapsed
}

type offer struct {
	line      *line
	id        int64
	partition int32
	slots     int
	made      time.Time
}

// pledges are the unanswered offers of all lines.
type pledges struct {
	offers   map[int64]*offer
	promised int // slots, in all
	last     int64
}

// newLine makes the line for so many slots.
func newLine(slots int, h *host, p *pledges) *line {
	return &line{host: h, pledges: p, waiters: map[int32]*waiter{}, chunk: max(min(offerChunk, slots/8), 1)}
}

// gather reports whether the free slots should wait for more of them.
func (l *line) gather(now time.Time, free int) bool {
	if free >= l.chunk || free < 1 || len(l.order) == 0 {
		l.gathering = time.Time{}
		return false
	}
	if l.gathering.IsZero() {
		l.gathering = now
	}
	if now.Sub(l.gathering) < gatherFor {
		return true
	}
	l.gathering = time.Time{}
	return false
}

// join puts a partition that was told Busy in line.
func (l *line) join(partition int32) {
	switch w := l.waiters[partition]; {
	case w == nil:
		l.waiters[partition] = &waiter{}
		l.order = append(l.order, partition)
	case w.offered:
		w.again = true
	}
}

// redeem takes an answered offer back: its line, and how many slots it had; nil
// when there is no such offer (any more).
func (p *pledges) redeem(now time.Time, id int64, partition int32) (*line, int) {
	o := p.offers[id]
	if o == nil || o.partition != partition {
		return nil, 0
	}
	slots := o.slots
	o.line.void(now, o)
	return o.line, slots
}

func (l *line) void(now time.Time, o *offer) {
	delete(l.pledges.offers, o.id)
	l.pledges.promised -= o.slots
	l.promised -= o.slots
	if l.host != nil {
		l.host.release(now, o.slots)
	}
	o.slots = 0
}

// settle decides whether a partition that answered its offer stays in line:
// if it used all of it, or was told Busy since.
func (l *line) settle(partition int32, usedAll bool) {
	w := l.waiters[partition]
	if w == nil {
		return
	}
	if !usedAll && !w.again {
		delete(l.waiters, partition)
		return
	}
	*w = waiter{}
	l.order = append(l.order, partition)
}

// lapse returns the slots of offers that were made that long ago and not
// answered, and puts their partitions in line again.
func (l *line) lapse(now time.Time, offerFor time.Duration) int {
	n, before := 0, now.Add(-offerFor)
	for len(l.lapsing) > 0 && (l.lapsing[0].slots == 0 || !l.lapsing[0].made.After(before)) {
		o := l.lapsing[0]
		l.lapsing[0] = nil
		l.lapsing = l.lapsing[1:]
		if o.slots == 0 {
			continue
		}
		n++
		l.void(now, o)
		w := l.waiters[o.partition]
		w.offered, w.again = false, false
		w.silent++
		l.order = append(l.order, o.partition)
	}
	return n
}

// oldest is when the oldest unanswered offer was made.
func (l *line) oldest() (time.Time, bool) {
	for len(l.lapsing) > 0 && l.lapsing[0].slots == 0 {
		l.lapsing[0] = nil
		l.lapsing = l.lapsing[1:]
	}
	if len(l.lapsing) == 0 {
		return time.Time{}, false
	}
	return l.lapsing[0].made, true
}

// offer makes an offer to the first in line, out of the free slots; nil when
// nobody stands there. A partition without an owner leaves the line: its next
// owner dispatches by itself.
func (l *line) offer(now time.Time, free int, owned func(int32) bool) *offer {
	for len(l.order) > 0 && free > 0 {
		partition := l.order[0]
		slots := min(free, max(l.chunk, free/len(l.order)))
		l.order = l.order[1:]
		if !owned(partition) {
			delete(l.waiters, partition)
			continue
		}
		w := l.waiters[partition]
		if w.silent > 0 {
			slots = 1
		}
		w.offered = true
		p := l.pledges
		p.last++
		o := &offer{line: l, id: p.last, partition: partition, slots: slots, made: now}
		p.offers[o.id] = o
		p.promised += slots
		l.lapsing = append(l.lapsing, o)
		l.promised += slots
		if l.host != nil {
			l.host.promise(now, slots)
		}
		return o
	}
	return nil
}
