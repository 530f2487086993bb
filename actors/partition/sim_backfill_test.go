package partition

import (
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// fill is a backfill that was acknowledged, as the simulations know it.
type fill struct {
	id, job   string
	gen       int64
	spec      *belfryv1.JobSpec // of its job when it was asked for
	b         *belfryv1.Backfill
	cancelled bool // perhaps
}

// backfillRandom asks for a range of up to forty slots.
func (w *world) backfillRandom(id string, r *rand.Rand, ask func(*belfryv1.Command) *belfryv1.Answer) []*fill {
	j := w.state.jobs[id]
	if j == nil {
		return nil
	}
	sp, err := j.decodeSpec()
	if err != nil {
		return nil
	}
	to := w.now.Add(-time.Duration(r.IntN(3600)) * time.Second)
	step := time.Minute
	if e := sp.GetTiming().GetExpr(); e == "@every 7s" || e == "@every 1s" {
		step = time.Second
	}
	most := 4
	if solitary(sp) { // more than one would be apart from what the simulations check of overlap
		most = 2
	}
	a := ask(&belfryv1.Command{JobId: id, Action: &belfryv1.Command_Backfill{Backfill: &belfryv1.AskBackfill{
		From: to.Add(-time.Duration(1+r.IntN(40)) * step).UnixMilli(), To: to.UnixMilli(), Concurrency: int32(r.IntN(most)), NewKey: r.IntN(4) == 0,
	}}})
	if b := a.GetBackfill(); b != nil {
		return []*fill{{id: b.GetId(), job: id, gen: j.gen, spec: sp, b: b}}
	}
	return nil
}

// cancelRandom cancels one of the backfills that were asked for.
func (s *sim) cancelRandom() {
	if len(s.fills) == 0 {
		return
	}
	f := s.fills[s.r.IntN(len(s.fills))]
	f.cancelled = true
	s.ask(&belfryv1.Command{JobId: f.job, Action: &belfryv1.Command_CancelBackfill{CancelBackfill: &belfryv1.CancelBackfill{Id: f.id}}})
}

// verifyBackfills: every slot of a backfill, and none besides, was run once, and
// the backfill has ended and says so. Of one that was cancelled, or whose job was
// deleted, no slot was run twice.
func (w *world) verifyBackfills(fills []*fill) {
	ran := map[string]map[int64]map[string]bool{} // backfill, slot, execution
	for _, h := range w.store.history {
		r := new(belfryv1.Record)
		if err := proto.Unmarshal(h.Record, r); err != nil {
			w.t.Fatal(err)
		}
		ref, ok := job.ParseExecutionID(h.ExecutionID)
		switch {
		case h.Attempt != 0 || !ok || ref.Kind != job.Backfilled:
			continue
		case r.GetBackfill() == "" && w.state.jobs[ref.JobID].gen != ref.Generation:
			continue // its backfill went with the registration
		case r.GetBackfill() == "" || r.GetTrigger() != "backfill":
			w.t.Fatalf("%s is recorded without its backfill: %v", h.ExecutionID, r)
		}
		if ran[r.GetBackfill()] == nil {
			ran[r.GetBackfill()] = map[int64]map[string]bool{}
		}
		slot := ran[r.GetBackfill()]
		if slot[h.ScheduledFor] == nil {
			slot[h.ScheduledFor] = map[string]bool{}
		}
		slot[h.ScheduledFor][h.ExecutionID] = true
	}
	for _, f := range fills {
		w.verifyBackfill(f, ran[f.id])
	}
}

func (w *world) verifyBackfill(f *fill, ran map[int64]map[string]bool) {
	for slot, ids := range ran {
		if len(ids) != 1 {
			w.t.Fatalf("backfill %s ran the slot %s as %v", f.id, stamp(slot), ids)
		}
	}
	sp := proto.Clone(f.spec).(*belfryv1.JobSpec)
	sp.MaxRuns = 0 // it counts from the registration on: only where it ends matters here
	want := slots(w.t, sp, job.Instant(f.b.GetFrom()-1), job.Instant(min(f.b.GetTo()-1, f.b.GetLast())))
	if int64(len(want)) != f.b.GetTotal() {
		w.t.Fatalf("backfill %s has %d slots, and says %d", f.id, len(want), f.b.GetTotal())
	}
	j := w.state.jobs[f.job]
	if f.cancelled || j == nil || j.gen != f.gen || j.status == job.Deleted {
		return
	}
	if b := j.backfill(f.id); b != nil && !ended(b) && f.spec.GetTarget().GetQueue() != nil && f.spec.GetRateLimit() != nil {
		return // outside workers have come to an end before its tokens have
	}
	if b := j.backfill(f.id); b != nil && !ended(b) && solitary(f.spec) {
		return // it waits behind what is live, and there has been no gap
	}
	if b := j.backfill(f.id); b != nil && !ended(b) && w.usedUp(j, f.spec.GetRateLimit()) {
		return
	}
	if b := j.backfill(f.id); b != nil && b.GetCancelled() > 0 {
		if !ended(b) || b.GetSucceeded()+b.GetFailed()+b.GetCancelled() != b.GetTotal() {
			w.t.Fatalf("backfill %s has not ended: %v", f.id, b)
		}
		return // some were cancelled one by one, or replaced by live slots
	}
	for _, at := range want {
		if len(ran[at.UnixMilli()]) != 1 {
			w.t.Fatalf("backfill %s of %s did not run the slot %s", f.id, f.job, at)
		}
	}
	if len(ran) != len(want) {
		w.t.Fatalf("backfill %s ran %d slots, and has %d", f.id, len(ran), len(want))
	}
	if b := j.backfill(f.id); b != nil && (!ended(b) || b.GetSucceeded()+b.GetFailed() != b.GetTotal()) {
		w.t.Fatalf("backfill %s has not ended: %v", f.id, b)
	}
}

// usedUp tells that a job's live slots, which go first, leave nothing of the rate
// limit that it has, or that it had when a backfill was asked for.
func (w *world) usedUp(j *jobRec, had *belfryv1.RateLimit) bool {
	sp, err := j.decodeSpec()
	if err != nil {
		return false
	}
	schedule := timingOf(w.t, sp)
	first, _ := schedule.Next(w.now)
	second, ok := schedule.Next(first)
	uses := func(limit *belfryv1.RateLimit) bool {
		return limit != nil && second.Sub(first).Seconds()*limit.GetPerSecond() <= 1
	}
	return ok && (uses(had) || uses(sp.GetRateLimit()))
}

// askBackfill asks the owner, if there is one that knows the job, and waits for
// the answer for a while: one that comes later is of nobody's.
func (s *fleetSim) askBackfill(id string) {
	o := s.owner()
	if o == nil || o.state == nil {
		return
	}
	w := &world{t: s.t, state: o.state, now: s.now}
	s.fills = append(s.fills, w.backfillRandom(id, s.r, func(c *belfryv1.Command) *belfryv1.Answer {
		ref := s.ask(o, c)
		s.run(300 * time.Millisecond)
		return s.answers[ref]
	})...)
}
