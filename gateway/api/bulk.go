package api

import "time"

// What became of one line of an import.
const (
	ImportCreated = "created"
	ImportUpdated = "updated" // also when the line equals what is stored
	ImportFailed  = "failed"
)

// ImportResult is one line of the answer to an import, in the order of the
// lines sent; it is written only after the line's effect is durable.
type ImportResult struct {
	Line     int64    `json:"line" doc:"Counted from 1; empty lines count and get no answer."`
	JobID    string   `json:"job_id,omitzero"`
	Result   string   `json:"result" enum:"created,updated,failed"`
	Revision int64    `json:"revision,omitzero"`
	Error    *Problem `json:"error,omitzero"`
}

// The actions of a BulkRequest.
const (
	BulkPause   = "pause"
	BulkResume  = "resume"
	BulkDelete  = "delete"
	BulkTrigger = "trigger"
)

// BulkRequest is the body of jobs:bulk. One call handles one page of the jobs
// that match; the next page is in the answer's Link header.
type BulkRequest struct {
	Action string  `json:"action" enum:"pause,resume,delete,trigger"`
	Filter *Filter `json:"filter,omitzero" doc:"Which jobs. An empty filter needs all: true."`
	All    bool    `json:"all,omitzero" doc:"Every job is meant: without it an empty filter is refused."`
	Reason string  `json:"reason,omitzero" doc:"For pause and resume; at most 500 bytes."`
	DryRun bool    `json:"dry_run,omitzero" doc:"Only list what would be done."`
}

// Filter selects jobs; all that is given must hold.
type Filter struct {
	Labels        map[string]string `json:"labels,omitempty"`
	State         string            `json:"state,omitzero" enum:"active,paused,finished,error"`
	Target        string            `json:"target,omitzero" doc:"A part of the target's URL, such as its host."`
	IDPrefix      string            `json:"id_prefix,omitzero"`
	NextRunBefore *time.Time        `json:"next_run_before,omitzero"`
}

// What became of one job of a bulk action.
const (
	BulkDone   = "done"
	BulkWould  = "would" // dry_run
	BulkFailed = "failed"
)

// BulkResult is one line of the answer to a bulk action.
type BulkResult struct {
	JobID       string   `json:"job_id"`
	Action      string   `json:"action"`
	Result      string   `json:"result" enum:"done,would,failed"`
	ExecutionID string   `json:"execution_id,omitzero" doc:"Of a trigger."`
	Error       *Problem `json:"error,omitzero"`
}
