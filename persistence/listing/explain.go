package listing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Verdicts of an Explanation beside the statuses of executions and of jobs.
const (
	Waiting            = "waiting"             // due, and something is in the way
	NotDue             = "not_due"             // it lies ahead
	NotScheduled       = "not_scheduled"       // the schedule does not have it
	BeforeRegistration = "before_registration" // the job was made later
	NoRecord           = "no_record"           // it was due, and what came of it is not known any more
)

// Question asks about a job at an instant.
type Question struct {
	Job      *Job
	Schedule *job.Schedule // nil: it cannot be read
	At       time.Time     // zero: why is it not running now?
	Now      time.Time
	// Records are the executions of the instant, and what covers it: see Around.
	Records []*belfryv1.ExecutionView
	// Owner is what the partition's owner says of what it holds; nil: nothing.
	Owner *belfryv1.Description
}

// Explanation is why a job did or did not run.
type Explanation struct {
	Verdict        string
	Reason         string    // a sentence
	Previous, Next time.Time // slots around the instant; zero: there is none
}

// Explain answers a question. It is a function of it alone.
func Explain(q Question) Explanation {
	at := q.At
	if at.IsZero() {
		at = q.Now
	}
	var e Explanation
	if q.Schedule != nil {
		s := messages.Given(q.Schedule, q.Job.State)
		e.Next, _ = s.Next(at)
		e.Previous = s.Previous(at)
	}
	if q.At.IsZero() {
		e.Verdict, e.Reason = q.presently(e.Next)
	} else {
		e.Verdict, e.Reason = q.then()
	}
	return e
}

// then explains an instant: by its record, or else by why there is none.
func (q *Question) then() (verdict, reason string) {
	st := q.Job.State
	since, created := job.Instant(st.GetStatusAt()), job.Instant(st.GetCreatedAt())
	whyNot := job.WhyNot(messages.TimingOf(q.Job.ID, q.Job.Spec), q.At)
	if r := q.record(whyNot == "" || q.edited() != ""); r != nil {
		return q.recorded(r)
	}
	switch {
	case q.At.Before(created):
		return BeforeRegistration, "the job was registered later, at " + stamp(created)
	case q.Job.Status == job.Deleted && !q.At.Before(since):
		return string(job.Deleted), "the job was deleted at " + stamp(since)
	case q.Job.Status == job.Faulty:
		return string(job.Faulty), "the job is in error: " + st.GetStatusReason()
	case whyNot != "":
		return NotScheduled, whyNot + q.edited()
	case st.GetLastSlot() != 0 && q.At.After(job.Instant(st.GetLastSlot())):
		return NotScheduled, "it is after the last slot that max_runs gives, " + stamp(job.Instant(st.GetLastSlot()))
	case q.At.After(q.Now) && q.Job.Status == job.Paused:
		return string(job.Paused), q.status() + ": it is skipped unless the job is resumed before"
	case q.At.After(q.Now):
		return NotDue, "it lies ahead, and will be due"
	case job.Instant(st.GetCursor()).Before(q.At) && q.Job.Status == job.Active:
		return Waiting, "it is due, and its owner has not made it durable yet: the partition changes its owner, or the store does not answer"
	}
	return NoRecord, "it is a slot of the schedule, and there is no record of it: history has expired" + q.edited()
}

// record is the one that tells most about the instant: that of the slot, or else
// of what was run at it besides; nil: there is none. Whether it was a slot decides
// if a run of slots has it.
func (q *Question) record(slot bool) *belfryv1.ExecutionView {
	var besides *belfryv1.ExecutionView
	for _, r := range q.Records {
		switch {
		case ofSchedule(r) && (slot || r.GetRange() == nil):
			return r
		case !ofSchedule(r) && besides == nil:
			besides = r
		}
	}
	return besides
}

