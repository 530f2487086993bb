package api

import (
	"encoding/json"
	"time"
)

// JobSpec is what a user decides about a job. It is the same in a request and
// in an answer, so an answer's JobSpec can be sent back.
type JobSpec struct {
	Description    string            `json:"description,omitzero" doc:"Free text for people."`
	Labels         map[string]string `json:"labels,omitempty" doc:"For selecting jobs in lists and bulk actions; at most 32."`
	ScheduleExpr   string            `json:"schedule_expr,omitzero" doc:"When it is due; needed without depends_on: cron with 5 fields (names, 7 = Sunday, L, W, #, H; 6 fields with seconds: true; a year may follow), a descriptor such as @daily, @every 10m, or one RFC 3339 instant."`
	ScheduleExprs  []string          `json:"schedule_exprs,omitempty" doc:"In place of schedule_expr: at most 10 cron expressions and instants. What is due by any of them is due, once."`
	Seconds        bool              `json:"seconds,omitzero" doc:"Cron expressions have a first field of seconds."`
	TimeZone       *string           `json:"time_zone,omitzero" doc:"IANA name, such as Europe/Berlin. Absent: UTC."`
	DST            *DST              `json:"dst,omitzero" doc:"What a change of the clock does to fixed wall times."`
	StartsAt       *time.Time        `json:"starts_at,omitzero" doc:"Nothing is due before this instant. It is also the anchor of @every."`
	EndsAt         *time.Time        `json:"ends_at,omitzero" doc:"Nothing is due at or after this instant."`
	Exclude        []string          `json:"exclude,omitempty" doc:"Dates in the job's zone on which nothing is due, such as 2026-12-25; at most 366."`
	Jitter         *Duration         `json:"jitter,omitzero" doc:"Each execution is due less than this later than its slot, by a time that is made from job and slot. Less than half the smallest interval, at most 24h."`
	MaxRuns        *int64            `json:"max_runs,omitzero" doc:"How many slots of its schedule the job is given, whatever becomes of them, counted from starts_at or its registration; then it is finished. 0: all."`
	Target         *Target           `json:"target,omitzero" doc:"Where an execution goes."`
	Timeout        *Duration         `json:"timeout,omitzero" doc:"Of one attempt, from dial to the last byte of the answer: default 30s, at most 1h. Of a queue, from claim to completion: default 1h, at most 24h."`
	Retry          *Retry            `json:"retry,omitzero" doc:"How often and when a failed attempt is repeated."`
	CatchUp        *CatchUp          `json:"catch_up,omitzero" doc:"Which of the slots missed in an outage run afterwards."`
	MaxOutstanding *int              `json:"max_outstanding,omitzero" doc:"How many executions of this job may be unfinished at once. Default 100."`
	RateLimit      *RateLimit        `json:"rate_limit,omitzero" doc:"How often attempts of this job begin; what is due waits. Absent: any."`
	OnOpenCircuit  string            `json:"on_open_circuit,omitzero" enum:"wait,fail" doc:"What becomes of an execution that finds its host's circuit open. wait (default): it waits, visibly, and no attempt is used up. fail: its attempt fails unsent, and the retry policy goes on; not for a queue, which has no circuit."`
	DependsOn      []string          `json:"depends_on,omitempty" doc:"Jobs whose success triggers this one: once for each run in which all of them succeed. A schedule_expr is not evaluated then; starts_at, ends_at, exclude, jitter and max_runs are refused. At most 100, in chains of at most 100 jobs."`
	Overlap        string            `json:"overlap,omitzero" enum:"allow,skip,queue,replace" doc:"What becomes of an execution that is due while another one of the job has not ended, retries included, whatever asked for it: it runs as well (allow, default), is recorded as skipped, waits its turn, or runs once the other one is cancelled and has ended."`
	OverlapQueue   *int              `json:"overlap_queue,omitzero" doc:"How many executions may wait: with overlap queue for the one that runs, with allow at max_outstanding; with skip and replace none does, and it is refused. Default 10, at most 98."`
}

// JobRequest is the body of POST and PUT, and a line of an import.
type JobRequest struct {
	JobID string `json:"job_id,omitzero" doc:"1 to 128 of A-Z a-z 0-9 . _ - and not . or .. (absent in a POST: an id is made from the request)."`
	JobSpec
	Paused *bool  `json:"paused,omitzero" doc:"Whether it is paused. Absent: a new job is active, a replaced one stays as it is."`
	Past   string `json:"past,omitzero" enum:"run_now" doc:"run_now: a one-time job whose instant is past runs at once instead of being refused."`
}

