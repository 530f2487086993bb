package listing

import (
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func ms(t time.Time) int64 { return t.UnixMilli() }

// question is about an hourly job that was made yesterday, at half past noon.
func question(at time.Time, change ...func(*Question)) Question {
	spec := job.Spec{Schedule: job.Timing{Expr: "0 * * * *"}, Target: job.Target{HTTP: &job.HTTPTarget{URL: "https://example.com"}}}
	q := Question{
		Job: &Job{ID: "a", Status: job.Active, Spec: messages.Spec(spec.Normalize()), State: &belfryv1.JobState{
			Generation: 1, CreatedAt: ms(noon.AddDate(0, 0, -1).Add(30 * time.Minute)), UpdatedAt: ms(noon.AddDate(0, 0, -1).Add(30 * time.Minute)), Cursor: ms(noon),
		}},
		At: at, Now: noon.Add(30 * time.Minute), Owner: &belfryv1.Description{},
	}
	for _, f := range change {
		f(&q)
	}
	q.Schedule, _ = job.Compile(messages.TimingOf("a", q.Job.Spec))
	return q
}

// record is that of the slot at noon.
func record(status, reason string, change ...func(*belfryv1.ExecutionView)) func(*Question) {
	e := &belfryv1.ExecutionView{ExecutionId: job.ScheduledID("a", 1, noon), JobId: "a", ScheduledFor: ms(noon), Due: ms(noon), Status: status, Reason: reason, Trigger: "schedule"}
	for _, f := range change {
		f(e)
	}
	return func(q *Question) { q.Records = append(q.Records, e) }
}

func state(change func(*Job)) func(*Question) { return func(q *Question) { change(q.Job) } }

func owner(waiting string, running ...string) func(*Question) {
	return func(q *Question) {
		q.Owner.Waiting = waiting
		for _, id := range running {
			q.Owner.Running = append(q.Owner.Running, &belfryv1.Description_Running{ExecutionId: id, Attempt: 1})
		}
	}
}

func TestExplainAnInstant(t *testing.T) {
	t.Parallel()
	sent := func(late time.Duration) func(*belfryv1.ExecutionView) {
		return func(e *belfryv1.ExecutionView) {
			e.Attempts, e.SentAt, e.FinishedAt = 1, ms(noon.Add(late)), ms(noon.Add(late+time.Second))
		}
	}
	excluded := state(func(j *Job) {
		day, _ := job.ParseDay("2026-03-02")
		j.Spec.Timing.Exclude = []int32{int32(day)}
	})
	cases := []struct {
		name            string
		q               Question
		verdict, reason string // the reason has this in it
	}{
		{"succeeded", question(noon, record("succeeded", "", sent(0))), "succeeded", "it ran and succeeded, attempt 1 ended at 2026-03-02T12:00:01Z"},
		{"late", question(noon, record("succeeded", "", sent(time.Hour))), "succeeded", "first sent 1h0m0s after it was due"},
		{"caught up", question(noon, record("succeeded", "", sent(0), func(e *belfryv1.ExecutionView) { e.Trigger = "catch_up" })), "succeeded", "missed in an outage, and caught up"},
		{"a dead letter", question(noon, record("failed", "attempts exhausted", sent(0), func(e *belfryv1.ExecutionView) { e.LastError = "500" })), "failed", "dead letter, attempt 1 ended at 2026-03-02T12:00:01Z: attempts exhausted: 500"},
		{"missed", question(noon, record("missed", "outage", func(e *belfryv1.ExecutionView) {
			e.Range = &belfryv1.SlotRange{First: ms(noon.Add(-time.Hour)), Last: ms(noon.Add(5 * time.Hour)), Count: 7}
		})), "missed", "it was missed: outage; one of 7 slots in a row from 2026-03-02T11:00:00Z to 2026-03-02T17:00:00Z"},
		{"between two slots of a run", question(noon.Add(time.Minute), record("missed", "outage", func(e *belfryv1.ExecutionView) {
			e.Range = &belfryv1.SlotRange{First: ms(noon.Add(-time.Hour)), Last: ms(noon.Add(5 * time.Hour)), Count: 7}
		})), "not_scheduled", "not one of the instants"},
		{"skipped by a pause", question(noon, record("skipped", "paused")), "skipped", "it was skipped: paused"},
		{"skipped by whatever others say", question(noon, record("skipped", "overlap")), "skipped", "it was skipped: overlap"},
		{"cancelled", question(noon, record("cancelled", "the job was deleted")), "cancelled", "it was cancelled: the job was deleted"},
		{"running", question(noon, record("running", "", func(e *belfryv1.ExecutionView) { e.Attempts, e.SentAt = 2, ms(noon) })), "running", "attempt 2 runs since 2026-03-02T12:00:00Z"},
		{"retrying", question(noon, record("retrying", "", func(e *belfryv1.ExecutionView) {
			e.Attempts, e.NextAttemptAt, e.LastError = 1, ms(noon.Add(time.Hour)), "timeout"
		})), "retrying", "attempt 1 did not succeed (timeout), and the next one is due at 2026-03-02T13:00:00Z"},
		{"a breaker", question(noon, record("pending", "waiting: circuit open since 2026-03-02T11:59:00Z (example.com)")), "waiting", "circuit open since"},
		{"a rate limit", question(noon, record("pending", "waiting: rate limit until 2026-03-02T12:31:00Z")), "waiting", "rate limit until"},
		{"a backlog", question(noon, record("pending", "waits for an execution to end: max_outstanding is reached")), "waiting", "max_outstanding"},
		{"armed", question(noon, record("pending", ""), func(q *Question) { q.Now = noon.Add(-time.Second) }), "not_due", "it is armed, and due at 2026-03-02T12:00:00Z"},
		{"about to be sent", question(noon, record("pending", "")), "pending", "about to be sent"},
		{"a backfill besides", question(noon, record("succeeded", "", func(e *belfryv1.ExecutionView) {
			e.ExecutionId, e.Trigger = job.MarkedID(job.Backfilled, "a", 1, job.CommandHash("x"), noon), "backfill"
		}), record("missed", "outage")), "missed", "outage"},
		{"by hand alone", question(noon.Add(time.Minute), record("succeeded", "", func(e *belfryv1.ExecutionView) {
			e.ExecutionId, e.Trigger = job.ManualID("a", 1, "x", noon.Add(time.Minute)), "manual"
		})), "succeeded", "it was made by: manual"},
		{"no slot", question(noon.Add(time.Minute)), "not_scheduled", "not one of the instants"},
		{"an excluded date", question(noon, excluded), "not_scheduled", "2026-03-02 is one of the dates that it excludes"},
		{"ahead", question(noon.Add(time.Hour)), "not_due", "it lies ahead"},
		{"ahead of a paused job", question(noon.Add(time.Hour), state(func(j *Job) { j.Status = job.Paused; j.State.StatusReason = "audit" })), "paused", "the job is paused: audit: it is skipped unless"},
		{"before the registration", question(noon.AddDate(0, 0, -1)), "before_registration", "at 2026-03-01T12:30:00Z"},
		{"after the deletion", question(noon, state(func(j *Job) { j.Status = job.Deleted; j.State.StatusAt = ms(noon.Add(-time.Minute)) })), "deleted", "deleted at 2026-03-02T11:59:00Z"},
		{"in error", question(noon, state(func(j *Job) { j.Status = job.Faulty; j.State.StatusReason = "its row" })), "error", "its row"},
		{"after max_runs", question(noon, state(func(j *Job) { j.State.LastSlot = ms(noon.Add(-time.Hour)) })), "not_scheduled", "the last slot that max_runs gives, 2026-03-02T11:00:00Z"},
		{"not armed", question(noon, state(func(j *Job) { j.State.Cursor = ms(noon.Add(-time.Hour)) })), "waiting", "its owner has not made it durable yet"},
		{"expired", question(noon), "no_record", "history has expired"},
		{"edited since", question(noon, state(func(j *Job) { j.State.UpdatedAt = ms(noon.Add(time.Minute)) })), "no_record", "the definition was changed after that"},
		{"triggered by others", question(noon, state(func(j *Job) { j.Spec.DependsOn = []string{"b"} })), "not_scheduled", "the jobs that it depends on"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if e := Explain(c.q); e.Verdict != c.verdict || !strings.Contains(e.Reason, c.reason) {
				t.Errorf("%s: %s\nwant %s: … %s …", e.Verdict, e.Reason, c.verdict, c.reason)
			}
		})
	}
	if e := Explain(question(noon.Add(time.Minute))); !e.Previous.Equal(noon) || !e.Next.Equal(noon.Add(time.Hour)) {
		t.Errorf("slots around it: %s and %s", e.Previous, e.Next)
	}
}

