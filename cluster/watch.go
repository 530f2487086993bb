package cluster

import (
	"time"

	"github.com/belfry-scheduler/belfry/persistence"
)

// Watch observes the beats of all nodes and says whose partitions may be taken.
// It is pure; time is that of this node's own BOOTTIME clock, and no other
// clock is ever looked at. It is not for concurrent use.
//
// A beat stands still only as far as this node has seen it:
//
//	readings   began─┤ n=7 ├─ended    began─┤ n=7 ├─ended    began─┤ n=7 ├─ended
//	still                    └───────────┘ counted └ ─ ─ ─ ─ ─ ─┘
//	                                         (not, if the gap is too long)
//
// A reading tells what stood there when it began or later, so stillness counts
// up to its begin; a move may have happened until it ended, so it counts from
// its end. A node that was stopped in the middle of a reading therefore draws
// nothing from an answer that lay waiting for it.
//
// A gap of more than two intervals between readings does not count either. This
// node was stopped, or the store was away for all, and those who could not beat
// are given the chance to. What was counted before remains: they did not move in
// between. For the same reason nothing is taken on a reading older than that.
//
// A holder that counts on its beat until TTL - Margin after it began to send it
// has thereby stopped before anybody has counted a TTL. A partition that is
// taken earlier than that, from a holder that is gone as the members see it, may
// have its calls repeated; the fence keeps everything else right.
type Watch struct {
	set   Settings
	seen  map[persistence.Owner]*sight
	began time.Duration // of the last reading
	took  time.Duration // from its begin to its end
}

// sight is what was seen of one incarnation of a node.
type sight struct {
	n     int64         // of its row; 0: it has none
	still time.Duration // counted since n was first seen
	upto  time.Duration // stillness is counted up to here
	asked time.Duration // when MayTake was last asked about it
}

// NewWatch makes a watch that has seen nothing.
func NewWatch(set Settings) *Watch {
	return &Watch{set: set, seen: map[persistence.Owner]*sight{}}
}

// longestGap is between readings that count, so that one may fail, and the age
// of one that still does.
func (w *Watch) longestGap() time.Duration { return 2 * w.set.Every() }

// forgetAfter is how long a node without a row is remembered when nobody asks
// about it, in TTLs.
const forgetAfter = 10

// Saw takes a reading of all beats, which began and ended at these moments.
// Readings do not overlap; those that failed are not told.
func (w *Watch) Saw(began, ended time.Duration, beats []persistence.Beat) {
	rows := make(map[persistence.Owner]bool, len(beats))
	for _, b := range beats {
		rows[b.Owner] = true
		w.note(b.Owner, b.N, began, ended)
	}
	for o, s := range w.seen {
		switch {
		case rows[o]:
		case ended-s.asked > forgetAfter*w.set.ttl():
			delete(w.seen, o)
		default:
			w.note(o, 0, began, ended)
		}
	}
	w.began, w.took = began, ended-began
}

// note takes what a reading says of one node.
func (w *Watch) note(o persistence.Owner, n int64, began, ended time.Duration) {
	s := w.seen[o]
	switch {
	case s == nil:
		w.seen[o] = &sight{n: n, upto: ended, asked: ended}
	case s.n != n:
		s.n, s.still, s.upto = n, 0, ended
	case began > s.upto:
		if gap := began - s.upto; gap <= w.longestGap() {
			s.still += gap
		}
		s.upto = began
	}
}

// MayTake tells whether self may take what holder holds, and if not, how long
// after now to ask again: when the next reading that can change the answer is
// in, if readings come every Settings.Every. A change of the view may change it
// sooner.
//
// It may at once what was released, what it holds itself, and what an earlier
// incarnation of its node held. Else the holder's beat must have stood still for
// a TTL, or, if the members do not know the holder, for the time of two beats:
// then one is certainly missing. A holder without a row stands still since it
// was first asked about.
//
// A node that comes back under its name is taken from by others in that second
// way, too, since the view has only its later incarnation: which of two is the
// later one cannot be told from what one has seen of them in a moment.
func (w *Watch) MayTake(now time.Duration, holder, self persistence.Owner, view *View) (ok bool, again time.Duration) {
	if holder.Node == "" || holder == self {
		return true, 0
	}
	_, known := view.Find(holder)
	if holder.Node == self.Node && !known {
		return true, 0
	}
	s := w.seen[holder]
	if s == nil {
		s = &sight{upto: now}
		w.seen[holder] = s
	}
	s.asked = now
	need := w.set.ttl()
	if !known {
		need = 2 * w.set.Every()
	}
	if s.still >= need && now-w.began <= w.longestGap() {
		return true, 0
	}
	return false, max(w.decides(s.upto+need-s.still)-now, w.set.Every()/4) // readings may be late
}

// decides is when the first reading that begins at a moment or later is in.
func (w *Watch) decides(at time.Duration) time.Duration {
	every := w.set.Every()
	readings := max((at-w.began+every-1)/every, 1)
	return w.began + readings*every + w.took
}

// Knows tells whether a row of a process was ever seen.
func (w *Watch) Knows(o persistence.Owner) bool {
	s := w.seen[o]
	return s != nil && s.n > 0
}

// Live tells whether work may be with a process, or go to it: its beat has moved
// within a TTL; or, if the members do not know it, within the time of two beats,
// since gossip alone may err. While readings fail that stays as it was: who calls
// a worker dead repeats what it had.
func (w *Watch) Live(o persistence.Owner, view *View) bool {
	s := w.seen[o]
	if s == nil || s.n == 0 {
		return false
	}
	need := w.set.ttl()
	if _, known := view.Find(o); !known {
		need = 2 * w.set.Every()
	}
	return s.still < need
}
