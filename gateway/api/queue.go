package api

import (
	"encoding/json"
	"time"
)

// ClaimRequest is the body of a claim; it may be absent.
type ClaimRequest struct {
	Queue  *string   `json:"queue,omitzero" doc:"Default: default."`
	Worker *string   `json:"worker,omitzero" doc:"Who claims, for people: shown with the execution and in its history; 1 to 128 bytes. Default: the address of the client."`
	Lease  *Duration `json:"lease,omitzero" doc:"How long nobody else gets what is claimed unless it is extended, 1s to 1h, and no longer than the job's timeout. Default 30s."`
	Wait   *Duration `json:"wait,omitzero" doc:"How long to wait for something to claim, at most 60s. Default 0s: do not wait."`
	Max    *int      `json:"max,omitzero" doc:"How many to claim at most, up to 100. More than 1: the answer is an array. Default 1."`
}

// Claimed is an execution that the claimer holds. Complete it before the lease
// expires, or extend the lease by heartbeats. What is not completed in time goes
// to another worker, as the next attempt with the same key.
type Claimed struct {
	ExecutionID    string          `json:"execution_id"`
	Lease          string          `json:"lease" doc:"Proves the claim: to be sent with complete, heartbeat and release."`
	JobID          string          `json:"job_id"`
	Queue          string          `json:"queue"`
	Key            string          `json:"key" doc:"The idempotency key: the same for each attempt."`
	ScheduledFor   time.Time       `json:"scheduled_for"`
	Due            time.Time       `json:"due"`
	Attempt        int             `json:"attempt"`
	MaxAttempts    int             `json:"max_attempts"`
	Payload        json.RawMessage `json:"payload,omitzero" doc:"As in the job's target."`
	LeaseDuration  Duration        `json:"lease_duration"`
	LeaseExpiresAt time.Time       `json:"lease_expires_at" doc:"By the clock of the owner, which may differ from yours."`
	Timeout        Duration        `json:"timeout" doc:"From the claim on: no heartbeat extends the lease past it."`
}

// CompleteRequest is the body of complete.
type CompleteRequest struct {
	Status string `json:"status" enum:"succeeded,failed,success,failure"`
	Lease  string `json:"lease,omitzero" doc:"From the claim. It may also come as the header Belfry-Lease."`
	Error  string `json:"error,omitzero" doc:"Why it failed; the first 1,000 bytes are kept."`
	Output string `json:"output,omitzero" doc:"For the history; the last 4,096 bytes are kept."`
}

// HeartbeatRequest is the body of heartbeat; it may be absent.
type HeartbeatRequest struct {
	Lease  string    `json:"lease,omitzero" doc:"From the claim. It may also come as the header Belfry-Lease."`
	Extend *Duration `json:"extend,omitzero" doc:"How long the lease is to last from now on, 1s to 1h. Default: as long as it was claimed for. A lease is never shortened."`
}

// ReleaseRequest is the body of release; it may be absent.
type ReleaseRequest struct {
	Lease string `json:"lease,omitzero" doc:"From the claim. It may also come as the header Belfry-Lease."`
}

// Lease is a claim that holds.
type Lease struct {
	ExecutionID    string    `json:"execution_id"`
	Lease          string    `json:"lease"`
	LeaseExpiresAt time.Time `json:"lease_expires_at"`
}