// DST says what happens to a fixed wall time that a change of the clock skips
// (gap) or repeats (fold).
type DST struct {
	Gap  string `json:"gap,omitzero" enum:"run_after,skip" doc:"A wall time that does not exist: run at the first instant after the gap (default), or skip."`
	Fold string `json:"fold,omitzero" enum:"first,both" doc:"A wall time that exists twice: run at the first (default), or at both."`
}

// Target is where executions go. A request may give a URL instead of the
// object: "https://example.com/hook" is {"http": {"url": "https://example.com/hook"}}.
type Target struct {
	HTTP        *HTTPTarget  `json:"http,omitzero" doc:"An HTTP callback; 2xx is success."`
	KeyLifetime *Duration    `json:"key_lifetime,omitzero" doc:"How long the target remembers an idempotency key: a later replay must say which key it means. Default 24h."`
	Actor       *ActorTarget `json:"actor,omitzero" doc:"An actor of a service in the cluster, which answers with success or failure."`
	Queue       *QueueTarget `json:"queue,omitzero" doc:"A queue from which outside workers claim executions."`
	NATS        *NATSTarget  `json:"nats,omitzero" doc:"A subject that a NATS JetStream stream takes; success is the stream's acknowledgement."`
	Kafka       *KafkaTarget `json:"kafka,omitzero" doc:"A Kafka topic; success is the acknowledgement of all in-sync replicas."`
}

// ActorTarget is one message an attempt.
type ActorTarget struct {
	Kind     string          `json:"kind" doc:"Of the actor: 1 to 128 of A-Z a-z 0-9 . _ -. A service says which kinds it hosts."`
	Identity string          `json:"identity" doc:"Of the actor among those of its kind: 1 to 128 of A-Z a-z 0-9 . _ -."`
	Payload  json.RawMessage `json:"payload,omitzero" doc:"A string is sent as its text, any other JSON value compact; at most 64 KiB."`
}

// NATSTarget is one message an attempt. Its id (Nats-Msg-Id) is the idempotency
// key: within the stream's duplicate window a repeat is stored once.
type NATSTarget struct {
	Broker  string            `json:"broker,omitzero" doc:"As the operator named it. Default: default."`
	Subject string            `json:"subject" doc:"At most 255 bytes, without wildcards."`
	Headers map[string]string `json:"headers,omitempty" doc:"Sent with every attempt. A secret is referred to: env://BELFRY_SECRET_NAME or file:///path."`
	Payload json.RawMessage   `json:"payload,omitzero" doc:"A string is sent as its text, any other JSON value compact; at most 64 KiB."`
}

// KafkaTarget is one record an attempt. Kafka does not recognise repeats: readers
// look at the header Idempotency-Key.
type KafkaTarget struct {
	Broker  string            `json:"broker,omitzero" doc:"As the operator named it. Default: default."`
	Topic   string            `json:"topic" doc:"1 to 249 of A-Z a-z 0-9 . _ -."`
	Key     string            `json:"key,omitzero" doc:"Of the record. Default: the job's id, which keeps the job's records in order."`
	Headers map[string]string `json:"headers,omitempty" doc:"Sent with every attempt. A secret is referred to: env://BELFRY_SECRET_NAME or file:///path."`
	Payload json.RawMessage   `json:"payload,omitzero" doc:"A string is sent as its text, any other JSON value compact; at most 64 KiB."`
}

// QueueTarget is a queue: workers outside of the cluster claim executions from it
// and say how they ended. A request may give the name alone.
type QueueTarget struct {
	Name    string          `json:"name" doc:"1 to 128 of A-Z a-z 0-9 . _ -."`
	Payload json.RawMessage `json:"payload,omitzero" doc:"Given to the worker: a string is its text, any other JSON value is compact JSON; at most 64 KiB."`
}

