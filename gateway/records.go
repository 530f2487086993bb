package gateway

import (
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/listing"
)

// viewExecution is an execution as the API shows it.
func viewExecution(v *belfryv1.ExecutionView) api.Execution {
	e := api.Execution{
		ExecutionID: v.GetExecutionId(), JobID: v.GetJobId(), ScheduledFor: job.Instant(v.GetScheduledFor()),
		Status: v.GetStatus(), Reason: v.GetReason(), Trigger: v.GetTrigger(),
		AttemptCount: int(v.GetAttempts()), UnknownAttempts: int(v.GetUnknownAttempts()),
		Due: instant(v.GetDue()), SentAt: instant(v.GetSentAt()), FinishedAt: instant(v.GetFinishedAt()), NextAttemptAt: instant(v.GetNextAttemptAt()),
		Worker: v.GetWorker(), LeaseExpiresAt: instant(v.GetLeaseExpiresAt()),
		Error: v.GetLastError(), Generation: v.GetGeneration(), Revision: v.GetRevision(), AsOf: instant(v.GetAsOf()),
		ReplayOf: v.GetReplayOf(), ReplayedBy: v.GetReplayedBy(),
		BackfillID: v.GetBackfill(), IdempotencyKey: v.GetKey(),
	}
	if listing.Decided(v.GetStatus()) && v.GetDue() != 0 && v.GetSentAt() != 0 {
		late := v.GetSentAt() - v.GetDue()
		e.LatenessMS = &late
	}
	if r := v.GetRange(); r != nil {
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
	a.StatusCode, a.Node, a.Worker = int(rec.GetStatusCode()), rec.GetNode(), rec.GetWorker()
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

func decodeRecord(row *persistence.HistoryRow) (*belfryv1.Record, error) {
	rec := new(belfryv1.Record)
	return rec, proto.Unmarshal(row.Record, rec)
}
