package api

import "time"

// Execution is the record of one occurrence, or with Range of several
// consecutive ones with one fate. Lists are newest first, by scheduled_for,
// then by execution_id.
type Execution struct {
	ExecutionID     string     `json:"execution_id"`
	JobID           string     `json:"job_id"`
	ScheduledFor    time.Time  `json:"scheduled_for" doc:"The nominal instant, UTC."`
	Status          string     `json:"status" enum:"pending,running,retrying,succeeded,failed,skipped,missed,cancelled"`
	Reason          string     `json:"reason,omitzero"`
	Trigger         string     `json:"trigger,omitzero" doc:"Why it exists: schedule, manual, catch_up or backfill."`
	BackfillID      string     `json:"backfill_id,omitzero" doc:"The backfill that it belongs to."`
	IdempotencyKey  string     `json:"idempotency_key,omitzero" doc:"What the target is sent as Idempotency-Key, where that is not execution_id: a backfill keeps the slot's own."`
	AttemptCount    int        `json:"attempt_count" doc:"How many attempts were begun."`
	UnknownAttempts int        `json:"unknown_attempts,omitzero" doc:"How many of them ended without an answer: the target may have done the work."`
	Due             *time.Time `json:"due,omitzero" doc:"When it might be sent first."`
	SentAt          *time.Time `json:"sent_at,omitzero" doc:"When its first attempt was sent; of a running one, when the running attempt was."`
	FinishedAt      *time.Time `json:"finished_at,omitzero"`
	NextAttemptAt   *time.Time `json:"next_attempt_at,omitzero"`
	LatenessMS      *int64     `json:"lateness_ms,omitzero" doc:"First sent minus due."`
	Error           string     `json:"error,omitzero" doc:"Of the last failed attempt."`
	Generation      int64      `json:"generation,omitzero"`
	Revision        int64      `json:"revision,omitzero" doc:"The definition that it was armed with."`
	Worker          string     `json:"worker,omitzero" doc:"The outside worker that has claimed it, or did last."`
	LeaseExpiresAt  *time.Time `json:"lease_expires_at,omitzero" doc:"When the claim ends unless it is extended."`
	ReplayOf        string     `json:"replay_of,omitzero" doc:"The dead letter that it repeats, with its key unless it was asked for a new one."`
	ReplayedBy      string     `json:"replayed_by,omitzero" doc:"The newest replay of it."`
	Range           *Range     `json:"range,omitzero" doc:"This element stands for several slots."`
	AsOf            *time.Time `json:"as_of,omitzero" doc:"The owner could not be asked: this is what was stored by this instant."`
}

// Range is a run of consecutive slots.
type Range struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int64     `json:"count"`
}

// ExecutionDetail is an execution with its attempts, oldest first.
type ExecutionDetail struct {
	Execution
	Attempts []Attempt `json:"attempts"`
}

// CancelRequest is the body of cancel; it may be absent.
type CancelRequest struct {
	Reason string `json:"reason,omitzero" doc:"For the record; at most 200 bytes."`
}

// Cancelled is the answer to a cancel.
type Cancelled struct {
	ExecutionID string `json:"execution_id"`
	JobID       string `json:"job_id"`
	Status      string `json:"status" enum:"cancelled,running" doc:"running: its worker is told to end the attempt, which is its last. If the target had answered with success by then, the execution has succeeded."`
}

// Attempt is one delivery.
type Attempt struct {
	Attempt    int        `json:"attempt" doc:"1, 2, … without holes."`
	Outcome    string     `json:"outcome" enum:"running,succeeded,failed,timeout,unknown"`
	Due        *time.Time `json:"due,omitzero"`
	SentAt     *time.Time `json:"sent_at,omitzero"`
	AnsweredAt *time.Time `json:"answered_at,omitzero"`
	StatusCode int        `json:"status_code,omitzero"`
	Error      string     `json:"error,omitzero"`
	Reason     string     `json:"reason,omitzero"`
	Output     string     `json:"output,omitzero" doc:"The first bytes of the answer."`
	Node       string     `json:"node,omitzero"`
	Worker     string     `json:"worker,omitzero" doc:"The outside worker that had claimed it."`
	Epoch      int64      `json:"epoch,omitzero"`
}

// Event is something that has happened and is durable.
type Event struct {
	Type         string     `json:"type" doc:"job.created, job.updated, job.paused, job.resumed, job.deleted, backfill.started, backfill.finished, backfill.cancelled, execution.retrying, execution.succeeded, …, dead_letter.replayed, dead_letter.purged, dead_letter.expired, circuit.open, circuit.half_open, circuit.closed"`
	JobID        string     `json:"job_id,omitzero"`
	ExecutionID  string     `json:"execution_id,omitzero"`
	BackfillID   string     `json:"backfill_id,omitzero"`
	ScheduledFor *time.Time `json:"scheduled_for,omitzero"`
	At           time.Time  `json:"at"`
	Attempt      int        `json:"attempt,omitzero"`
	LatenessMS   int64      `json:"lateness_ms" doc:"First sent minus due; 0 where it has no meaning."`
	Reason       string     `json:"reason,omitzero"`
	Worker       string     `json:"worker,omitzero" doc:"The outside worker whose claim it is about."`
	CatchUp      bool       `json:"catch_up,omitzero" doc:"Of a slot that was missed in an outage and ran afterwards."`
	Host         string     `json:"host,omitzero" doc:"Whose circuit changed: of circuit.open, circuit.half_open and circuit.closed."`
}
