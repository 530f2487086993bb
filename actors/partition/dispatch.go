package partition

import (
	"time"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

const (
	// sendChunk is how many deliveries one message to the worker carries.
	sendChunk = 256
	// offerWait is how long a busy worker may stay silent before it is tried
	// again unasked.
	offerWait = int64(2000)
)

// dispatch hands what is ready to the worker, unless it was busy and has not
// offered anything since.
func (s *State) dispatch() {
	for !s.blocked && len(s.ready.flights) > 0 {
		s.send(0, sendChunk)
	}
}

// send hands at most n deliveries over, in answer to an offer when it is not 0.
func (s *State) send(offer int64, n int) int {
	d := &belfryv1.Dispatch{Partition: s.cfg.Partition, Epoch: s.life, Offer: offer}
	for _, f := range s.ready.take(n) {
		f.phase = sent
		f.sentNow, f.sentAs = s.now, f.attempt
		if f.firstSent == 0 {
			f.firstSent = s.now
		}
		s.wheel.Schedule(&f.timer, s.now+f.spec.GetTimeoutMs()+s.cfg.Redeliver.Milliseconds())
		d.Deliveries = append(d.Deliveries, &belfryv1.Delivery{
			ExecutionId: f.id, JobId: f.job.id, Key: f.id, ScheduledFor: f.slot, Due: f.due,
			Attempt: f.attempt, TimeoutMs: f.spec.GetTimeoutMs(), Target: f.spec.GetTarget(),
		})
	}
	s.emit(Send{d})
	return len(d.Deliveries)
}

// offered uses the slots that a busy worker has now. The answer is due also
// when nothing waits any more, so that the slots are not kept for us.
func (s *State) offered(e Offered) {
	used := s.send(e.ID, e.Slots)
	s.blocked = used == e.Slots // more may wait: the worker offers again
	s.blockedTill = s.now + offerWait
}

// busied takes back what the worker had no slot for, in the order it was sent.
func (s *State) busied(refs []*belfryv1.DeliveryRef) {
	var back []*flight
	for _, r := range refs {
		f := s.running[r.GetExecutionId()]
		if f == nil || f.phase != sent || f.attempt != r.GetAttempt() {
			continue
		}
		if f.orphaned() { // deleted on the way to the worker, which has not begun it
			f.sentAs = 0
			c := s.change(f.job)
			s.end(c, f, ending{status: job.Cancelled, reason: "the job was deleted", finished: s.now})
			c.row(s.row(f.job, nil))
			continue
		}
		s.wheel.Cancel(&f.timer)
		f.phase, f.sentAs = queued, 0
		back = append(back, f)
	}
	s.ready.putBack(back)
	s.blocked = true
	s.blockedTill = s.now + offerWait
}

// reported judges results. One that nothing waits for is acknowledged at once,
// so that the worker forgets it.
func (s *State) reported(results []*belfryv1.Result) {
	var unwanted []*belfryv1.DeliveryRef
	for _, r := range results {
		ref := &belfryv1.DeliveryRef{ExecutionId: r.GetExecutionId(), Attempt: r.GetAttempt()}
		f := s.running[r.GetExecutionId()]
		switch {
		case s.deciding[keyOfResult(ref)]:
			// Its batch is on the way, and the acknowledgement follows that.
		case f == nil || r.GetAttempt() != f.attempt && r.GetOutcome() != belfryv1.Result_OUTCOME_SUCCEEDED:
			unwanted = append(unwanted, ref)
		case f.phase == committing && f.attempt == r.GetAttempt():
			// Sent by a former owner; our own row is on its way, and the worker
			// reports again.
		default:
			decide := func() {
				c := s.judge(f, r)
				c.acks = append(c.acks, ref)
				s.deciding[keyOfResult(ref)] = true
			}
			if !s.guard(f.job.id, decide) {
				unwanted = append(unwanted, ref)
			}
		}
	}
	if len(unwanted) > 0 {
		s.emit(Acknowledge{unwanted})
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
	if f.phase == queued {
		s.ready.remove(f)
	}
	s.wheel.Cancel(&f.timer)
	if r.GetAttempt() < f.attempt && !f.begun() {
		f.attempt = r.GetAttempt() // the next one was never sent
	}
	if f.attempt == 1 && r.GetSentAt() != 0 {
		f.firstSent = r.GetSentAt() // as the worker measured it
	}
	c := s.change(f.job)
	line := s.attemptLine(f, r)
	s.recordLost(c, f, line.epoch)
	switch {
	case r.GetOutcome() == belfryv1.Result_OUTCOME_SUCCEEDED:
		s.end(c, f, ending{status: job.Succeeded, finished: r.GetFinishedAt(), last: line})
	case f.orphaned():
		const reason = "the job was deleted while it ran, and its attempt did not succeed"
		s.end(c, f, ending{status: job.Cancelled, reason: reason, finished: r.GetFinishedAt(), last: line})
	default:
		s.retry(c, f, line, r)
	}
	if r.GetGone() && f.job.status == job.Active && f.gen == f.job.gen && f.rev == f.job.rev {
		s.pause(c, f.job, "the target answered 410 Gone")
	}
	s.settleStatus(c, f.job)
	return c.row(s.row(f.job, nil))
}

// retry plans the next attempt of a flight, or ends it as a dead letter. line is
// nil when nobody can tell what the attempt came to.
func (s *State) retry(c *change, f *flight, line *attemptLine, r *belfryv1.Result) {
	if outcome := messages.Outcome(r.GetOutcome()); outcome == job.AttemptTimeout || outcome == job.AttemptUnknown {
		f.unknown++
	}
	v := messages.FromSpec(f.spec).Retry.Judge(job.Attempt{
		ExecutionID: f.id, Number: int(f.attempt), Due: time.UnixMilli(f.due), EndedAt: time.UnixMilli(s.now),
		Final: r.GetFinal() || r.GetGone(), RetryAfter: time.Duration(r.GetRetryAfterMs()) * time.Millisecond,
	})
	if !v.Retry {
		s.bury(c, f, ending{reason: v.Reason, finished: r.GetFinishedAt(), last: line})
		return
	}
	if line != nil {
		line.write(c, f)
	} else {
		s.recordLost(c, f, 0)
	}
	f.attempt++
	f.retryAt = v.RetryAt.UnixMilli()
	f.epochs = []int64{s.life}
	f.lastError = s.shortError(f.job, r.GetError())
	f.commitWith(c)
	s.wheel.Schedule(&f.timer, f.retryAt)
	c.publish(&belfryv1.Event{
		Type: "execution.retrying", JobId: f.job.id, ExecutionId: f.id, ScheduledFor: f.slot, At: s.now,
		Attempt: f.attempt - 1, LatenessMs: max(f.firstSent-f.due, 0), Reason: f.lastError,
	})
}

// shortError is what the job's state keeps of an error: less and less as the
// state grows. The whole text is in the history.
func (s *State) shortError(j *jobRec, text string) string {
	if len(j.flights()) > 20 && len(encode(j.state())) > softState {
		return ""
	}
	return clip(text, 120)
}

// described answers what is running of a job, from memory.
func (s *State) described(e Described) {
	d := &belfryv1.Description{}
	if j := s.jobs[e.JobID]; j != nil {
		queuedUp := 0
		for _, f := range j.flights() {
			switch {
			case f.begun() && f.phase != judged:
				d.Running = append(d.Running, &belfryv1.Description_Running{ExecutionId: f.id, Attempt: f.attempt, SentAt: f.sentNow})
			case f.phase == queued:
				queuedUp++
			}
		}
		if queuedUp > 0 {
			d.Waiting = "waiting: all worker slots are in use"
		}
	}
	s.emit(Reply{To: e.Ref, Answer: d})
}
