package partition

import (
	"cmp"
	"maps"
	"slices"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// hintEvery is how often brokers are told what waits unclaimed: they keep
// nothing, and a new one learns it within this time. ms
const hintEvery = int64(2000)

// shelves are the executions that wait for outside workers, by queue.
type shelves struct {
	of     map[string]*shelf
	fresh  []*shelf // something came onto them in this step
	hintAt int64    // when all are told again
}

// shelf is what of one queue is due and unclaimed. The jobs that have any take
// turns, so that none waits for all of another's.
type shelf struct {
	queue string
	n     int               // flights
	turns []*stall          // the next one first. Invariant: exactly those of byJob.
	byJob map[string]*stall // one may have become empty before its turn
	fresh bool
}

// stall is what one job has on a shelf.
type stall struct {
	jobID   string
	flights []*flight // in the order of onShelf
}

// queue is the queue that outside workers claim it from; "": it is delivered.
func (f *flight) queue() string { return f.spec.GetTarget().GetQueue().GetName() }

// claimable tells whether it goes to an outside worker, who claims it. It is with
// nobody unless its row says so: no owner has to find out what workers hold.
func (f *flight) claimable() bool { return f.spec.GetTarget().GetQueue() != nil }

// onShelf orders the flights of a job as they are claimed.
func onShelf(a, b *flight) int { return cmp.Or(extraLast(a, b), inDueOrder(a, b)) }

// put shows a due flight to outside workers.
func (s *shelves) put(f *flight) {
	sh := s.of[f.queue()]
	if sh == nil {
		sh = &shelf{queue: f.queue(), byJob: map[string]*stall{}}
		s.of[sh.queue] = sh
	}
	st := sh.byJob[f.job.id]
	if st == nil {
		st = &stall{jobID: f.job.id}
		sh.byJob[st.jobID] = st
		sh.turns = append(sh.turns, st)
	}
	at, _ := slices.BinarySearchFunc(st.flights, f, onShelf)
	st.flights = slices.Insert(st.flights, at, f)
	sh.n++
	if !sh.fresh {
		sh.fresh = true
		s.fresh = append(s.fresh, sh)
	}
}

// take takes at most max flights of a queue, one of each job in turn. Whatever
// becomes of them, they are on no shelf any more.
func (s *shelves) take(queue string, max int) []*flight {
	sh := s.of[queue]
	if sh == nil {
		return nil
	}
	var out []*flight
	for len(out) < max && len(sh.turns) > 0 {
		st := sh.turns[0]
		sh.turns = sh.turns[1:]
		if len(st.flights) > 0 {
			f := st.flights[0]
			f.phase = waiting
			out = append(out, f)
			st.flights = st.flights[1:]
			sh.n--
		}
		if len(st.flights) > 0 {
			sh.turns = append(sh.turns, st)
		} else {
			delete(sh.byJob, st.jobID)
		}
	}
	s.clear(sh)
	return out
}

// remove takes one flight away.
func (s *shelves) remove(f *flight) {
	sh := s.of[f.queue()]
	st := sh.byJob[f.job.id]
	st.flights = slices.DeleteFunc(st.flights, func(other *flight) bool { return other == f })
	sh.n--
	s.clear(sh)
}

// clear forgets a shelf with nothing on it.
func (s *shelves) clear(sh *shelf) {
	if sh.n == 0 {
		delete(s.of, sh.queue)
	}
}

// jobs is how many have something on the shelf.
func (sh *shelf) jobs() int32 {
	n := int32(0)
	for _, st := range sh.turns {
		if len(st.flights) > 0 {
			n++
		}
	}
	return n
}

// hint tells the brokers: at once of what has come, and of everything now and
// then.
func (s *State) hint() {
	sh := &s.shelves
	for _, one := range sh.fresh {
		if one.fresh = false; one.n > 0 {
			s.hintOf(one)
		}
	}
	sh.fresh = sh.fresh[:0]
	switch {
	case len(sh.of) == 0:
		sh.hintAt = 0
	case sh.hintAt == 0:
		sh.hintAt = s.now + hintEvery
	case s.now >= sh.hintAt:
		sh.hintAt = s.now + hintEvery
		for _, queue := range slices.Sorted(maps.Keys(sh.of)) {
			s.hintOf(sh.of[queue])
		}
	}
}

func (s *State) hintOf(sh *shelf) {
	s.emit(Hint{&belfryv1.Hint{Queue: sh.queue, Partition: s.cfg.Partition, Count: int32(sh.n), Jobs: sh.jobs()}})
}

// depths is how many executions wait unclaimed, by queue.
func (s *shelves) depths() map[string]int {
	if len(s.of) == 0 {
		return nil
	}
	out := make(map[string]int, len(s.of))
	for queue, sh := range s.of {
		out[queue] = sh.n
	}
	return out
}
