package gateway

import (
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// live is what a job's row says of executions that history does not have yet:
// those in flight, missed slots that still run, and slots of one fate whose
// record is written when the run of them ends.
func (g *Gateway) live(s *stored, now time.Time) []api.Execution {
	out := make([]api.Execution, 0, len(s.state.GetInFlight())+2)
	for _, f := range s.state.GetInFlight() {
		out = append(out, inFlight(s, f))
	}
	if r := g.openRange(s, now); r != nil {
		e := rangeOf(s, r.GetFirst(), r.GetLast(), r.GetCount())
		e.Status, e.Reason, e.Trigger = r.GetStatus(), r.GetReason(), "schedule"
		out = append(out, e)
	}
	if run := s.state.GetCatchUp(); run != nil {
		if count := g.countSlots(s, job.Instant(run.GetNext()-1), job.Instant(run.GetTo())).Count; count > 0 {
			e := rangeOf(s, run.GetNext(), run.GetTo(), count)
			e.Status, e.Reason, e.Trigger = string(job.Pending), "waits for its turn in the catch-up", "catch_up"
			out = append(out, e)
		}
	}
	return out
}

// openRange is the range of slots that are decided and not written: what the
// row says and, while the job is paused, the slots that have passed since.
func (g *Gateway) openRange(s *stored, now time.Time) *belfryv1.SlotRange {
	r := s.state.GetOpenRange()
	if r.GetCount() == 0 {
		r = nil
	}
	if s.row.Status != job.Paused {
		return r
	}
	since := job.Instant(s.state.GetCursor())
	if paused := job.Instant(s.state.GetStatusAt()); paused.After(since) {
		since = paused
	}
	m := g.countSlots(s, since, now)
	if m.Count == 0 {
		return r
	}
	passed := &belfryv1.SlotRange{
		First: m.First.UnixMilli(), Last: m.Last.UnixMilli(), Count: m.Count,
		Status: string(job.Skipped), Reason: "paused",
	}
	if r != nil && r.GetStatus() == passed.GetStatus() {
		passed.First, passed.Count, passed.Reason = r.GetFirst(), passed.Count+r.GetCount(), r.GetReason()
	}
	return passed
}

func (g *Gateway) countSlots(s *stored, after, through time.Time) job.MissedSlots {
	p, err := g.schedules.compile(messages.FromTiming(s.spec.GetTiming()))
	if err != nil || after.IsZero() {
		return job.MissedSlots{}
	}
	return p.schedule.Missed(after, through, 0)
}

// rangeOf is a list element for slots that share a fate: it stands where its
// last slot does.
func rangeOf(s *stored, first, last, count int64) api.Execution {
	e := api.Execution{
		ExecutionID:  job.ScheduledID(s.row.JobID, s.state.GetGeneration(), job.Instant(last)),
		JobID:        s.row.JobID,
		ScheduledFor: job.Instant(last), Generation: s.state.GetGeneration(), Revision: s.state.GetRevision(),
	}
	if count > 1 {
		e.Range = &api.Range{First: job.Instant(first), Last: job.Instant(last), Count: count}
	}
	return e
}
