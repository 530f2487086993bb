package partition

import (
	"slices"
	"time"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const (
	// sendChunk is how many deliveries one message to a worker carries, and
	// sendBytes how many bytes of them, but always one: a transport takes 4 MiB,
	// and what it refuses would be repeated for ever.
	sendChunk = 256
	sendBytes = 1 << 20
	// silentTries is after how many tries a worker that does not confirm a
	// delivery is sent no new ones.
	silentTries = 3
	// offerWait is how long a busy worker may stay silent before it is tried
	// again unasked. ms
	offerWait = int64(2000)
	// withheldPause is waited before the next try to send, when the node could
	// not be sure that it still owns anything. ms
	withheldPause = int64(100)
)

// dispatch asks again where a worker is silent, and hands what is ready to the
// first worker that takes it.
func (s *State) dispatch() {
	s.sendAgain()
	s.order()
	for _, w := range s.workers {
		for w.open() && s.lanes.n > 0 && s.now >= s.quietTill {
			if s.send(w, 0, s.shares(w), sendChunk) == 0 {
				break
			}
		}
	}
}

// sendAgain repeats deliveries to the workers that may have them.
func (s *State) sendAgain() {
	for len(s.again) > 0 {
		w, all, cancelled := s.again[0].worker, []*flight(nil), []*flight(nil)
		s.again = slices.DeleteFunc(s.again, func(f *flight) bool {
			switch {
			case f.worker != w || f.phase != sent:
			case f.cancel != "":
				cancelled = append(cancelled, f)
			default:
				all = append(all, f)
			}
			return f.worker == w
		})
		s.tellCancelled(w, cancelled)
		for len(all) > 0 {
			n, left := 0, newRoom(sendChunk)
			for n < len(all) && left.take(all[n]) {
				n++
			}
			s.deliver(w, 0, all[:n])
			all = all[n:]
		}
	}
}

// room is what one message to a worker still takes.
type room struct{ deliveries, bytes int }

func newRoom(deliveries int) room { return room{deliveries, sendBytes} }

// take tells whether a delivery goes into the message too.
func (r *room) take(f *flight) bool {
	size := f.size()
	if r.deliveries <= 0 || size > r.bytes && r.bytes < sendBytes {
		return false
	}
	r.deliveries--
	r.bytes -= size
	return true
}

// send hands at most n deliveries over, in answer to an offer when it is not 0.
// After a lapse the first message tries whether anything is sent again.
func (s *State) send(w *worker, offer int64, from []share, n int) int {
	s.holdEarly()
	flights := s.takeShares(w, from, n)
	s.deliver(w, offer, flights)
	if s.unsure && len(flights) > 0 {
		s.unsure, s.quietTill = false, s.now+withheldPause
	}
	return len(flights)
}

// holdEarly lets what was due before the clock was stepped back wait until it is
// due again: nothing is sent before its instant by the clock as it is.
func (s *State) holdEarly() {
	if s.now >= s.latest {
		return
	}
	for _, l := range slices.Clone(s.lanes.busy) {
		for _, f := range slices.Concat(l.flights, l.added) {
			if f.sendAt() > s.now {
				s.unqueue(f)
				s.wheel.Schedule(&f.timer, f.sendAt())
			}
		}
	}
}

// deliver sends one Dispatch. One that may be lost is repeated until the worker
// confirms it. Its number tells the worker which of two came later, and us which
// one a Busy answers.
func (s *State) deliver(w *worker, offer int64, flights []*flight) {
	if len(flights) == 0 && offer == 0 {
		return
	}
	s.dispatches++
	d := &belfryv1.Dispatch{Partition: s.cfg.Partition, Epoch: s.life, Number: s.dispatches, Offer: offer, Confirm: w.Remote}
	for _, f := range flights {
		if f.worker == nil {
			f.sentNow = s.now
		}
		if f.firstSent == 0 {
			f.firstSent = s.now
		}
		f.phase, f.worker, f.number = sent, w, s.dispatches
		f.tries++
		wait := s.answerTime(f)
		if w.Remote && !f.confirmed {
			wait = s.cfg.Confirm.Milliseconds()
			if f.tries >= silentTries {
				s.block(w)
			}
		}
		s.wheel.Schedule(&f.timer, s.now+wait)
		d.Deliveries = append(d.Deliveries, &belfryv1.Delivery{
			ExecutionId: f.id, JobId: f.job.id, Key: f.key(), ScheduledFor: f.nominal(), Due: f.due,
			Attempt: f.attempt, TimeoutMs: f.spec.GetTimeoutMs(), Target: f.spec.GetTarget(),
		})
	}
	s.emit(Send{To: w.ID, Dispatch: d})
}

// offered uses the slots that a busy worker has now. The answer is due also
// when nothing waits any more, so that the slots are not kept for us.
func (s *State) offered(e Offered) {
	w := s.worker(e.From)
	if w == nil {
		s.deliver(&worker{Worker: Worker{ID: e.From}}, e.ID, nil)
		return
	}
	slots := e.Slots
	if w.Draining || s.now < s.quietTill {
		slots = 0
	}
	if e.Host != "" {
		s.offeredFor(w, e, slots)
		return
	}
	w.blocked = false
	if used := s.send(w, e.ID, s.shares(w), slots); used == e.Slots {
		s.block(w) // more may wait: the worker offers again
	}
}

// offeredFor uses the slots that a worker has for one host.
func (s *State) offeredFor(w *worker, e Offered, slots int) {
	l := s.lane(e.Host)
	if l.home != nil && l.home != w {
		slots = 0
	}
	var held hold
	if h := l.hold(w); h != nil {
		held = *h
	}
	s.lift(l, w)
	if used := s.send(w, e.ID, []share{{l, slots}}, slots); used == e.Slots {
		s.holdUp(s.lane(e.Host), w, Busied{Reason: held.why, Since: held.since}) // more may wait: the worker offers again
	}
}

// busied takes back what a worker had no slot for. A Busy that is not about the
// newest dispatch of a delivery says nothing: the worker may have begun that one.
func (s *State) busied(e Busied) {
	var back []*flight
	cancelled := 0
	for _, r := range e.Deliveries {
		f := s.running[r.GetExecutionId()]
		if f != nil && f.cancel != "" {
			cancelled++
		}
		if f == nil || f.attempt != r.GetAttempt() || f.worker == nil || f.worker.ID != e.From {
			continue
		}
		if e.Number != 0 && f.number != 0 && e.Number != f.number { // f.number is 0 of what a former owner sent
			continue
		}
		back = append(back, f)
	}
	switch w := s.worker(e.From); {
	case w == nil:
	case e.Host != "":
		l := s.lane(e.Host)
		s.holdUp(l, w, e)
		s.failWaiting(l)
	case cancelled == len(e.Deliveries): // it had nothing to begin
	default:
		s.block(w)
	}
	s.giveBack(back)
}

// withheld takes back what was not sent, unless it had been sent before.
func (s *State) withheld(e Withheld) {
	var back []*flight
	for _, x := range e.Dispatch.GetDeliveries() {
		f := s.running[x.GetExecutionId()]
		if f == nil || f.worker == nil || f.worker.ID != e.To || f.number != e.Dispatch.GetNumber() {
			continue
		}
		if f.tries--; f.tries == 0 && !f.confirmed {
			s.refund(f)
			back = append(back, f)
		}
	}
	s.giveBack(back)
	s.unsure, s.quietTill = true, s.now+withheldPause
}

// giveBack returns flights that their worker does not have to the queue.
func (s *State) giveBack(flights []*flight) {
	for _, f := range flights {
		if s.running[f.id] == f { // else it was dropped, with all of its job, just now
			s.guard(f.job.id, func() { s.giveBackOne(f) })
		}
	}
}

// giveBackOne returns one flight.
func (s *State) giveBackOne(f *flight) {
	if f.tries > 0 {
		s.refund(f)
	}
	f.leave()
	if f.attempt == 1 {
		f.firstSent = 0
	}
	switch {
	case f.late != nil:
		s.judge(f, f.late)
	case f.phase != sent: // it goes on when its row is durable
	case f.unwanted() != "": // deleted or cancelled on the way to the worker
		s.abandon(f, f.unwanted())
	case f.epochs[len(f.epochs)-1] != s.life:
		f.phase = waiting
		s.becomeReady(f)
	default:
		s.enqueue(f)
	}
}

// reported judges results. One that nothing waits for is acknowledged once all
// that is known of its job is durable, so that the worker forgets it.
func (s *State) reported(e Reported) {
	for _, r := range e.Results {
		ref := &belfryv1.DeliveryRef{ExecutionId: r.GetExecutionId(), Attempt: r.GetAttempt()}
		a := ack{e.From, ref}
		f := s.running[r.GetExecutionId()]
		switch {
		case s.deciding[keyOfResult(ref)], s.beingLate(ref.GetExecutionId()):
			// Its batch is on the way, and the acknowledgement follows that.
		case r.GetEpoch() > s.life:
			// A later owner sent it and waits for it.
		case f == nil && r.GetOutcome() == belfryv1.Result_OUTCOME_SUCCEEDED:
			s.cameLate(e.From, r)
		case f == nil || !wanted(f, r, e.From):
			c := s.changeOf(r.GetJobId())
			c.acks = append(c.acks, a)
		case s.besideAnother(f, r, e.From):
			f.late = r
		default:
			decide := func() {
				c := s.judge(f, r)
				c.acks = append(c.acks, a)
				s.deciding[keyOfResult(ref)] = true
			}
			if !s.guard(f.job.id, decide) {
				c := s.changeOf(r.GetJobId())
				c.acks = append(c.acks, a)
			}
		}
	}
}

// wanted tells whether a result decides anything: a success always, a failure
// only when it is of the current attempt and no other worker is at it.
func wanted(f *flight, r *belfryv1.Result, from WorkerID) bool {
	if r.GetOutcome() == belfryv1.Result_OUTCOME_SUCCEEDED {
		return true
	}
	return r.GetAttempt() == f.attempt && (f.worker == nil || f.worker.ID == from)
}

// besideAnother tells that a success came from an earlier delivery of a flight
// whose place nobody else may have yet: a worker is at a later one. It decides
// when that has ended, and its worker repeats it until then.
func (s *State) besideAnother(f *flight, r *belfryv1.Result, from WorkerID) bool {
	if f.worker == nil || f.worker.ID == from && f.attempt == r.GetAttempt() {
		return false
	}
	return solitary(f.spec) || solitary(s.specOf(f.job, f.job.rev))
}

// ack is what a worker is told about a result of its.
type ack struct {
	to  WorkerID
	ref *belfryv1.DeliveryRef
}

// acknowledge tells the workers which of their results they may forget.
func (s *State) acknowledge() {
	for len(s.acks) > 0 {
		to, refs := s.acks[0].to, []*belfryv1.DeliveryRef(nil)
		s.acks = slices.DeleteFunc(s.acks, func(a ack) bool {
			if a.to == to {
				refs = append(refs, a.ref)
			}
			return a.to == to
		})
		s.emit(Acknowledge{To: to, Refs: refs})
	}
}

// resultKey names a result among those that are being decided.
type resultKey struct {
	execution string
	attempt   int32
}

func keyOfResult(r *belfryv1.DeliveryRef) resultKey {
	return resultKey{r.GetExecutionId(), r.GetAttempt()}
}

// judge decides what an ended attempt means and writes it in one change.
func (s *State) judge(f *flight, r *belfryv1.Result) *change {
	if f.late != nil && r.GetOutcome() != belfryv1.Result_OUTCOME_SUCCEEDED {
		r = f.late
	}
	s.unqueue(f)
	s.wheel.Cancel(&f.timer)
	if r.GetAttempt() < f.attempt && !s.perhapsSent(f) {
		f.attempt-- // the next one was never sent
	}
	if f.attempt == 1 && r.GetSentAt() != 0 {
		f.firstSent = r.GetSentAt() // as the worker measured it
	}
	c := s.change(f.job)
	line := s.attemptLine(f, r)
	s.recordLost(c, f, line)
	switch {
	case r.GetOutcome() == belfryv1.Result_OUTCOME_SUCCEEDED:
		s.end(c, f, ending{status: job.Succeeded, finished: r.GetFinishedAt(), last: line})
	case f.unwanted() != "":
		f.countUnknown(r)
		s.end(c, f, ending{status: job.Cancelled, reason: f.unwanted(), finished: r.GetFinishedAt(), last: line})
	default:
		s.retry(c, f, line, r)
	}
	if r.GetGone() {
		s.gone(c, f)
	}
	s.settleStatus(c, f.job)
	return c.row(s.row(f.job, nil))
}

// gone stops what a target wants no more of: the job, unless it has another
// definition by now, and its backfills.
func (s *State) gone(c *change, f *flight) {
	const reason = "the target answered 410 Gone"
	if b := f.job.past.backfillOf(f.backfill); b != nil {
		s.cancelBackfill(c, f.job, b, reason)
	}
	if f.job.status == job.Active && f.gen == f.job.gen && f.rev == f.job.rev {
		s.cancelBackfills(c, f.job, reason)
		s.pause(c, f.job, reason)
	}
}

// countUnknown notes an attempt that ended without an answer.
func (f *flight) countUnknown(r *belfryv1.Result) {
	if unheard(r) {
		f.unknown++
	}
}

// unheard tells that an attempt ended without an answer: it may have succeeded.
func unheard(r *belfryv1.Result) bool {
	outcome := messages.Outcome(r.GetOutcome())
	return outcome == job.AttemptTimeout || outcome == job.AttemptUnknown
}

// retry plans the next attempt of a flight, or ends it as a dead letter. line is
// nil when nobody can tell what the attempt came to.
func (s *State) retry(c *change, f *flight, line *attemptLine, r *belfryv1.Result) {
	if unheard(r) {
		f.lost = f.lease
	}
	v := messages.FromSpec(f.spec).Retry.Judge(job.Attempt{
		ExecutionID: f.id, Number: int(f.attempt), Due: time.UnixMilli(f.due), EndedAt: time.UnixMilli(s.now),
		Final: r.GetFinal() || r.GetGone(), RetryAfter: time.Duration(r.GetRetryAfterMs()) * time.Millisecond,
	})
	if f.lease != nil && r.GetOutcome() == belfryv1.Result_OUTCOME_UNKNOWN {
		v.Reason += ": worker lost"
	}
	if v.Retry || line != nil { // else its end does
		f.countUnknown(r)
	}
	if !v.Retry {
		s.bury(c, f, ending{reason: v.Reason, finished: r.GetFinishedAt(), last: line})
		return
	}
	if line != nil {
		line.write(c, f)
	} else {
		s.recordLost(c, f, nil)
	}
	s.endPaced(f)
	f.attempt++
	f.turn, f.expires = 0, 0
	f.retryAt = max(v.RetryAt.UnixMilli(), f.due) // its instant is to come again when the clock was stepped back behind it
	f.epochs = []int64{s.life}
	f.lease = nil
	f.leave()
	f.strays = false
	f.lastError = f.job.cut(r.GetError(), -2, 120) // the whole text is in the history
	f.commitWith(c)
	s.wheel.Schedule(&f.timer, f.retryAt)
	c.publish(&belfryv1.Event{
		Type: "execution.retrying", JobId: f.job.id, ExecutionId: f.id, ScheduledFor: f.slot, At: s.now,
		Attempt: f.attempt - 1, LatenessMs: max(f.firstSent-f.due, 0), Reason: f.lastError,
	})
}