// edited warns that the definition was another one at the instant.
func (q *Question) edited() string {
	if updated := job.Instant(q.Job.State.GetUpdatedAt()); q.At.Before(updated) && updated.After(job.Instant(q.Job.State.GetCreatedAt())) {
		return "; the definition was changed after that, at " + stamp(updated)
	}
	return ""
}

// recorded explains an instant that has a record.
func (q *Question) recorded(r *belfryv1.ExecutionView) (verdict, reason string) {
	if !Decided(r.GetStatus()) {
		return q.undecided(r)
	}
	reason = "it " + map[string]string{
		string(job.Succeeded): "ran and succeeded", string(job.Failed): "ran and failed for good: it is a dead letter",
		string(job.Skipped): "was skipped", string(job.Missed): "was missed", string(job.Cancelled): "was cancelled",
	}[r.GetStatus()]
	if n := r.GetAttempts(); n > 0 {
		reason += fmt.Sprintf(", attempt %d ended at %s", n, stamp(job.Instant(r.GetFinishedAt())))
	}
	if late := r.GetSentAt() - r.GetDue(); r.GetSentAt() != 0 && late >= 1000 {
		reason += fmt.Sprintf(", first sent %s after it was due", time.Duration(late)*time.Millisecond)
	}
	if text := strings.TrimSuffix(strings.TrimPrefix(r.GetReason()+": "+r.GetLastError(), ": "), ": "); text != "" {
		reason += ": " + text
	}
	if g := r.GetRange(); g != nil {
		reason += fmt.Sprintf("; one of %d slots in a row from %s to %s", g.GetCount(), stamp(job.Instant(g.GetFirst())), stamp(job.Instant(g.GetLast())))
	}
	return r.GetStatus(), reason + because(r)
}

// because says what made an execution that the schedule did not.
func because(r *belfryv1.ExecutionView) string {
	switch r.GetTrigger() {
	case "", "schedule":
		return ""
	case "catch_up":
		return "; it was missed in an outage, and caught up"
	}
	return "; it was made by: " + r.GetTrigger()
}

// undecided explains an instant whose execution is on its way.
func (q *Question) undecided(r *belfryv1.ExecutionView) (verdict, reason string) {
	due := job.Instant(max(r.GetDue(), r.GetNextAttemptAt()))
	switch {
	case r.GetStatus() == string(job.Running):
		return r.GetStatus(), fmt.Sprintf("attempt %d runs since %s", r.GetAttempts(), stamp(job.Instant(r.GetSentAt())))
	case strings.HasPrefix(r.GetReason(), Waiting) || r.GetReason() != "":
		return Waiting, r.GetReason() + because(r)
	case r.GetStatus() == string(job.Retrying):
		return r.GetStatus(), fmt.Sprintf("attempt %d did not succeed (%s), and the next one is due at %s", r.GetAttempts(), r.GetLastError(), stamp(due))
	case due.After(q.Now):
		return NotDue, "it is armed, and due at " + stamp(due)
	}
	return r.GetStatus(), "it is due, and about to be sent" + because(r)
}

// presently explains why a job does not run now, if it does not.
func (q *Question) presently(next time.Time) (verdict, reason string) {
	st := q.Job.State
	switch q.Job.Status {
	case job.Paused, job.Faulty, job.Finished, job.Deleted:
		if n := len(q.Owner.GetRunning()); n == 0 {
			return string(q.Job.Status), q.status()
		}
	}
	retry := int64(0)
	for _, f := range st.GetInFlight() {
		if at := f.GetRetryAt(); at > q.Now.UnixMilli() && (retry == 0 || at < retry) {
			retry = at
		}
	}
	switch n, waits := len(q.Owner.GetRunning()), q.Owner.GetWaiting(); {
	case n > 0:
		return string(job.Running), fmt.Sprintf("%d of its executions run at this moment", n)
	case waits != "":
		return Waiting, waits
	case st.GetBacklogSince() != 0:
		return Waiting, fmt.Sprintf("max_outstanding: %d executions are unfinished, and slots since %s wait for them", len(st.GetInFlight()), stamp(job.Instant(st.GetBacklogSince())))
	case retry != 0:
		return string(job.Retrying), "an attempt did not succeed, and the next one is due at " + stamp(job.Instant(retry))
	case next.IsZero():
		return NotDue, "nothing is due any more"
	}
	return NotDue, "nothing is due: the next slot is at " + stamp(next)
}

