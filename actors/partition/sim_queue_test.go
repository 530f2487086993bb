package partition

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// outsiders are the outside workers of a simulation: they claim, die with what
// they have, come back with old leases, and lose answers with the owner. It is
// judged by what they were told, C13: tokens grow, two never hold an execution,
// one completion of it at most is accepted, and none under a token that a later
// one has replaced.
type outsiders struct {
	asked   []outsideAsk
	holds   []*hold1            // all that were ever granted, oldest first
	newest  map[string]*hold1   // by execution
	success map[string]string   // under which token an execution was completed as succeeded
	ended   map[string]leaseEnd // how, by token, as the owner has accepted
}

// outsideAsk is a request whose answer may come.
type outsideAsk struct {
	ref  Ref
	hold *hold1        // nil: a claim
	end  leaseEnd      // that it asks for; leaseUnknown: a heartbeat
	back time.Duration // sim.back by then: times in the answer are by the clock as it was
	at   time.Time
}

// hold1 is an execution as its worker holds it.
type hold1 struct {
	*belfryv1.Grant
	until time.Time // as far as it was told
	over  bool      // it asked for the end, or was told of it

	at, answered time.Time // when it was granted, and when its end was asked for, once that is accepted
	status       int       // of that, as if a target had answered
	released     bool      // perhaps: it asked for that
}

var simQueues = []string{"q1", "q2"}

// outside does one random thing of an outside worker.
func (s *sim) outside() {
	o := &s.out
	if n := len(o.holds); n > 0 && s.r.IntN(3) > 0 {
		h := o.holds[max(0, n-1-s.r.IntN(6))]
		switch s.r.IntN(6) {
		case 0:
			s.underLease(h, leaseReleased)
		case 1:
			s.underLease(h, leaseFailed)
		case 2, 3:
			s.underLease(h, leaseSucceeded)
		default:
			s.underLease(h, leaseUnknown)
		}
		return
	}
	s.claimSome(1+s.r.IntN(3), time.Duration(1+s.r.IntN(60))*time.Second)
}

func (s *sim) claimSome(most int, lease time.Duration) {
	s.nextRef++
	s.out.asked = append(s.out.asked, outsideAsk{ref: s.nextRef, back: s.back, at: s.now})
	s.step(Claimed{s.nextRef, &belfryv1.Claim{
		Queue: simQueues[s.r.IntN(2)], Worker: fmt.Sprint("w", s.r.IntN(3)), Max: int32(most), LeaseMs: lease.Milliseconds(),
	}})
	s.hear()
}

// underLease asks for the end of a lease, or for more of it.
func (s *sim) underLease(h *hold1, end leaseEnd) {
	s.nextRef++
	s.out.asked = append(s.out.asked, outsideAsk{s.nextRef, h, end, s.back, s.now})
	h.over = h.over || end != leaseUnknown
	h.released = h.released || end == leaseReleased
	cmd := &belfryv1.Command{Id: fmt.Sprint("c", s.nextRef), JobId: h.GetJobId()}
	switch end {
	case leaseUnknown:
		s.step(Extended{s.nextRef, &belfryv1.Heartbeat{
			JobId: h.GetJobId(), ExecutionId: h.GetExecutionId(), Lease: h.GetLease(), ExtendMs: s.r.Int64N(3) * s.r.Int64N(60_000),
		}})
		s.hear()
		return
	case leaseReleased:
		cmd.Action = &belfryv1.Command_Release{Release: &belfryv1.Release{ExecutionId: h.GetExecutionId(), Lease: h.GetLease()}}
	default:
		cmd.Action = &belfryv1.Command_Complete{Complete: &belfryv1.Complete{
			ExecutionId: h.GetExecutionId(), Lease: h.GetLease(), Succeeded: end == leaseSucceeded, Error: string(end),
		}}
	}
	s.step(Asked{Ref: s.nextRef, Commands: []*belfryv1.Command{cmd}, Single: true})
	s.hear()
}

// hear takes the answers that have come.
func (s *sim) hear() {
	left := s.out.asked[:0]
	for _, a := range s.out.asked {
		switch answer := s.answers[a.ref].(type) {
		case *belfryv1.Answers:
			for _, one := range answer.GetAnswers() {
				if g := one.GetGrant(); g != nil {
					s.granted(g, s.back-a.back)
				}
			}
		case *belfryv1.Answer:
			s.heard(a, answer)
		default:
			left = append(left, a)
		}
	}
	s.out.asked = left
}