func TestExplainNow(t *testing.T) {
	t.Parallel()
	status := func(s job.Status) func(*Question) {
		return state(func(j *Job) { j.Status, j.State.StatusAt, j.State.StatusReason = s, ms(noon), "audit" })
	}
	cases := []struct {
		name            string
		q               Question
		verdict, reason string
	}{
		{"nothing is due", question(time.Time{}), "not_due", "the next slot is at 2026-03-02T13:00:00Z"},
		{"it runs", question(time.Time{}, owner("", "x")), "running", "1 of its executions run"},
		{"a breaker", question(time.Time{}, owner("waiting: circuit open since 2026-03-02T11:59:00Z (example.com)")), "waiting", "circuit open"},
		{"a backlog", question(time.Time{}, state(func(j *Job) { j.State.BacklogSince = ms(noon) })), "waiting", "max_outstanding"},
		{"a retry", question(time.Time{}, state(func(j *Job) {
			j.State.InFlight = []*belfryv1.InFlight{{ScheduledFor: ms(noon), RetryAt: ms(noon.Add(time.Hour))}}
		})), "retrying", "2026-03-02T13:00:00Z"},
		{"paused", question(time.Time{}, status(job.Paused)), "paused", "the job is paused since 2026-03-02T12:00:00Z: audit"},
		{"paused, and the last one runs", question(time.Time{}, status(job.Paused), owner("", "x")), "running", ""},
		{"finished", question(time.Time{}, status(job.Finished)), "finished", "nothing is due any more"},
		{"deleted", question(time.Time{}, status(job.Deleted)), "deleted", "the job was deleted"},
		{"in error", question(time.Time{}, status(job.Faulty)), "error", "in error"},
		{"no owner", question(time.Time{}, func(q *Question) { q.Owner = nil }), "not_due", ""},
		{"nothing more", question(time.Time{}, state(func(j *Job) { j.Spec.Timing.EndsAt = ms(noon) })), "not_due", "nothing is due any more"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if e := Explain(c.q); e.Verdict != c.verdict || !strings.Contains(e.Reason, c.reason) {
				t.Errorf("%s: %s\nwant %s: … %s …", e.Verdict, e.Reason, c.verdict, c.reason)
			}
		})
	}
}
