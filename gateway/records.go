package gateway

import (
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// fromHistory is a summary as the API shows it.
func fromHistory(row *persistence.HistoryRow) api.Execution {
	e := api.Execution{ExecutionID: row.ExecutionID, JobID: row.JobID, ScheduledFor: job.Instant(row.ScheduledFor)}
	rec, err := decodeRecord(row)
	if err != nil {
		e.Status, e.Reason = "unreadable", err.Error()
		return e
	}
	e.Status, e.Reason, e.Trigger = rec.GetStatus(), rec.GetReason(), rec.GetTrigger()
	e.AttemptCount, e.UnknownAttempts = int(rec.GetAttempts()), int(rec.GetUnknownAttempts())
	e.Due, e.SentAt, e.FinishedAt = instant(rec.GetDue()), instant(rec.GetSentAt()), instant(rec.GetFinishedAt())
	if rec.GetDue() != 0 && rec.GetSentAt() != 0 {
		late := rec.GetSentAt() - rec.GetDue()
		e.LatenessMS = &late
	}
	e.Error, e.Generation, e.Revision = rec.GetError(), rec.GetGeneration(), rec.GetRevision()
	if r := rec.GetRange(); r.GetCount() > 1 {
		e.Range = viewRange(r)
	}
	return e
}

func viewRange(r *belfryv1.SlotRange) *api.Range {
	return &api.Range{First: job.Instant(r.GetFirst()), Last: job.Instant(r.GetLast()), Count: r.GetCount()}
}

func viewAttempt(row *persistence.HistoryRow) api.Attempt {
	a := api.Attempt{Attempt: int(row.Attempt), Epoch: row.Epoch}
	rec, err := decodeRecord(row)
	if err != nil {
		a.Outcome, a.Reason = "unreadable", err.Error()
		return a
	}
	a.Outcome, a.Reason, a.Error, a.Output = rec.GetStatus(), rec.GetReason(), rec.GetError(), rec.GetOutput()
	a.Due, a.SentAt, a.AnsweredAt = instant(rec.GetDue()), instant(rec.GetSentAt()), instant(rec.GetFinishedAt())
	a.StatusCode, a.Node = int(rec.GetStatusCode()), rec.GetNode()
	return a
}

// onlyAttempt is the attempt of an execution that had no other: its summary is
// its line as well. nil when attempts have lines of their own.
func onlyAttempt(row *persistence.HistoryRow) *api.Attempt {
	rec, err := decodeRecord(row)
	if err != nil || rec.GetOutcome() == "" {
		return nil
	}
	a := viewAttempt(row)
	a.Attempt, a.Outcome, a.Reason = 1, rec.GetOutcome(), ""
	return &a
}

// inFlight is an execution that is not decided, as its job's row has it. Only
// the owner knows whether it runs.
func inFlight(s *stored, f *belfryv1.InFlight) api.Execution {
	st := s.state
	e := api.Execution{
		ExecutionID:  messages.ExecutionID(s.row.JobID, st.GetGeneration(), f),
		JobID:        s.row.JobID,
		ScheduledFor: job.Instant(f.GetScheduledFor()),
		Status:       string(job.Pending), Trigger: trigger(f), Due: instant(f.GetDue()),
		AttemptCount: max(0, int(f.GetAttempt())-1), UnknownAttempts: int(f.GetUnknownAttempts()),
		NextAttemptAt: instant(f.GetRetryAt()), Error: f.GetLastError(),
		Generation: st.GetGeneration(), Revision: f.GetRevision(),
	}
	if ref, ok := job.ParseExecutionID(e.ExecutionID); ok {
		e.Generation = ref.Generation // of a job deleted and made again, not the present one
	}
	if f.GetAttempt() > 1 || f.GetRetryAt() > 0 {
		e.Status = string(job.Retrying)
	}
	return e
}

func trigger(f *belfryv1.InFlight) string {
	switch {
	case f.GetKind() == belfryv1.InFlight_KIND_MANUAL:
		return "manual"
	case f.GetCatchUp():
		return "catch_up"
	}
	return "schedule"
}

func decodeRecord(row *persistence.HistoryRow) (*belfryv1.Record, error) {
	rec := new(belfryv1.Record)
	return rec, proto.Unmarshal(row.Record, rec)
}
