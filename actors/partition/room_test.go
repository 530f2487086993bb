package partition

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestStateIsBounded: whatever is asked of a job, with names and texts as long as
// they may be, its stored state keeps its bound (which is checked after each step),
// and everything that was accepted is recorded in the end.
func TestStateIsBounded(t *testing.T) {
	refused, full := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		l := newCrammedLife(t, r)
		for range 150 {
			l.something()
			full = max(full, len(encode(l.w.state.jobs[l.id].state())))
		}
		refused += l.refused
		l.end()
	})
	t.Logf("%d refusals, the largest state has %d bytes", refused, full)
	if refused == 0 || full < 8<<10 {
		t.Error("the bound was not reached")
	}
}

// crammedLife asks for as much of one job as it can.
type crammedLife struct {
	t        *testing.T
	r        *rapid.T
	w        *world
	id       string
	queue    bool
	n        int
	overlap  job.Overlap
	accepted []string // executions
	leases   map[string]string
	refused  int

	concurrency int32 // of backfills
}

func newCrammedLife(t *testing.T, r *rapid.T) *crammedLife {
	l := &crammedLife{t: t, r: r, w: newWorld(t), leases: map[string]string{}}
	for i := 0; l.id == "" || job.PartitionOf(l.id, 16) != l.w.cfg.Partition; i++ {
		l.id = fmt.Sprintf("%03d", i) + longText(125)
	}
	l.w.tell = func(c *belfryv1.Command) {
		l.w.pending = append(l.w.pending, func() { l.w.stepNow(Told{c.GetId(), done()}) })
	}
	l.w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result {
		if rapid.IntRange(0, 9).Draw(r, "outcome") > 0 {
			return nil
		}
		return &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_FAILED, Error: longText(500)}
	}
	l.overlap = rapid.SampledFrom(simOverlaps).Draw(r, "overlap")
	if l.concurrency = 1; l.overlap == job.OverlapAllow {
		l.concurrency = 10
	}
	l.queue = rapid.Bool().Draw(r, "queue")
	l.register(rapid.SampledFrom([]string{"* * * * *", "after"}).Draw(r, "schedule"))
	return l
}

func (l *crammedLife) register(expr string) {
	edit := func(j *job.Spec) {
		if j.OverlapQueue = 98; expr == "after" {
			j.Schedule.Expr, j.DependsOn = "", []string{longText(120) + "~", "b"}
		}
		j.Overlap = l.overlap
		j.CatchUp.Policy, j.CatchUp.Max = job.CatchUpAll, 1000
		j.Retry.MaxAttempts, j.Retry.MaxElapsed = 4, 30*24*time.Hour
		if l.queue {
			j.Target = job.Target{Queue: &job.QueueTarget{Name: "emails"}}
		}
	}
	l.w.register(l.id, expr, edit)
}

func (l *crammedLife) do(c *belfryv1.Command) *belfryv1.Answer {
	c.JobId = l.id
	a := l.w.ask(c)
	if a.GetRefusal().GetCode() == belfryv1.Refusal_CODE_BUSY {
		l.refused++
	}
	if x := a.GetExecution().GetExecutionId(); x != "" {
		l.accepted = append(l.accepted, x)
	}
	return a
}

func (l *crammedLife) something() {
	l.n++
	switch rapid.IntRange(0, 11).Draw(l.r, "what") {
	case 0, 1, 2:
		l.do(&belfryv1.Command{Action: &belfryv1.Command_Trigger{Trigger: &belfryv1.Trigger{}}})
	case 3, 4:
		l.notify()
	case 5:
		l.do(&belfryv1.Command{Action: &belfryv1.Command_Backfill{Backfill: &belfryv1.AskBackfill{From: l.w.now.Add(-time.Hour).UnixMilli(), Concurrency: l.concurrency}}})
	case 6:
		if f := l.flight(); f != nil {
			l.do(&belfryv1.Command{Action: &belfryv1.Command_Cancel{Cancel: &belfryv1.Cancel{ExecutionId: f.id, Reason: longText(280)}}})
		}
	case 7:
		for _, a := range l.w.claim(&belfryv1.Claim{Queue: "emails", Worker: longText(128), Max: 20, LeaseMs: 1000}).GetAnswers() {
			if g := a.GetGrant(); g != nil {
				l.leases[g.GetExecutionId()] = g.GetLease()
			}
		}
	case 8:
		if dead := l.w.dead(l.id); len(dead) > 0 {
			l.do(&belfryv1.Command{Action: &belfryv1.Command_Replay{Replay: &belfryv1.ReplayDead{ExecutionId: rapid.SampledFrom(dead).Draw(l.r, "dead"), SameKey: true}}})
		}
	case 9:
		l.w.crash()
		l.w.now = l.w.now.Add(time.Duration(rapid.IntRange(0, 600).Draw(l.r, "away")) * time.Second)
		l.w.boot()
	case 10:
		if rapid.IntRange(0, 9).Draw(l.r, "anew") == 0 {
			l.do(&belfryv1.Command{Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}})
			l.register("* * * * *")
		}
	default:
		l.w.advance(time.Duration(rapid.IntRange(0, 90).Draw(l.r, "wait")) * time.Second)
	}
}

// notify tells that a run has succeeded upstream, whose names are as long as can be.
func (l *crammedLife) notify() {
	j := l.w.state.jobs[l.id]
	run := &belfryv1.Run{Id: fmt.Sprintf("%03d", l.n) + longText(197), Root: longText(128), Instant: l.w.now.UnixMilli()}
	for _, u := range j.upstreams() {
		o := &belfryv1.Outcome{N: int64(1000 + l.n), Run: run, Status: string(job.Succeeded)}
		l.do(&belfryv1.Command{Action: &belfryv1.Command_Notify{Notify: &belfryv1.Notify{Upstream: u, Edge: j.ups()[u].GetEdge(), Outcomes: []*belfryv1.Outcome{o}}}})
	}
}

func (l *crammedLife) flight() *flight {
	all := l.w.state.jobs[l.id].flights()
	if len(all) == 0 {
		return nil
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(l.r, "flight")]
}

// end lets everything come to its end, and looks for what was accepted.
func (l *crammedLife) end() {
	l.w.fate.outcome, l.w.sparse = nil, true
	l.do(&belfryv1.Command{Action: &belfryv1.Command_Pause{Pause: &belfryv1.Pause{}}})
	l.w.crash() // what hangs is sent again
	l.w.boot()
	for i := 0; i < 2000 && (len(l.w.state.jobs[l.id].flights()) > 0 || l.w.state.jobs[l.id].hasExtra()); i++ {
		for _, a := range l.w.claim(&belfryv1.Claim{Queue: "emails", Worker: "w", Max: 20, LeaseMs: 60_000}).GetAnswers() {
			if g := a.GetGrant(); g != nil {
				l.w.ask(&belfryv1.Command{JobId: l.id, Action: &belfryv1.Command_Complete{Complete: &belfryv1.Complete{ExecutionId: g.GetExecutionId(), Lease: g.GetLease(), Succeeded: true}}})
			}
		}
		l.w.advance(time.Minute)
	}
	ended := map[string]bool{}
	for _, x := range l.w.lines(l.id) {
		if x.status == "in flight" {
			l.t.Fatalf("%s does not end", x.id)
		}
		ended[x.id] = true
	}
	for _, x := range l.accepted {
		if !ended[x] {
			l.t.Fatalf("%s was accepted, and is not recorded", x)
		}
	}
}
