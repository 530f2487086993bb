package gateway

import (
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// live is what a job's row says of executions that history does not have yet:
// those in flight, missed slots that still run, slots that wait for a place, and
// slots of one fate whose record is written when the run of them ends.
func (g *Gateway) live(s *stored, now time.Time) []api.Execution {
	out := make([]api.Execution, 0, len(s.state.GetInFlight())+2)
	for _, f := range s.state.GetInFlight() {
		out = append(out, inFlight(s, f))
	}
	for _, r := range g.openRanges(s, now) {
		e := rangeOf(s, r.GetFirst(), r.GetLast(), r.GetCount())
		e.Status, e.Reason, e.Trigger = r.GetStatus(), r.GetReason(), "schedule"
		out = append(out, e)
	}
	for _, run := range s.state.GetCatchUp() {
		out = g.pendingRange(out, s, job.Instant(run.GetNext()-1), job.Instant(run.GetTo()), "catch_up", "waits for its turn in the catch-up")
	}
	if s.state.GetBacklogSince() != 0 && s.row.Status == job.Active {
		out = g.pendingRange(out, s, job.Instant(s.state.GetCursor()), now, "schedule", "waits for an execution to end: max_outstanding is reached")
	}
	return out
}

// pendingRange adds the slots in (after, through], if any, as waiting ones.
func (g *Gateway) pendingRange(out []api.Execution, s *stored, after, through time.Time, trigger, reason string) []api.Execution {
	m := g.countSlots(s, after, through)
	if m.Count == 0 {
		return out
	}
	e := rangeOf(s, m.First.UnixMilli(), m.Last.UnixMilli(), m.Count)
	e.Status, e.Reason, e.Trigger = string(job.Pending), reason, trigger
	return append(out, e)
}

// openRanges are the ranges of slots that are decided and not written: what the
// row says and, while the job is paused, the slots that have passed since, as
// one when they have one fate.
func (g *Gateway) openRanges(s *stored, now time.Time) []*belfryv1.SlotRange {
	var out []*belfryv1.SlotRange
	r := s.state.GetOpenRange()
	if r.GetCount() > 0 {
		out = append(out, r)
	}
	if s.row.Status != job.Paused {
		return out
	}
	since := job.Instant(s.state.GetCursor())
	if paused := job.Instant(s.state.GetStatusAt()); paused.After(since) {
		since = paused
	}
	m := g.countSlots(s, since, now)
	if m.Count == 0 {
		return out
	}
	passed := &belfryv1.SlotRange{
		First: m.First.UnixMilli(), Last: m.Last.UnixMilli(), Count: m.Count,
		Status: string(job.Skipped), Reason: "paused",
	}
	if len(out) > 0 && r.GetStatus() == passed.GetStatus() && r.GetReason() == passed.GetReason() {
		passed.First, passed.Count = r.GetFirst(), passed.Count+r.GetCount()
		out = out[:0]
	}
	return append(out, passed)
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