// granted: nobody else holds it, and the token is higher than all before. The
// clock went back since it was asked for.
func (s *sim) granted(g *belfryv1.Grant, back time.Duration) {
	o := &s.out
	h := &hold1{Grant: g, at: time.UnixMilli(g.GetExpiresAt() - g.GetLeaseMs()), until: time.UnixMilli(g.GetExpiresAt()).Add(-back)}
	if last := o.newest[g.GetExecutionId()]; last != nil {
		if !last.over && s.now.Before(last.until) {
			s.t.Fatalf("%s is granted to %v at %v, and %v has it until %v", g.GetExecutionId(), g.GetLease(), s.now, last.GetLease(), last.until)
		}
		if g.GetAttempt() < last.GetAttempt() || !lessToken(last.GetLease(), g.GetLease()) {
			s.t.Fatalf("%s: attempt %d under %s follows attempt %d under %s", g.GetExecutionId(), g.GetAttempt(), g.GetLease(), last.GetAttempt(), last.GetLease())
		}
	}
	if under, done := o.success[g.GetExecutionId()]; done {
		s.t.Fatalf("%s is granted again, and has succeeded under %s", g.GetExecutionId(), under)
	}
	o.newest[g.GetExecutionId()] = h
	o.holds = append(o.holds, h)
}

func lessToken(a, b string) bool {
	var ae, an, be, bn string
	ae, an, _ = strings.Cut(a, "-")
	be, bn, _ = strings.Cut(b, "-")
	return less36(ae, be) || ae == be && less36(an, bn)
}

// less36 compares numbers as they are written in base 36.
func less36(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// heard judges the answer to a request under a lease.
func (s *sim) heard(a outsideAsk, answer *belfryv1.Answer) {
	o, id := &s.out, a.hold.GetExecutionId()
	switch {
	case answer.GetRefusal() != nil:
		if code := answer.GetRefusal().GetCode(); code == belfryv1.Refusal_CODE_LEASE_LOST || code == belfryv1.Refusal_CODE_CANCELLED {
			a.hold.over = true
		}
	case a.end == leaseUnknown:
		if o.newest[id] != a.hold {
			s.t.Fatalf("%s: %s is extended, and %s was granted since", id, a.hold.GetLease(), o.newest[id].GetLease())
		}
		a.hold.until = time.UnixMilli(answer.GetLeaseHeld().GetExpiresAt()).Add(a.back - s.back)
	case o.ended[a.hold.GetLease()] != leaseUnknown && o.ended[a.hold.GetLease()] != a.end:
		s.t.Fatalf("%s: %q is accepted under %s, and before %q", id, a.end, a.hold.GetLease(), o.ended[a.hold.GetLease()])
	case a.end == leaseSucceeded && o.success[id] != "" && o.success[id] != a.hold.GetLease():
		s.t.Fatalf("%s succeeds under %s and under %s", id, o.success[id], a.hold.GetLease())
	default:
		o.ended[a.hold.GetLease()] = a.end
		if a.hold.answered.IsZero() {
			a.hold.answered = a.at
			if a.at.After(a.hold.until) {
				a.hold.answered = a.hold.until // nobody waited for it any more
			}
		}
		a.hold.status = map[leaseEnd]int{leaseSucceeded: 200, leaseFailed: 500}[a.end]
		if a.end == leaseSucceeded {
			o.success[id] = a.hold.GetLease()
		}
	}
}

// finishOutside has one more worker do all that waits.
func (s *sim) finishOutside() {
	s.advance(2 * time.Minute) // past every lease and every pause
	for range 200 {
		before := len(s.out.holds)
		for range 8 {
			s.claimSome(20, time.Minute)
		}
		for _, h := range s.out.holds[before:] {
			s.underLease(h, leaseSucceeded)
		}
		if len(s.out.holds) == before {
			return
		}
	}
	s.t.Fatal("outside workers never come to an end")
}

// verifyOutside: each accepted completion has its line in the history, under its
// lease, and a lease has one line at most.
func (s *sim) verifyOutside() {
	completed := s.completed()
	for token, end := range s.out.ended {
		want := map[leaseEnd]string{leaseSucceeded: string(job.AttemptSucceeded), leaseFailed: string(job.AttemptFailed), leaseReleased: ""}[end]
		if completed[token] != want {
			s.t.Fatalf("under %s %q was accepted, and the history has %q", token, end, completed[token])
		}
	}
}

// completed is how the attempt of each lease has ended, as the history has it.
func (s *sim) completed() map[string]string {
	outcomes := map[string]string{}
	for _, h := range s.store.newest() {
		r := new(belfryv1.Record)
		if err := proto.Unmarshal(h.Record, r); err != nil {
			s.t.Fatal(err)
		}
		if r.GetLease() == "" || h.Attempt == 0 && r.GetOutcome() == "" {
			continue
		}
		outcome := r.GetStatus()
		if h.Attempt == 0 {
			outcome = r.GetOutcome()
		}
		if was := outcomes[r.GetLease()]; was != "" && was != outcome {
			s.t.Fatalf("%s under %s is recorded as %s and as %s", h.ExecutionID, r.GetLease(), was, outcome)
		}
		outcomes[r.GetLease()] = outcome
	}
	return outcomes
}
