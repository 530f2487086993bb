package partition

import (
	"fmt"
	"strconv"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// lease is an outside worker's hold on the current attempt of a flight. All but
// until is in the job's row.
type lease struct {
	worker   string
	epoch    int64 // with number its token
	number   int64
	duration int64 // ms, the longest that it was asked for
	granted  int64
	until    int64 // when it expires, unless it is extended; 0: its row is not durable yet
}

// token is the lease's name, as its worker knows it; "": there is none.
func (l *lease) token() string {
	if l == nil {
		return ""
	}
	return strconv.FormatInt(l.epoch, 36) + "-" + strconv.FormatInt(l.number, 36)
}

// holder is the worker that holds it; "": nobody holds anything.
func (l *lease) holder() string {
	if l == nil {
		return ""
	}
	return l.worker
}

func (l *lease) stored() *belfryv1.Lease {
	if l == nil {
		return nil
	}
	return &belfryv1.Lease{Worker: l.worker, Epoch: l.epoch, Number: l.number, DurationMs: l.duration, GrantedAt: l.granted}
}

func restoredLease(m *belfryv1.Lease) *lease {
	if m == nil {
		return nil
	}
	return &lease{worker: m.GetWorker(), epoch: m.GetEpoch(), number: m.GetNumber(), duration: m.GetDurationMs(), granted: m.GetGrantedAt()}
}

// offer lets a due flight wait for an outside worker, or for the end of the
// lease that it is under. However late it is, it can be claimed for a while.
func (s *State) offer(f *flight) {
	if f.lease != nil {
		f.phase = leased
		s.renew(f)
		return
	}
	f.phase = unclaimed
	s.shelves.put(f)
	if elapsed := f.spec.GetRetry().GetMaxElapsedMs(); f.expires == 0 {
		f.expires = max(f.due+elapsed, s.now+min(elapsed, leastWait))
	}
	s.wheel.Schedule(&f.timer, f.expires)
}

// renew gives a lease its full time: when it is durable, and whenever its worker
// could not reach its owner for a while.
func (s *State) renew(f *flight) { s.setUntil(f, s.now+f.lease.duration) }

func (s *State) setUntil(f *flight, until int64) {
	f.lease.until = until
	s.wheel.Schedule(&f.timer, until)
}

// renewAll makes up for a time in which nobody was heard.
func (s *State) renewAll() {
	for _, f := range s.running {
		if f.phase == leased {
			s.renew(f)
		}
	}
}

// attemptEnd is when the attempt under a lease ends, however often it is
// extended.
func (f *flight) attemptEnd() int64 { return f.lease.granted + f.spec.GetTimeoutMs() }

// claimed grants executions of a queue. Each grant is answered once it is
// durable, so nobody else has it then, nor ever will under this lease.
func (s *State) claimed(e Claimed) {
	var flights []*flight
	if !s.away() {
		flights = s.takeUnclaimed(e.Claim.GetQueue(), int(e.Claim.GetMax()))
	}
	if len(flights) == 0 {
		s.emit(Reply{To: e.Ref, Answer: &belfryv1.Answers{}})
		return
	}
	s.asks[e.Ref] = &ask{answers: make([]*belfryv1.Answer, len(flights)), left: len(flights)}
	for i, f := range flights {
		answer := refusal("", belfryv1.Refusal_CODE_STATE, "", "the job %q cannot be read", f.job.id)
		c := s.change(f.job)
		s.guard(f.job.id, func() {
			if f.phase == waiting { // else it was dropped, with all of its job, just now
				answer = s.grant(c, f, e.Claim)
			}
		})
		answer.At = s.now
		c.answers = append(c.answers, answered{e.Ref, i, answer})
		s.queue.lines.hurry(c.id)
	}
}

// takeUnclaimed takes at most so many flights of a queue, as far as the rate
// limits of their jobs let them go.
func (s *State) takeUnclaimed(queue string, most int) []*flight {
	var out []*flight
	for len(out) < most {
		taken := s.shelves.take(queue, most-len(out))
		if len(taken) == 0 {
			break
		}
		for _, f := range taken {
			if f.phase != waiting {
				continue // dropped, with all of its job, just now
			}
			if rate := f.rateOf(); rate.Set() && f.job.past.pace.bucket.Tokens(rate, s.time()) <= 0 {
				s.guard(f.job.id, func() { s.putAside(f, rate) })
				continue
			}
			s.spend(f)
			out = append(out, f)
		}
	}
	return out
}

func (s *State) grant(c *change, f *flight, claim *belfryv1.Claim) *belfryv1.Answer {
	timeout := f.spec.GetTimeoutMs()
	f.lease = &lease{worker: clip(claim.GetWorker(), shortText+max(f.job.spare(), 0)), epoch: s.life, number: s.draw(), duration: min(claim.GetLeaseMs(), timeout), granted: s.now}
	f.lost = nil
	f.sentNow = s.now
	if f.firstSent == 0 {
		f.firstSent = s.now
	}
	f.commitWith(c)
	c.row(s.row(f.job, nil)).publish(s.leaseEvent(f, "execution.claimed", ""))
	return &belfryv1.Answer{Outcome: &belfryv1.Answer_Grant{Grant: &belfryv1.Grant{
		ExecutionId: f.id, JobId: f.job.id, Queue: f.queue(), Lease: f.lease.token(), Key: f.key(),
		ScheduledFor: f.nominal(), Due: f.due, Attempt: f.attempt, MaxAttempts: f.spec.GetRetry().GetMaxAttempts(),
		Payload: f.spec.GetTarget().GetQueue().GetPayload(),
		LeaseMs: f.lease.duration, ExpiresAt: s.now + f.lease.duration, TimeoutMs: timeout,
	}}}
}

func (s *State) leaseEvent(f *flight, kind, reason string) *belfryv1.Event {
	return &belfryv1.Event{
		Type: kind, JobId: f.job.id, ExecutionId: f.id, ScheduledFor: f.slot, At: s.now, Attempt: f.attempt,
		LatenessMs: max(f.firstSent-f.due, 0), Worker: f.lease.worker, Reason: reason,
	}
}

// extended answers a heartbeat, from memory unless it is for longer than the lease
// has been so far: a new owner must know for how long it is. It never shortens a
// lease, and goes past the attempt's timeout only as far as renew did.
func (s *State) extended(e Extended) {
	m := e.Heartbeat
	reply := func(a *belfryv1.Answer) {
		a.At = s.now
		s.emit(Reply{To: e.Ref, Answer: a})
	}
	if job.PartitionOf(m.GetJobId(), s.cfg.Partitions) != s.cfg.Partition {
		reply(refusal("", belfryv1.Refusal_CODE_NOT_OWNER, "", "job %q belongs to another partition", m.GetJobId()))
		return
	}
	f := s.holder(m.GetExecutionId(), m.GetLease())
	if f == nil || f.phase != leased {
		reply(s.leaseLost(m.GetExecutionId(), m.GetLease()))
		return
	}
	if f.cancel != "" {
		reply(refusal("", belfryv1.Refusal_CODE_CANCELLED, "", "%s", f.cancel))
		return
	}
	extend := m.GetExtendMs()
	if extend == 0 {
		extend = f.lease.duration
	}
	longer := extend > f.lease.duration
	if longer && s.away() {
		reply(refusal("", belfryv1.Refusal_CODE_UNAVAILABLE, "", "the store does not answer: try again, or ask for no more than before"))
		return
	}
	s.setUntil(f, max(f.lease.until, min(s.now+extend, f.attemptEnd())))
	held := &belfryv1.Answer{At: s.now, Outcome: &belfryv1.Answer_LeaseHeld{LeaseHeld: &belfryv1.LeaseHeld{ExpiresAt: f.lease.until}}}
	if !longer {
		reply(held)
		return
	}
	f.lease.duration = extend
	c := s.change(f.job)
	if !s.guard(f.job.id, func() { c.row(s.row(f.job, nil)) }) {
		held = s.leaseLost(m.GetExecutionId(), m.GetLease())
	}
	c.answers = append(c.answers, answered{e.Ref, 0, held})
	s.asks[e.Ref] = &ask{answers: make([]*belfryv1.Answer, 1), left: 1, single: true}
	s.queue.lines.hurry(c.id)
}

// holder is the flight that is held under a lease; nil: the lease is over.
func (s *State) holder(execution, token string) *flight {
	if f := s.running[execution]; f != nil && f.lease != nil && f.lease.token() == token {
		return f
	}
	return nil
}

// leaseLost refuses what is asked under a lease that is over.
func (s *State) leaseLost(execution, token string) *belfryv1.Answer {
	code, why := belfryv1.Refusal_CODE_LEASE_LOST, "it expired, or its execution has ended"
	f := s.running[execution]
	switch end := s.leases.of[heldAs{execution, token}]; {
	case end == leaseCancelled:
		code, why = belfryv1.Refusal_CODE_CANCELLED, string(end)
	case end != leaseUnknown:
		why = string(end)
	case f != nil && f.lease != nil:
		why = fmt.Sprintf("attempt %d is held under another lease", f.attempt)
	case f != nil:
		why = fmt.Sprintf("attempt %d waits for a worker", f.attempt)
	}
	return refusal("", code, "", "%s", why)
}

var leaseOver = &belfryv1.Answer_LeaseOver{LeaseOver: &belfryv1.LeaseOver{}}

// complete ends the attempt under a lease. A repeat changes nothing and has the
// same answer, as far as it is remembered; what is older, the history knows.
func (s *State) complete(m *belfryv1.Complete) (*change, *belfryv1.Answer) {
	f, end := s.holder(m.GetExecutionId(), m.GetLease()), leaseFailed
	outcome := belfryv1.Result_OUTCOME_FAILED
	if m.GetSucceeded() {
		outcome, end = belfryv1.Result_OUTCOME_SUCCEEDED, leaseSucceeded
	}
	if f == nil {
		if s.leases.of[heldAs{m.GetExecutionId(), m.GetLease()}] == end {
			return nil, &belfryv1.Answer{Outcome: leaseOver}
		}
		return nil, s.leaseLost(m.GetExecutionId(), m.GetLease())
	}
	held := s.leases.add(heldAs{f.id, f.lease.token()}, end)
	c := s.judge(f, s.leaseResult(f, outcome, m.GetError(), m.GetOutput()))
	c.ended = held
	return c, &belfryv1.Answer{Outcome: leaseOver}
}

// leaseResult is how an attempt under a lease ended.
func (s *State) leaseResult(f *flight, outcome belfryv1.Result_Outcome, why, output string) *belfryv1.Result {
	return &belfryv1.Result{
		ExecutionId: f.id, JobId: f.job.id, Attempt: f.attempt, Epoch: f.lease.epoch, Outcome: outcome, Error: why, Output: output,
		SentAt: f.lease.granted, FinishedAt: s.now, Node: s.cfg.Node,
	}
}

// giveUp takes an execution back from a worker that has not begun it, or lets
// another do it: the attempt keeps its number.
func (s *State) giveUp(m *belfryv1.Release) (*change, *belfryv1.Answer) {
	f := s.holder(m.GetExecutionId(), m.GetLease())
	if f == nil {
		if s.leases.of[heldAs{m.GetExecutionId(), m.GetLease()}] == leaseReleased {
			return nil, &belfryv1.Answer{Outcome: leaseOver}
		}
		return nil, s.leaseLost(m.GetExecutionId(), m.GetLease())
	}
	c := s.change(f.job)
	c.ended = s.leases.add(heldAs{f.id, f.lease.token()}, leaseReleased)
	c.publish(s.leaseEvent(f, "execution.released", ""))
	s.refund(f)
	f.lease = nil
	if f.attempt == 1 {
		f.firstSent = 0
	}
	if why := f.unwanted(); why != "" {
		s.end(c, f, ending{status: job.Cancelled, reason: why, finished: s.now})
		s.settleStatus(c, f.job)
	} else {
		f.commitWith(c)
	}
	return c.row(s.row(f.job, nil)), &belfryv1.Answer{Outcome: leaseOver}
}

// expireLease ends an attempt whose worker was not heard in time: it may have
// done the work.
func (s *State) expireLease(f *flight) {
	outcome, why := belfryv1.Result_OUTCOME_UNKNOWN, fmt.Sprintf("worker %s lost: its lease expired", strconv.Quote(f.lease.worker))
	if s.now >= f.attemptEnd() {
		outcome, why = belfryv1.Result_OUTCOME_TIMEOUT, fmt.Sprintf("worker %s did not complete it within the timeout", strconv.Quote(f.lease.worker))
	}
	event := s.leaseEvent(f, "execution.lease_expired", why)
	s.judge(f, s.leaseResult(f, outcome, why, "")).publish(event)
}

// leaseEnd is how a lease ended; as a text, what to tell whoever asks under it.
type leaseEnd string

const (
	leaseUnknown   leaseEnd = ""
	leaseSucceeded leaseEnd = "it was completed as succeeded"
	leaseFailed    leaseEnd = "it was completed as failed"
	leaseReleased  leaseEnd = "it was released"
	leaseCancelled leaseEnd = "its execution was cancelled"
)

// leasesKept is how many ends of leases an owner remembers.
const leasesKept = 512

// heldAs names a lease in a partition: what is asked of one execution under the
// lease of another is not a repeat of anything.
type heldAs struct{ execution, token string }

// leaseEnds remembers how the last leases ended.
type leaseEnds struct {
	of    map[heldAs]leaseEnd
	order []heldAs // the oldest first
}

// cancel notes that what a flight's lease was for is wanted no more, unless its
// worker has ended it itself.
func (l *leaseEnds) cancel(f *flight) {
	if h := (heldAs{f.id, f.lease.token()}); f.lease != nil && l.of[h] == leaseUnknown {
		l.add(h, leaseCancelled)
	}
}

// add notes how a lease ended.
func (l *leaseEnds) add(h heldAs, end leaseEnd) heldAs {
	l.of[h] = end
	l.order = append(l.order, h)
	if len(l.order) > leasesKept {
		delete(l.of, l.order[0])
		l.order = l.order[1:]
	}
	return h
}
