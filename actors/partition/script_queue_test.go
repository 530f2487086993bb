package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// outside carries out what outside workers and brokers do in a script. A lease is
// called after its worker; "claim w as=old" calls it otherwise; "complete w of=ID"
// asks about another execution than the lease's.
func (s *script) outside(t *testing.T, d *datadriven.TestData) (string, bool) {
	switch d.Cmd {
	case "claim":
		return s.claim(t, d), true
	case "complete":
		return s.underLease(d, func(g *belfryv1.Grant) *belfryv1.Answer { return s.w.complete(g, !d.HasArg("failed")) }), true
	case "release":
		return s.underLease(d, s.w.release), true
	case "heartbeat":
		extend := mustDuration(t, arg(d, "extend", "0s")).Milliseconds()
		return s.underLease(d, func(g *belfryv1.Grant) *belfryv1.Answer { return s.w.heartbeat(g, extend) }), true
	case "hints":
		return s.hints(), true
	case "described":
		return s.described(d.CmdArgs[0].Key), true
	}
	return "", false
}

func (s *script) claim(t *testing.T, d *datadriven.TestData) string {
	worker := d.CmdArgs[0].Key
	answers := s.w.claim(&belfryv1.Claim{
		Queue: arg(d, "queue", "emails"), Worker: worker, Max: int32(mustInt(t, arg(d, "max", "1"))),
		LeaseMs: mustDuration(t, arg(d, "lease", "30s")).Milliseconds(),
	})
	if answers == nil {
		return "no answer yet"
	}
	if s.leases == nil {
		s.leases = map[string]*belfryv1.Grant{}
	}
	s.leases[arg(d, "as", worker)] = nil
	var b strings.Builder
	for _, a := range answers.GetAnswers() {
		g := a.GetGrant()
		s.leases[arg(d, "as", worker)] = g
		fmt.Fprintf(&b, "%s attempt %d/%d until %s: %s\n", mask(g.GetExecutionId()), g.GetAttempt(), g.GetMaxAttempts(), stamp(g.GetExpiresAt()), g.GetPayload())
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

func (s *script) underLease(d *datadriven.TestData, ask func(*belfryv1.Grant) *belfryv1.Answer) string {
	g := s.leases[d.CmdArgs[0].Key]
	if d.HasArg("of") {
		g = proto.CloneOf(g)
		g.ExecutionId = arg(d, "of", "")
	}
	return s.show(ask(g))
}

// hints prints what brokers were told since they were asked last.
func (s *script) hints() string {
	var b strings.Builder
	for _, h := range s.w.hints[s.hinted:] {
		fmt.Fprintf(&b, "%s: %d of %d jobs\n", h.GetQueue(), h.GetCount(), h.GetJobs())
	}
	s.hinted = len(s.w.hints)
	return b.String()
}

func (s *script) described(id string) string {
	d := s.w.describe(id)
	var b strings.Builder
	for _, r := range d.GetRunning() {
		fmt.Fprintf(&b, "%s attempt %d: worker %s until %s\n", mask(r.GetExecutionId()), r.GetAttempt(), r.GetWorker(), stamp(r.GetLeaseExpiresAt()))
	}
	return b.String() + d.GetWaiting()
}

// What outside workers ask of a world's owner.

func (w *world) claim(c *belfryv1.Claim) *belfryv1.Answers {
	w.nextRef++
	ref := w.nextRef
	w.step(Claimed{ref, c})
	a, _ := w.answers[ref].(*belfryv1.Answers)
	return a
}

func (w *world) complete(g *belfryv1.Grant, succeeded bool) *belfryv1.Answer {
	m := &belfryv1.Complete{ExecutionId: g.GetExecutionId(), Lease: g.GetLease(), Succeeded: succeeded}
	if !succeeded {
		m.Error = "exit status 1"
	}
	return w.ask(&belfryv1.Command{JobId: g.GetJobId(), Action: &belfryv1.Command_Complete{Complete: m}})
}

func (w *world) release(g *belfryv1.Grant) *belfryv1.Answer {
	return w.ask(&belfryv1.Command{JobId: g.GetJobId(), Action: &belfryv1.Command_Release{
		Release: &belfryv1.Release{ExecutionId: g.GetExecutionId(), Lease: g.GetLease()},
	}})
}

func (w *world) heartbeat(g *belfryv1.Grant, extend int64) *belfryv1.Answer {
	w.nextRef++
	ref := w.nextRef
	w.step(Extended{ref, &belfryv1.Heartbeat{JobId: g.GetJobId(), ExecutionId: g.GetExecutionId(), Lease: g.GetLease(), ExtendMs: extend}})
	a, _ := w.answers[ref].(*belfryv1.Answer)
	return a
}

func (w *world) describe(id string) *belfryv1.Description {
	w.nextRef++
	ref := w.nextRef
	w.step(Described{ref, id})
	d, _ := w.answers[ref].(*belfryv1.Description)
	return d
}
