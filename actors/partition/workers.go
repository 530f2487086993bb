package partition

import (
	"cmp"
	"slices"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// worker is what the state knows of a live worker.
type worker struct {
	Worker
	blocked bool  // it was busy and has not offered since, or does not confirm
	till    int64 // and then it is tried again unasked
	asked   int64 // when it was inquired last; 0: never
	told    bool  // it has answered that
}

// open tells whether new deliveries may go to it.
func (w *worker) open() bool { return !w.blocked && !w.Draining }

// worker finds a live one; nil: it is not live.
func (s *State) worker(id WorkerID) *worker {
	for _, w := range s.workers {
		if w.ID == id {
			return w
		}
	}
	return nil
}

// block sends a worker nothing new until it offers slots, or for offerWait.
func (s *State) block(w *worker) { w.blocked, w.till = true, s.now+offerWait }

// setWorkers follows the list of the live workers.
func (s *State) setWorkers(list []Worker, partial bool) {
	s.partial = partial
	before := s.workers
	s.workers = make([]*worker, 0, len(list))
	s.untold = 0
	for _, x := range list {
		if s.worker(x.ID) != nil {
			continue
		}
		w := &worker{}
		if i := slices.IndexFunc(before, func(w *worker) bool { return w.ID == x.ID }); i >= 0 {
			w = before[i]
		}
		w.Worker = x
		s.workers = append(s.workers, w)
		if !w.told {
			s.untold++
		}
	}
	s.rehome()
	for _, w := range before {
		if s.worker(w.ID) == nil {
			s.workerLost(w)
		}
	}
}

// workerLost deals with what a worker had that is not live any more. Where it
// has said that it had begun, the attempt is over, and nobody knows how; the
// next number follows. What it may never have heard of is sent to another under
// the same number.
func (s *State) workerLost(w *worker) {
	var had []*flight
	for _, f := range s.running {
		if f.worker == w {
			had = append(had, f)
		}
	}
	slices.SortFunc(had, inDueOrder)
	for _, f := range had {
		if s.running[f.id] != f {
			continue // dropped, with all of its job, just now
		}
		f.strays = f.strays || f.tries > 0
		if f.confirmed || f.unwanted() != "" || f.late != nil {
			s.guard(f.job.id, func() { s.attemptLost(f, w) })
			continue
		}
		f.leave()
		s.enqueue(f)
	}
}

// inDueOrder orders flights as they are sent.
func inDueOrder(a, b *flight) int {
	if c := cmp.Compare(a.sendAt(), b.sendAt()); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// attemptLost ends the current attempt of a flight with its worker.
func (s *State) attemptLost(f *flight, w *worker) {
	r := &belfryv1.Result{
		ExecutionId: f.id, JobId: f.job.id, Attempt: f.attempt, Epoch: f.sentUnder(s.life),
		Outcome: belfryv1.Result_OUTCOME_UNKNOWN, Error: "the worker " + string(w.ID) + " was lost", FinishedAt: s.now,
	}
	if f.ours() {
		r.SentAt = f.sentNow
	}
	s.judge(f, r)
}
