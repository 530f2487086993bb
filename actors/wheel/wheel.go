// Package wheel is a hierarchical timing wheel keyed by milliseconds. It is
// pure: time comes in as an argument, nothing runs by itself, and one goroutine
// uses a Wheel at a time.
//
// # How it works
//
// An instant is read as digits of six bits. A timer lies on the level of the
// highest digit in which it differs from the wheel's position, in the slot of
// that digit; eleven levels hold every int64. The position moves only to the
// start of a slot that holds timers, and that slot is then spread over the
// levels below. A timer is moved at most ten times in its life, whatever its
// distance, and a bitmap a level finds the next slot without a walk.
//
// # Never early
//
// Pop(now) returns only what is due at now, also when now is before an earlier
// now (a clock was stepped back). The position stays where it is then; timers
// scheduled behind it wait in a heap, which always holds the earliest ones.
package wheel

import "math/bits"

const (
	digitBits = 6
	slots     = 1 << digitBits
	levels    = (64 + digitBits - 1) / digitBits
)

// Timer is a value with a date. The zero value is a timer that is not
// scheduled. A timer belongs to at most one wheel at a time and is not copied
// while it is scheduled; it may be a field of a larger struct.
type Timer[T any] struct {
	// Value is the caller's; the wheel never reads it.
	Value T

	at         int64
	next, prev *Timer[T] // neighbours in the slot's ring; nil when in no slot
	place      int       // place in the heap plus one; 0 when not in the heap
}

// At is the date that the timer was last scheduled for.
func (t *Timer[T]) At() int64 { return t.at }

// Scheduled reports whether the timer waits in a wheel.
func (t *Timer[T]) Scheduled() bool { return t.next != nil || t.place != 0 }

// Wheel holds timers in the order of their dates.
//
// Invariant: every timer in a slot is at or after pos; every timer in behind
// is before pos.
// Invariant: a timer at or after pos lies on the level and in the slot that
// its date and pos give.
type Wheel[T any] struct {
	pos    uint64 // an instant in key order
	len    int
	used   [levels]uint64
	slot   [levels][slots]*Timer[T] // each the first of a ring, in order of insertion
	behind pile[T]
}

// New makes an empty wheel. Timers due before now are accepted and work, but
// cost a little more.
func New[T any](now int64) *Wheel[T] {
	return &Wheel[T]{pos: key(now)}
}

// Len is the number of scheduled timers.
func (w *Wheel[T]) Len() int { return w.len }

// Schedule sets the date of a timer, whether it is scheduled already or not.
// Among timers of one millisecond it becomes the last.
func (w *Wheel[T]) Schedule(t *Timer[T], at int64) {
	w.Cancel(t)
	t.at = at
	w.len++
	w.insert(t)
}

// Cancel takes a timer out; one that is not scheduled stays as it is.
func (w *Wheel[T]) Cancel(t *Timer[T]) {
	switch {
	case t.place != 0:
		w.behind.remove(t)
	case t.next != nil:
		w.unlink(t)
	default:
		return
	}
	w.len--
}

// Pop takes out the earliest timer that is due at now, or returns nil.
// Repeated calls return timers in ascending order of their dates, those of one
// millisecond in the order in which they were scheduled. Between calls any
// timer may be scheduled or cancelled.
func (w *Wheel[T]) Pop(now int64) *Timer[T] {
	if t := w.behind.first(); t != nil {
		if t.at > now {
			return nil
		}
		w.Cancel(t)
		return t
	}
	for {
		level, digit, ok := w.lowest()
		if !ok {
			return nil
		}
		if level == 0 {
			t := w.slot[0][digit]
			if t.at > now {
				return nil
			}
			w.Cancel(t)
			return t
		}
		start := w.start(level, digit)
		if start > key(now) {
			return nil
		}
		w.spread(level, digit, start)
	}
}

// Next says when to call Pop again: never later than the earliest timer, and
// after a Pop(now) that returned nil always later than now. It may be earlier
// than the earliest timer; a call then finds nothing and brings Next closer.
func (w *Wheel[T]) Next() (at int64, ok bool) {
	if t := w.behind.first(); t != nil {
		return t.at, true
	}
	level, digit, ok := w.lowest()
	if !ok {
		return 0, false
	}
	return instant(w.start(level, digit)), true
}

// lowest is the slot with the earliest timers: on the lowest level in use,
// whose slots lie before all of the levels above.
func (w *Wheel[T]) lowest() (level, digit int, ok bool) {
	for level := range w.used {
		if w.used[level] != 0 {
			return level, bits.TrailingZeros64(w.used[level]), true
		}
	}
	return 0, 0, false
}

// start is the first instant of a slot: the digits of pos above its level, its
// own digit, and zeros.
func (w *Wheel[T]) start(level, digit int) uint64 {
	shift := level * digitBits
	below := uint64(1)<<(shift+digitBits) - 1
	return w.pos&^below | uint64(digit)<<shift
}

// spread moves the position to the start of a slot and its timers to the
// levels below. Timers of other slots keep their places: they differ from the
// new position in the same digit as from the old one.
func (w *Wheel[T]) spread(level, digit int, start uint64) {
	first := w.slot[level][digit]
	w.slot[level][digit] = nil
	w.used[level] &^= 1 << digit
	w.pos = start
	for t := first; ; {
		next := t.next
		w.insert(t)
		if next == first {
			return
		}
		t = next
	}
}

func (w *Wheel[T]) insert(t *Timer[T]) {
	k := key(t.at)
	if k < w.pos {
		w.behind.add(t)
		return
	}
	level, digit := place(k, w.pos)
	first := w.slot[level][digit]
	if first == nil {
		t.next, t.prev = t, t
		w.slot[level][digit] = t
		w.used[level] |= 1 << digit
		return
	}
	last := first.prev
	t.next, t.prev = first, last
	last.next, first.prev = t, t
}

func (w *Wheel[T]) unlink(t *Timer[T]) {
	level, digit := place(key(t.at), w.pos)
	switch {
	case t.next == t:
		w.slot[level][digit] = nil
		w.used[level] &^= 1 << digit
	default:
		t.prev.next, t.next.prev = t.next, t.prev
		if w.slot[level][digit] == t {
			w.slot[level][digit] = t.next
		}
	}
	t.next, t.prev = nil, nil
}

// place is the level and slot of a key at or after pos.
func place(k, pos uint64) (level, digit int) {
	if d := k ^ pos; d != 0 {
		level = (bits.Len64(d) - 1) / digitBits
	}
	return level, int(k>>(level*digitBits)) & (slots - 1)
}

// key maps instants to unsigned numbers of the same order, so that no distance
// between two of them overflows.
func key(at int64) uint64 { return uint64(at) ^ 1<<63 }

func instant(key uint64) int64 { return int64(key ^ 1<<63) }
