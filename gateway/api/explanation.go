package api

import "time"

// Explanation is why a job did or did not run at an instant, or why it does not
// run now.
type Explanation struct {
	JobID        string      `json:"job_id"`
	At           time.Time   `json:"at" doc:"The instant asked about; now when none was given."`
	Verdict      string      `json:"verdict" doc:"The status of the execution (succeeded, failed, running, retrying, pending, skipped, missed, cancelled), or waiting, not_due, not_scheduled, before_registration, paused, finished, deleted, error, no_record."`
	Reason       string      `json:"reason" doc:"The same in a sentence, with what is known about why."`
	PreviousSlot *time.Time  `json:"previous_slot,omitzero" doc:"The last slot of the schedule before the instant."`
	NextSlot     *time.Time  `json:"next_slot,omitzero" doc:"The first one after it."`
	Executions   []Execution `json:"executions" doc:"What there is of the instant: the slot's own execution or the run of slots that it is part of, and whatever else was run for it."`
}
