package listing

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// FromHistory is a summary of history. One that cannot be read says so.
func FromHistory(row *persistence.HistoryRow) *belfryv1.ExecutionView {
	e := &belfryv1.ExecutionView{ExecutionId: row.ExecutionID, JobId: row.JobID, ScheduledFor: row.ScheduledFor}
	rec := new(belfryv1.Record)
	if err := proto.Unmarshal(row.Record, rec); err != nil {
		e.Status, e.Reason = "unreadable", err.Error()
		return e
	}
	e.Status, e.Reason, e.Trigger = rec.GetStatus(), rec.GetReason(), rec.GetTrigger()
	e.Attempts, e.UnknownAttempts = rec.GetAttempts(), rec.GetUnknownAttempts()
	e.Due, e.SentAt, e.FinishedAt = rec.GetDue(), rec.GetSentAt(), rec.GetFinishedAt()
	e.Worker = rec.GetWorker()
	e.LastError, e.Generation, e.Revision = rec.GetError(), rec.GetGeneration(), rec.GetRevision()
	e.ReplayOf, e.ReplayedBy = rec.GetReplayOf(), rec.GetReplayedBy()
	e.Backfill, e.Key = rec.GetBackfill(), rec.GetKey()
	if rec.GetRange().GetCount() > 1 {
		e.Range = rec.GetRange()
	}
	return e
}

// Live is what a job's row says of executions that history does not have yet:
// those in flight, missed slots that still run, slots that wait for a place, and
// slots of one fate whose record is written when the run of them ends.
func (r Reader) Live(j *Job, now time.Time) []*belfryv1.ExecutionView {
	out := make([]*belfryv1.ExecutionView, 0, len(j.State.GetInFlight())+2)
	for _, f := range j.State.GetInFlight() {
		out = append(out, inFlight(j, f, now))
	}
	for _, open := range r.openRanges(j, now) {
		out = append(out, rangeOf(j, open, "schedule"))
	}
	for _, run := range j.State.GetCatchUp() {
		out = r.pending(out, j, job.Instant(run.GetNext()-1), job.Instant(run.GetTo()), "catch_up", "waits for its turn in the catch-up")
	}
	if j.State.GetBacklogSince() != 0 && j.Status == job.Active {
		out = r.pending(out, j, job.Instant(j.State.GetCursor()), now, "schedule", "waits for an execution to end: max_outstanding is reached")
	}
	return out
}

// inFlight is an execution that is not decided, as its job's row has it. Only
// the owner knows whether it runs.
func inFlight(j *Job, f *belfryv1.InFlight, now time.Time) *belfryv1.ExecutionView {
	e := &belfryv1.ExecutionView{
		ExecutionId: messages.ExecutionID(j.ID, j.State.GetGeneration(), f), JobId: j.ID, ScheduledFor: f.GetScheduledFor(),
		Status: string(job.Pending), Trigger: trigger(f), Due: f.GetDue(),
		Attempts: max(0, f.GetAttempt()-1), UnknownAttempts: f.GetUnknownAttempts(),
		NextAttemptAt: f.GetRetryAt(), LastError: f.GetLastError(),
		Generation: j.State.GetGeneration(), Revision: f.GetRevision(),
	}
	if ref, ok := job.ParseExecutionID(e.GetExecutionId()); ok {
		e.Generation = ref.Generation // of a job deleted and made again, not the present one
	}
	e.ReplayOf, e.Key = f.GetReplay().GetOf(), f.GetReplay().GetKey()
	if f.GetAttempt() > 1 || f.GetRetryAt() > 0 {
		e.Status = string(job.Retrying)
	}
	if f.GetKind() == belfryv1.InFlight_KIND_BACKFILL {
		addBackfill(e, j, f)
	}
	if l := f.GetLease(); l != nil {
		e.Status, e.Attempts, e.NextAttemptAt = string(job.Running), f.GetAttempt(), 0
		e.SentAt, e.Worker = l.GetGrantedAt(), l.GetWorker()
	}
	switch {
	case f.GetCancel() != "":
		e.Reason = "is being cancelled: " + f.GetCancel()
	case j.Spec.GetOverlap() != belfryv1.Overlap_OVERLAP_ALLOW && f.GetAttempt() <= 1 && len(f.GetEpochs()) == 0 && f.GetDue() <= now.UnixMilli(): // it was not let in
		e.Reason = "waits for another execution of the job to end: overlap"
	}
	return e
}