// status is what keeps a job from being due, and since when.
func (q *Question) status() string {
	text := map[job.Status]string{
		job.Paused: "the job is paused", job.Faulty: "the job is in error", job.Finished: "nothing is due any more", job.Deleted: "the job was deleted",
	}[q.Job.Status]
	if at := q.Job.State.GetStatusAt(); at != 0 {
		text += " since " + stamp(job.Instant(at))
	}
	if reason := q.Job.State.GetStatusReason(); reason != "" {
		text += ": " + reason
	}
	return text
}

// ofSchedule tells whether a record is that of a slot, and not of something that
// was run at the same instant besides.
func ofSchedule(e *belfryv1.ExecutionView) bool {
	ref, ok := job.ParseExecutionID(e.GetExecutionId())
	return ok && ref.Kind == job.Scheduled
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// covers tells whether a record is about an instant.
func covers(e *belfryv1.ExecutionView, at int64) bool {
	if g := e.GetRange(); g != nil {
		return g.GetFirst() <= at && at <= g.GetLast()
	}
	return e.GetScheduledFor() == at
}

// Around is what a job's row and history have of an instant: its executions, and
// the run of slots that it is part of. Errors: the store's.
func (r Reader) Around(ctx context.Context, j *Job, at, now time.Time) ([]*belfryv1.ExecutionView, error) {
	var live, history []*belfryv1.ExecutionView
	for _, e := range r.Live(j, now) {
		if covers(e, at.UnixMilli()) {
			live = append(live, e)
		}
	}
	rows, err := r.between(ctx, j, job.DayOf(at), at.UnixMilli(), at.UnixMilli()+1)
	if err != nil {
		return nil, err
	}
	history = rows
	after, err := r.slotAfter(ctx, j, at.UnixMilli())
	if err != nil {
		return nil, err
	}
	if after != nil && covers(after, at.UnixMilli()) {
		history = append(history, after)
	}
	return merge(live, history, nil), nil
}

// slotAfter is the first record of a slot after an instant: a run of slots has
// its record under the last of them.
func (r Reader) slotAfter(ctx context.Context, j *Job, at int64) (*belfryv1.ExecutionView, error) {
	const first, longest = int64(time.Minute / time.Millisecond), int64(24 * time.Hour / time.Millisecond)
	for _, d := range j.State.GetDays() {
		day := job.Day(d)
		from, end := max(at+1, day.Time().UnixMilli()), day.Time().UnixMilli()+longest
		for width := first; from < end; from, width = from+width, width*4 {
			rows, err := r.between(ctx, j, day, from, min(from+width, end))
			if err != nil {
				return nil, err
			}
			for i := len(rows) - 1; i >= 0; i-- {
				if ofSchedule(rows[i]) {
					return rows[i], nil
				}
			}
		}
	}
	return nil, nil
}

// between reads the records of a day in [from, to), newest first.
func (r Reader) between(ctx context.Context, j *Job, day job.Day, from, to int64) ([]*belfryv1.ExecutionView, error) {
	const page = 200
	var out []*belfryv1.ExecutionView
	before := &persistence.Cursor{ScheduledFor: to}
	for {
		rows, err := r.History.Executions(ctx, job.PartitionOf(j.ID, r.Partitions), day, j.ID, before, page)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].ScheduledFor < from {
				return out, nil
			}
			out = append(out, FromHistory(&rows[i]))
		}
		if len(rows) < page {
			return out, nil
		}
		last := rows[len(rows)-1]
		before = &persistence.Cursor{ScheduledFor: last.ScheduledFor, ExecutionID: last.ExecutionID}
	}
}
