package api

import "time"

// DeadLetter is an execution whose attempts or age are exhausted. It is kept
// until it is replayed with success, or purged.
type DeadLetter struct {
	ExecutionID     string     `json:"execution_id"`
	JobID           string     `json:"job_id"`
	ScheduledFor    time.Time  `json:"scheduled_for" doc:"As its target saw it."`
	FailedAt        time.Time  `json:"failed_at"`
	Reason          string     `json:"reason" doc:"attempts exhausted, expired, or what ruled out another attempt."`
	Attempts        int        `json:"attempts" doc:"How many were begun."`
	UnknownAttempts int        `json:"unknown_attempts" doc:"How many of them ended without an answer: the target may have done the work. 0: all were answered."`
	Advice          string     `json:"advice" doc:"\"all attempts answered\" or \"n attempts unknown\"."`
	LastError       string     `json:"last_error,omitzero"`
	Key             string     `json:"key" doc:"The idempotency key, which a replay keeps."`
	FirstSentAt     *time.Time `json:"first_sent_at,omitzero"`
	Generation      int64      `json:"generation"`
	Revision        int64      `json:"revision"`
	Target          *Target    `json:"target,omitzero"`
}

// ReplayRequest is the body of retry; it may be absent.
type ReplayRequest struct {
	NewKey  bool `json:"new_key,omitzero" doc:"A second effect on purpose: the replay's own key."`
	SameKey bool `json:"same_key,omitzero" doc:"The original's key, although its target.key_lifetime is over."`
}

// Replayed is the answer to a retry: an execution that can be followed.
type Replayed struct {
	ExecutionID string `json:"execution_id" doc:"Of the replay."`
	ReplayOf    string `json:"replay_of"`
	JobID       string `json:"job_id"`
}

// DeadFilter selects dead letters; all that is given must hold.
type DeadFilter struct {
	JobID    string            `json:"job_id,omitzero"`
	Labels   map[string]string `json:"labels,omitempty" doc:"Of the definition that it was armed with."`
	Since    *time.Time        `json:"since,omitzero" doc:"Failed at or after this instant."`
	Until    *time.Time        `json:"until,omitzero" doc:"Failed before this instant."`
	Reason   string            `json:"reason,omitzero" doc:"A part of the reason or of the last error."`
	Attempts string            `json:"attempts,omitzero" enum:"answered,unknown" doc:"answered: all of them were; unknown: at least one was not."`
}

// DeadRetryRequest is the body of dead-letters:retry. One call handles one page;
// the next page is in the answer's Link header.
type DeadRetryRequest struct {
	Filter *DeadFilter `json:"filter,omitzero" doc:"Which dead letters. An empty filter needs all: true."`
	All    bool        `json:"all,omitzero" doc:"Every dead letter is meant: without it an empty filter is refused."`
	DryRun bool        `json:"dry_run,omitzero" doc:"Only list what would be replayed."`
	ReplayRequest
}

// DeadRetryResult is one line of the answer to dead-letters:retry.
type DeadRetryResult struct {
	ExecutionID string   `json:"execution_id"`
	JobID       string   `json:"job_id"`
	Result      string   `json:"result" enum:"done,would,failed"`
	Replay      string   `json:"replay,omitzero" doc:"The execution that replays it."`
	Error       *Problem `json:"error,omitzero"`
}