// addBackfill says which backfill an execution is of, and the key that it shares
// with the slot's own.
func addBackfill(e *belfryv1.ExecutionView, j *Job, f *belfryv1.InFlight) {
	for _, b := range j.State.GetBackfills() {
		if b.GetNumber() == f.GetBackfill() {
			e.Backfill = b.GetId()
		}
	}
	if !f.GetNewKey() {
		e.Key = job.ScheduledID(j.ID, e.GetGeneration(), job.Instant(f.GetScheduledFor()))
	}
}

func trigger(f *belfryv1.InFlight) string {
	switch {
	case f.GetKind() == belfryv1.InFlight_KIND_MANUAL:
		return "manual"
	case f.GetKind() == belfryv1.InFlight_KIND_REPLAY:
		return "replay"
	case f.GetKind() == belfryv1.InFlight_KIND_BACKFILL:
		return "backfill"
	case f.GetCatchUp():
		return "catch_up"
	}
	return "schedule"
}

// pending adds the slots in (after, through], if any, as waiting ones.
func (r Reader) pending(out []*belfryv1.ExecutionView, j *Job, after, through time.Time, trigger, reason string) []*belfryv1.ExecutionView {
	m := r.count(j, after, through)
	if m.Count == 0 {
		return out
	}
	slots := &belfryv1.SlotRange{First: m.First.UnixMilli(), Last: m.Last.UnixMilli(), Count: m.Count, Status: string(job.Pending), Reason: reason}
	return append(out, rangeOf(j, slots, trigger))
}

// openRanges are the ranges of slots that are decided and not written: what the
// row says and, while the job is paused, the slots that have passed since, as
// one when they have one fate.
func (r Reader) openRanges(j *Job, now time.Time) []*belfryv1.SlotRange {
	var out []*belfryv1.SlotRange
	open := j.State.GetOpenRange()
	if open.GetCount() > 0 {
		out = append(out, open)
	}
	if j.Status != job.Paused {
		return out
	}
	since := job.Instant(j.State.GetCursor())
	if paused := job.Instant(j.State.GetStatusAt()); paused.After(since) {
		since = paused
	}
	m := r.count(j, since, now)
	if m.Count == 0 {
		return out
	}
	passed := &belfryv1.SlotRange{
		First: m.First.UnixMilli(), Last: m.Last.UnixMilli(), Count: m.Count,
		Status: string(job.Skipped), Reason: "paused",
	}
	if len(out) > 0 && open.GetStatus() == passed.GetStatus() && open.GetReason() == passed.GetReason() {
		passed.First, passed.Count = open.GetFirst(), passed.Count+open.GetCount()
		out = out[:0]
	}
	return append(out, passed)
}

func (r Reader) count(j *Job, after, through time.Time) job.MissedSlots {
	schedule, err := r.Compile(messages.TimingOf(j.ID, j.Spec))
	if err != nil || after.IsZero() {
		return job.MissedSlots{}
	}
	return messages.Given(schedule, j.State).Missed(after, through, 0)
}

// rangeOf is a list element for slots that share a fate: it stands where its
// last slot does.
func rangeOf(j *Job, slots *belfryv1.SlotRange, trigger string) *belfryv1.ExecutionView {
	e := &belfryv1.ExecutionView{
		ExecutionId: job.ScheduledID(j.ID, j.State.GetGeneration(), job.Instant(slots.GetLast())), JobId: j.ID, ScheduledFor: slots.GetLast(),
		Status: slots.GetStatus(), Reason: slots.GetReason(), Trigger: trigger,
		Generation: j.State.GetGeneration(), Revision: j.State.GetRevision(),
	}
	if slots.GetCount() > 1 {
		e.Range = slots
	}
	return e
}