// HTTPTarget is one request an attempt.
type HTTPTarget struct {
	Method  string            `json:"method,omitzero" doc:"Default POST."`
	URL     string            `json:"url" doc:"Absolute URL. Values of query parameters that look like secrets are shown as ***."`
	Headers map[string]string `json:"headers,omitempty" doc:"Sent with every attempt. Values of headers that look like secrets are shown as ***; sending *** back keeps what is stored. A value may be, or end in, a reference to a secret: Bearer env://BELFRY_SECRET_NAME, or file:///path."`
	Body    *string           `json:"body,omitzero" doc:"Sent as it is. Not together with json."`
	JSON    json.RawMessage   `json:"json,omitzero" doc:"Any JSON value, sent compact as application/json. Not together with body."`

	SigningSecretRef string `json:"signing_secret_ref,omitzero" doc:"Where the keys are that each request is signed with, as Standard Webhooks says: env://BELFRY_SECRET_NAME or file:///path, read by the node that sends. Several, one a line, all sign: for rotation."`
}

// Retry is the policy for failed attempts: the pause before attempt n+1 is
// initial_backoff × multiplier^(n−1), at most max_backoff, spread by ± jitter.
type Retry struct {
	MaxAttempts    *int      `json:"max_attempts,omitzero" doc:"Default 5, at most 50."`
	InitialBackoff *Duration `json:"initial_backoff,omitzero" doc:"Default 1s."`
	Multiplier     *float64  `json:"multiplier,omitzero" doc:"Default 2."`
	MaxBackoff     *Duration `json:"max_backoff,omitzero" doc:"Default 10m."`
	Jitter         *float64  `json:"jitter,omitzero" doc:"Share of the pause that is random, 0 to 1. Default 0.2."`
	MaxElapsed     *Duration `json:"max_elapsed,omitzero" doc:"Age from due at which an execution is given up, waiting included. Default 24h."`
}

// RateLimit is a token bucket.
type RateLimit struct {
	PerSecond float64 `json:"per_second" doc:"Attempts a second, 0.001 to 10000; 0 with burst 0 is no limit."`
	Burst     *int    `json:"burst,omitzero" doc:"How many may begin at once after a pause. Default 1: evenly spaced."`
}

// CatchUp says which slots missed in an outage run afterwards.
type CatchUp struct {
	Policy string    `json:"policy,omitzero" enum:"latest,all,none" doc:"latest (default): the newest missed slot, once; all: the newest max slots within window, oldest first; none."`
	Max    *int      `json:"max,omitzero" doc:"Default 100, at most 1000."`
	Window *Duration `json:"window,omitzero" doc:"Default 24h."`
	Grace  *Duration `json:"grace,omitzero" doc:"An outage of at most this long is none: every slot fires late. Default 30s."`
}

// Job is a job as it is shown. Everything beside JobID and JobSpec is read-only.
type Job struct {
	JobID string `json:"job_id"`
	JobSpec
	Paused              bool           `json:"paused"`
	Status              string         `json:"status,omitzero" enum:"active,paused,finished,deleted,error"`
	StatusReason        string         `json:"status_reason,omitzero" doc:"Why it is paused or in error."`
	StatusSince         *time.Time     `json:"status_since,omitzero"`
	NotRunning          string         `json:"not_running,omitzero" doc:"Why nothing runs, if nothing does."`
	Generation          int64          `json:"generation,omitzero" doc:"Number of this registration: a job deleted and made again under its id has another."`
	Revision            int64          `json:"revision,omitzero" doc:"Number of this version of the definition; the ETag."`
	CreatedAt           *time.Time     `json:"created_at,omitzero"`
	UpdatedAt           *time.Time     `json:"updated_at,omitzero"`
	ScheduleDescription string         `json:"schedule_description,omitzero" doc:"The schedule in words."`
	RunsGiven           *int64         `json:"runs_given,omitzero" doc:"With max_runs: how many slots have been given so far."`
	LastSlot            *time.Time     `json:"last_slot,omitzero" doc:"With max_runs: the last slot that the job is given."`
	NextRun             *time.Time     `json:"next_run,omitzero" doc:"The next slot that is not armed yet."`
	NextRuns            []time.Time    `json:"next_runs,omitempty" doc:"The next 5 instants of the schedule, UTC. A paused job would run at them if it were resumed."`
	NextRunsLocal       []string       `json:"next_runs_local,omitempty" doc:"The same in the job's zone, with offset."`
	Warnings            []string       `json:"warnings,omitempty" doc:"What is allowed and may still not be meant."`
	Dependents          []string       `json:"dependents,omitempty" doc:"Jobs that depend on this one, where one job is shown: it cannot be deleted without them."`
	LastExecution       *LastExecution `json:"last_execution,omitzero"`
	InFlight            int            `json:"in_flight,omitzero" doc:"Executions that are not decided yet."`
	Counts              *Counts        `json:"counts,omitzero" doc:"Decided executions of this generation."`
	Backfills           []Backfill     `json:"backfills,omitempty" doc:"Ranges that run again, and a few of those that have ended."`
}

