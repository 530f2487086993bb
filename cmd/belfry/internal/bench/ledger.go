package bench

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Receipt is one request that arrived at the sink.
type Receipt struct {
	JobID        string
	ScheduledFor string // as the header has it
	Key          string
	Epoch        int64 // of the owner that sent it; 0: not said
	At           time.Time
}

const shards = 64

// Ledger holds what arrived of a plan. It is safe for concurrent use.
type Ledger struct {
	plan       Plan
	seed       maphash.Seed
	slots      []slot
	locks      [shards]sync.Mutex // of slots, by number
	keys       [shards]keyShard
	first      atomic.Int64 // deliveries with at least one receipt
	all        atomic.Int64
	unexpected atomic.Int64
	doubledIDs atomic.Int64
	complete   chan struct{}
}

// slot is one expected delivery.
type slot struct {
	at    int64  // of the first receipt, Unix nanoseconds
	key   uint64 // its hash
	count uint32
}

type keyShard struct {
	mu   sync.Mutex
	seen map[uint64]keyUse
	_    [40]byte // a cache line of its own
}

// keyUse is what a key was used for.
type keyUse struct {
	count uint32
	slot  int // of the first receipt; -1: none of the plan
}

// NewLedger opens a ledger for a plan.
func NewLedger(plan Plan) *Ledger {
	l := &Ledger{plan: plan, seed: maphash.MakeSeed(), slots: make([]slot, plan.Total()), complete: make(chan struct{})}
	for i := range l.keys {
		l.keys[i].seen = make(map[uint64]keyUse, plan.Total()/shards+1)
	}
	return l
}

// Record takes a receipt down. Keys are counted apart from the plan, so that a
// key that is used for two deliveries is found as well as a delivery that
// comes under two keys.
func (l *Ledger) Record(r Receipt) {
	l.all.Add(1)
	n, ok := -1, false
	if at, err := time.Parse(time.RFC3339Nano, r.ScheduledFor); err == nil {
		n, ok = l.plan.Find(r.JobID, at)
	}
	key := maphash.String(l.seed, r.Key)
	l.countKey(key, n)
	if !ok {
		l.unexpected.Add(1)
		return
	}
	lock := &l.locks[n%shards]
	lock.Lock()
	s := &l.slots[n]
	fresh := s.count == 0
	if fresh {
		s.key = key
	} else if s.key != key {
		l.doubledIDs.Add(1)
	}
	if ns := r.At.UnixNano(); fresh || ns < s.at {
		s.at = ns
	}
	s.count++
	lock.Unlock()
	if fresh && l.first.Add(1) == int64(len(l.slots)) {
		close(l.complete)
	}
}

// countKey notes that a key was used for a delivery; -1: none of the plan.
func (l *Ledger) countKey(key uint64, slot int) {
	s := &l.keys[key%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	use, used := s.seen[key]
	if !used {
		use.slot = slot
	} else if use.slot != slot {
		l.doubledIDs.Add(1)
	}
	use.count++
	s.seen[key] = use
}

// Complete is closed when every expected delivery has arrived once.
func (l *Ledger) Complete() <-chan struct{} { return l.complete }

// Arrived is how many expected deliveries have arrived so far.
func (l *Ledger) Arrived() int { return int(l.first.Load()) }

// Verdict is what the receipts come to.
type Verdict struct {
	Expected     int
	Received     int           // requests in all
	Early        int           // arrived before they were due
	Late         int           // arrived more than the limit after they were due
	Missing      int           // never arrived
	DoubledKeys  int           // receipts under a key that had arrived before
	DoubledSlots int           // receipts of a delivery that had arrived before
	DoubledIDs   int           // of these, the ones under another key, and keys of two deliveries
	Repeats      bool          // a delivery may come again, under the same key: nodes are killed
	Unexpected   int           // of no delivery of the plan
	First, Last  time.Time     // receipts of expected deliveries
	Lateness     Distribution  // arrived minus due
	LateLimit    time.Duration // what Late counts
}

// Judge compares the receipts with the plan.
func (l *Ledger) Judge(lateLimit time.Duration) Verdict {
	return l.JudgeUntil(lateLimit, time.Time{})
}

// JudgeUntil compares the receipts with that part of the plan that is due before
// an instant; zero: all of it.
func (l *Ledger) JudgeUntil(lateLimit time.Duration, until time.Time) Verdict {
	v := Verdict{Received: int(l.all.Load()), Unexpected: int(l.unexpected.Load()), DoubledIDs: int(l.doubledIDs.Load()), LateLimit: lateLimit}
	lateness := make([]time.Duration, 0, len(l.slots))
	for n := range l.slots {
		if !until.IsZero() && !l.plan.Due(n).Before(until) {
			continue
		}
		v.Expected++
		lock := &l.locks[n%shards]
		lock.Lock()
		s := l.slots[n]
		lock.Unlock()
		if s.count == 0 {
			v.Missing++
			continue
		}
		v.DoubledSlots += int(s.count) - 1
		at := time.Unix(0, s.at)
		late := at.Sub(l.plan.Due(n))
		lateness = append(lateness, late)
		if late < 0 {
			v.Early++
		}
		if late > lateLimit {
			v.Late++
		}
		if v.First.IsZero() || at.Before(v.First) {
			v.First = at
		}
		if at.After(v.Last) {
			v.Last = at
		}
	}
	v.Lateness = Distribute(lateness)
	v.DoubledKeys = l.doubledKeys()
	return v
}

// Between is how late the deliveries were that were due in [from, to), those that
// have arrived.
func (l *Ledger) Between(from, to time.Time) Distribution {
	var lateness []time.Duration
	for n := range l.slots {
		due := l.plan.Due(n)
		lock := &l.locks[n%shards]
		lock.Lock()
		s := l.slots[n]
		lock.Unlock()
		if s.count > 0 && !due.Before(from) && due.Before(to) {
			lateness = append(lateness, time.Unix(0, s.at).Sub(due))
		}
	}
	return Distribute(lateness)
}

func (l *Ledger) doubledKeys() int {
	n := 0
	for i := range l.keys {
		s := &l.keys[i]
		s.mu.Lock()
		for _, use := range s.seen {
			n += int(use.count) - 1
		}
		s.mu.Unlock()
	}
	return n
}

// PerSecond is the rate from the first to the last delivery.
func (v Verdict) PerSecond() float64 {
	took := v.Last.Sub(v.First).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(v.Expected-v.Missing) / took
}

// beyondRepeats is a number of repeats where none may be.
func (v Verdict) beyondRepeats(n int) int {
	if v.Repeats {
		return 0
	}
	return n
}

// Broken says which promises the receipts break.
func (v Verdict) Broken() []string {
	var out []string
	for _, b := range []struct {
		n    int
		what string
	}{
		{v.Early, "deliveries came early"},
		{v.Missing, "deliveries are missing"},
		{v.DoubledIDs, "deliveries came under a second key, or keys for a second delivery"},
		{v.beyondRepeats(v.DoubledKeys), "requests repeated a key"},
		{v.beyondRepeats(v.DoubledSlots), "deliveries came more than once"},
		{v.Unexpected, "requests were not expected"},
	} {
		if b.n > 0 {
			out = append(out, count(b.n)+" "+b.what)
		}
	}
	return out
}
