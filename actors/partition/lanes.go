package partition

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// lanes are what is due and has no worker, by the host that it is for: a host
// that takes nothing holds up no other. Workers are sent some of each lane in
// turn, and of each job in a lane in turn.
type lanes struct {
	of   map[string]*lane // Invariant: those in which something waits, or that are held up.
	busy []*lane          // Invariant: those in which something waits, in the order in which they are served.
	n    int              // flights in all
	turn int64            // the latest turn that came
}

// lane is what waits for one host.
type lane struct {
	host    string
	home    *worker   // the only one that calls the host; nil: each does
	flights []*flight // Invariant: in turn after each step.
	added   []*flight // since it was ordered last, in any
	holds   []hold
}

// hold is a worker that takes nothing for a lane until it offers, and is tried
// unasked with a few deliveries from time to time.
type hold struct {
	worker *worker
	why    belfryv1.Busy_Reason
	since  int64 // of a circuit
	next   int64 // when the host is expected to take something again; 0: unknown
	till   int64 // then it is tried
	tries  int   // with so many
}

// leastWait is how long what is due waits before it can expire: it is sent
// however late it is. ms
const leastWait = int64(60_000)

func newLanes() lanes { return lanes{of: map[string]*lane{}} }

// inTurn orders the flights of a lane: what is extra comes last. A flight has a
// turn: the one after that of its job's flight before it, but no earlier than
// that of the lane's first. So jobs are served one each in turn, and what is in
// the same turn in due order.
func inTurn(a, b *flight) int {
	if c := extraLast(a, b); c != 0 {
		return c
	}
	return byTurn(a, b)
}

func byTurn(a, b *flight) int {
	if c := cmp.Compare(a.turn, b.turn); c != 0 {
		return c
	}
	return inDueOrder(a, b)
}

// lane finds or opens the lane of a host.
func (s *State) lane(host string) *lane {
	l := s.lanes.of[host]
	if l == nil {
		l = &lane{host: host, home: s.home(host)}
		s.lanes.of[host] = l
	}
	return l
}

// enqueue lets a flight wait for a worker: it is due now, or its worker did not
// take it.
func (s *State) enqueue(f *flight) {
	l := s.lane(messages.Host(f.spec.GetTarget()))
	if open := s.circuitOpen(l); open != nil && f.failsWhenOpen() {
		s.failUnsent(f, open.text(l.host, s.now))
		return
	}
	f.phase = queued
	s.limitWait(f)
	if len(l.flights)+len(l.added) == 0 {
		s.lanes.busy = append(s.lanes.busy, l)
	}
	l.added = append(l.added, f)
	s.lanes.n++
}

// limitWait ends the wait of a flight when it is too old.
func (s *State) limitWait(f *flight) {
	if f.expires == 0 {
		f.expires = max(f.due+f.spec.GetRetry().GetMaxElapsedMs(), s.now+leastWait)
	}
	s.wheel.Schedule(&f.timer, f.expires)
}

// order gives every flight that was added its place.
func (s *State) order() {
	for _, l := range s.lanes.busy {
		l.order(s.lanes.turn)
	}
}

// order gives what was added its turns, and puts it in its place. Mostly that is
// the end, or the front when it was given back, so that few of those that wait
// are looked at.
func (l *lane) order(turn int64) {
	if len(l.added) == 0 {
		return
	}
	slices.SortFunc(l.added, byTurn) // those without a turn first
	fresh := 0
	for fresh < len(l.added) && l.added[fresh].turn == 0 {
		fresh++
	}
	if fresh < len(l.added) {
		turn = l.added[fresh].turn
	}
	if len(l.flights) > 0 && (fresh == len(l.added) || l.flights[0].turn < turn) {
		turn = l.flights[0].turn
	}
	for _, f := range l.added[:fresh] {
		f.takeTurn(turn)
	}
	slices.SortFunc(l.added, inTurn)
	at, _ := slices.BinarySearchFunc(l.flights, l.added[0], inTurn)
	l.flights, l.added = merge(l.flights, at, l.added), nil
}

// takeTurn is the turn after that of the job's flight before it.
func (f *flight) takeTurn(first int64) {
	next := &f.job.history().turn
	if f.extra() {
		next = &f.job.past.extraTurn
	}
	f.turn = max(first, *next, 1)
	*next = f.turn + 1
}

// merge puts sorted flights into others, none of them before an index.
func merge(into []*flight, at int, added []*flight) []*flight {
	if at == len(into) {
		return append(into, added...)
	}
	out := append(make([]*flight, 0, len(into)+len(added)), into[:at]...)
	for rest := into[at:]; ; {
		switch {
		case len(added) == 0:
			return append(out, rest...)
		case len(rest) == 0:
			return append(out, added...)
		case inTurn(added[0], rest[0]) < 0:
			out, added = append(out, added[0]), added[1:]
		default:
			out, rest = append(out, rest[0]), rest[1:]
		}
	}
}

// unqueue takes a flight out of its lane, if it is in one.
func (s *State) unqueue(f *flight) {
	if f.phase != queued {
		return
	}
	f.phase = waiting
	l := s.lanes.of[messages.Host(f.spec.GetTarget())]
	l.order(s.lanes.turn)
	at, _ := slices.BinarySearchFunc(l.flights, f, inTurn)
	l.flights = slices.Delete(l.flights, at, at+1)
	s.lanes.n--
	s.tidy()
}