// LastExecution is the execution decided last.
type LastExecution struct {
	ExecutionID  string     `json:"execution_id"`
	ScheduledFor time.Time  `json:"scheduled_for"`
	Status       string     `json:"status"`
	FinishedAt   *time.Time `json:"finished_at,omitzero"`
}

// Counts are slots by how they ended.
type Counts struct {
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Missed    int64 `json:"missed"`
	Skipped   int64 `json:"skipped"`
	Cancelled int64 `json:"cancelled"`
}

// PauseRequest is the body of pause; it may be absent.
type PauseRequest struct {
	Reason string `json:"reason,omitzero" doc:"Shown with the job; at most 500 bytes."`
}

// ResumeRequest is the body of resume; it may be absent.
type ResumeRequest struct {
	Reason  string `json:"reason,omitzero" doc:"For the record; at most 500 bytes."`
	CatchUp bool   `json:"catch_up,omitzero" doc:"Judge the slots of the pause by the job's catch-up policy. Default: they are skipped."`
}

// Triggered is the answer to a trigger: an execution that can be followed.
type Triggered struct {
	ExecutionID  string    `json:"execution_id"`
	JobID        string    `json:"job_id"`
	ScheduledFor time.Time `json:"scheduled_for" doc:"When the request was accepted."`
}

// PreviewRequest is the body of schedules/preview.
type PreviewRequest struct {
	JobID         string     `json:"job_id,omitzero" doc:"Of the job that it is for: H and jitter are made from it."`
	ScheduleExpr  string     `json:"schedule_expr,omitzero" doc:"As in a job."`
	ScheduleExprs []string   `json:"schedule_exprs,omitempty" doc:"As in a job."`
	Seconds       bool       `json:"seconds,omitzero" doc:"As in a job."`
	TimeZone      *string    `json:"time_zone,omitzero" doc:"As in a job."`
	DST           *DST       `json:"dst,omitzero" doc:"As in a job."`
	StartsAt      *time.Time `json:"starts_at,omitzero" doc:"As in a job."`
	EndsAt        *time.Time `json:"ends_at,omitzero" doc:"As in a job."`
	Exclude       []string   `json:"exclude,omitempty" doc:"As in a job."`
	Jitter        *Duration  `json:"jitter,omitzero" doc:"As in a job."`
	MaxRuns       *int64     `json:"max_runs,omitzero" doc:"As in a job that is registered now."`
	From          *time.Time `json:"from,omitzero" doc:"Runs strictly after this instant. Default now."`
	N             *int       `json:"n,omitzero" doc:"How many, 1 to 100. Default 5."`
}

// Spec is the schedule as that of a job.
func (r *PreviewRequest) Spec() *JobSpec {
	return &JobSpec{
		ScheduleExpr: r.ScheduleExpr, ScheduleExprs: r.ScheduleExprs, Seconds: r.Seconds, TimeZone: r.TimeZone, DST: r.DST,
		StartsAt: r.StartsAt, EndsAt: r.EndsAt, Exclude: r.Exclude, Jitter: r.Jitter, MaxRuns: r.MaxRuns,
	}
}

// Schedules is schedule_expr, or all of schedule_exprs.
func (s *JobSpec) Schedules() []string {
	if len(s.ScheduleExprs) > 0 {
		return s.ScheduleExprs
	}
	return []string{s.ScheduleExpr}
}

// Preview is what a schedule means.
type Preview struct {
	NextRuns      []time.Time `json:"next_runs" doc:"Slots, UTC: jitter is not in them."`
	NextRunsLocal []string    `json:"next_runs_local" doc:"The same in the zone, with offset."`
	Warnings      []string    `json:"warnings"`
	Description   string      `json:"description" doc:"The schedule in words."`
}
