package api

import "time"

// BackfillRequest is the body of backfill.
type BackfillRequest struct {
	From        *time.Time `json:"from" doc:"The first instant of the range: a slot at it is in. Not further back than history is kept."`
	To          *time.Time `json:"to,omitzero" doc:"The first instant after the range: a slot at it is not in. Default, and at most, now."`
	Overlap     string     `json:"overlap,omitzero" enum:"queue,allow" doc:"queue (default): one execution after another, oldest slot first; allow: several at once, whatever the job's own rule is. max_outstanding is not asked. A job whose overlap is not allow runs one or the other with queue: the backfill waits for what is live, and a live slot for the one that runs, and is neither skipped nor does it cancel that."`
	Concurrency *int       `json:"concurrency,omitzero" doc:"With overlap allow: how many executions may be unfinished at once, 2 to 20. Default 4."`
	NewKey      bool       `json:"new_key,omitzero" doc:"true: a second effect on purpose. Default: each execution is sent with the Idempotency-Key of its slot's own execution, so that a target which has seen that one does nothing."`
}

// The states of a backfill.
const (
	BackfillRunning   = "running"
	BackfillFinished  = "finished"
	BackfillCancelled = "cancelled"
)

// Backfill is a range of slots that runs again, and how far it is.
type Backfill struct {
	BackfillID  string      `json:"backfill_id,omitzero" doc:"Absent in the answer to validate_only."`
	JobID       string      `json:"job_id"`
	Status      string      `json:"status,omitzero" enum:"running,finished,cancelled"`
	Reason      string      `json:"reason,omitzero" doc:"Why it was cancelled."`
	From        time.Time   `json:"from"`
	To          time.Time   `json:"to"`
	Next        *time.Time  `json:"next,omitzero" doc:"The next slot to run; absent when all are on their way or done."`
	Total       int64       `json:"total" doc:"Slots of the range, by the schedule as it was when the backfill was asked for."`
	Done        int64       `json:"done" doc:"Slots that have ended: succeeded, failed or cancelled."`
	Succeeded   int64       `json:"succeeded"`
	Failed      int64       `json:"failed" doc:"Dead letters."`
	Cancelled   int64       `json:"cancelled" doc:"Slots that did not run."`
	Overlap     string      `json:"overlap"`
	Concurrency int         `json:"concurrency"`
	NewKey      bool        `json:"new_key,omitzero"`
	Revision    int64       `json:"revision,omitzero" doc:"The definition that it runs with: a later edit of the job does not touch it."`
	CreatedAt   *time.Time  `json:"created_at,omitzero"`
	EndedAt     *time.Time  `json:"ended_at,omitzero" doc:"When the last of it ended."`
	Slots       []time.Time `json:"slots,omitempty" doc:"In the answer to validate_only: the first 10 slots."`
}