// share is what a lane may send to a worker just now.
type share struct {
	lane *lane
	n    int
}

// shares are those of all lanes.
func (s *State) shares(w *worker) []share {
	var all []share
	for _, l := range s.lanes.busy {
		if n := l.allows(w, s.now); n > 0 {
			all = append(all, share{l, n})
		}
	}
	return all
}

// takeShares takes flights out of lanes, one from each in turn, and what is extra
// after all else: at most n, and as many as one message to a worker takes.
func (s *State) takeShares(w *worker, from []share, n int) []*flight {
	s.order()
	left := newRoom(n)
	var out []*flight
	var last []share // lanes in which only what is extra is left
	for extra := false; len(from) > 0 || !extra; {
		if len(from) == 0 {
			from, extra = last, true
			continue
		}
		again := from[:0]
		for _, sh := range from {
			l := sh.lane
			f := s.next(l)
			switch {
			case f == nil:
				continue
			case f.extra() && !extra:
				last = append(last, sh)
				continue
			}
			if !left.take(f) {
				s.tidy()
				s.lanes.busy = append(s.lanes.busy[1:], s.lanes.busy[0]) // another is first next time
				return out
			}
			s.shift(l)
			s.spend(f)
			out = append(out, f)
			l.tried(w, s.now)
			if sh.n--; sh.n > 0 {
				again = append(again, sh)
			}
		}
		from = again
	}
	s.tidy()
	return out
}

// shift takes the first flight out of a lane.
func (s *State) shift(l *lane) {
	f := l.flights[0]
	l.flights[0] = nil
	l.flights = l.flights[1:]
	s.lanes.n--
	s.lanes.turn = max(s.lanes.turn, f.turn)
}

// tidy lets go of lanes in which nothing waits.
func (s *State) tidy() {
	s.lanes.busy = slices.DeleteFunc(s.lanes.busy, func(l *lane) bool {
		if len(l.flights)+len(l.added) > 0 {
			return false
		}
		l.flights = nil
		s.forget(l)
		return true
	})
}

func (s *State) forget(l *lane) {
	if len(l.flights)+len(l.added)+len(l.holds) == 0 {
		delete(s.lanes.of, l.host)
	}
}

// home is the worker that makes all calls to a host whose limit is shared; nil:
// every worker makes some, or there is none.
func (s *State) home(host string) *worker {
	if host == "" || !s.cfg.Hosts.Of(host).Shared() {
		return nil
	}
	var home *worker
	var most uint64
	for _, w := range s.workers {
		if n := affinity(host, w.ID); !w.Draining && (home == nil || n > most) {
			home, most = w, n
		}
	}
	return home
}

// affinity orders workers for one host.
func affinity(host string, id WorkerID) uint64 { return xxhash.Sum64String(host + " " + string(id)) }

// allows is how many flights of a lane may be sent to a worker unasked.
func (l *lane) allows(w *worker, now int64) int {
	if l.home != nil && l.home != w {
		return 0
	}
	h := l.hold(w)
	switch {
	case h == nil:
		return sendChunk
	case now < h.till:
		return 0
	}
	return h.tries
}

func (l *lane) hold(w *worker) *hold {
	for i := range l.holds {
		if l.holds[i].worker == w {
			return &l.holds[i]
		}
	}
	return nil
}

// tried notes that a held-up lane was tried unasked: again after a while, with
// more each time, unless the worker says that it is held up still.
func (l *lane) tried(w *worker, now int64) {
	if h := l.hold(w); h != nil && now >= h.till {
		h.till, h.tries = now+offerWait, min(2*h.tries, sendChunk)
	}
}

// holdUp sends nothing of a lane to a worker until that offers.
func (s *State) holdUp(l *lane, w *worker, e Busied) {
	h := hold{worker: w, why: e.Reason, since: e.Since, till: s.now + max(e.RetryIn, 0) + offerWait, tries: 1}
	if e.RetryIn > 0 {
		h.next = s.now + e.RetryIn
	}
	if old := l.hold(w); old != nil {
		*old = h
		return
	}
	l.holds = append(l.holds, h)
}

// lift ends a hold.
func (s *State) lift(l *lane, w *worker) {
	l.holds = slices.DeleteFunc(l.holds, func(h hold) bool { return h.worker == w })
	s.forget(l)
}

// rehome follows a change of the workers.
func (s *State) rehome() {
	for _, l := range s.lanes.of {
		l.home = s.home(l.host)
		l.holds = slices.DeleteFunc(l.holds, func(h hold) bool { return s.worker(h.worker.ID) != h.worker })
		s.forget(l)
	}
}

// wakeLanes is when a worker is to be tried for a lane that it holds up.
func (s *State) wakeLanes() (at int64, ok bool) {
	for _, l := range s.lanes.busy {
		for _, h := range l.holds {
			if h.worker.open() && (l.home == nil || l.home == h.worker) && (!ok || h.till < at) {
				at, ok = max(h.till, s.quietTill), true
			}
		}
	}
	return at, ok
}

// expire ends an execution that has waited for as long as it may.
func (s *State) expire(f *flight) {
	if why := s.whyWaiting(f); f.lastError == "" {
		f.lastError = f.job.cut(why, -2, 120)
	}
	c := s.change(f.job)
	s.bury(c, f, ending{reason: job.Expired, finished: s.now})
	s.settleStatus(c, f.job)
	c.row(s.row(f.job, nil))
}
