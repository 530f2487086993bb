package gateway

import (
	"bytes"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// viewJob is a job as the API shows it, with the runs after an instant. It is a
// function of its arguments.
func (g *Gateway) viewJob(j *belfryv1.Job, at time.Time) *api.Job {
	out := viewRow(j)
	p, err := g.schedules.compile(messages.TimingOf(j.GetJobId(), j.GetSpec()))
	if err != nil {
		return out // a job in error: its status says why
	}
	out.Warnings, out.ScheduleDescription = p.wordsOf(j.GetSpec())
	out.RunsGiven = runsGiven(j, p.schedule)
	if status := job.Status(j.GetStatus()); status != job.Active && status != job.Paused {
		return out
	}
	after := at
	if next := job.Instant(j.GetNextRun()); !next.IsZero() && !next.After(at) {
		after = next.Add(-time.Millisecond) // due already, and still to come
	}
	out.NextRuns, out.NextRunsLocal = nextRuns(messages.Given(p.schedule, j.GetState()), after, previewRuns)
	return out
}

// lastSlot is the last slot that max_runs gives a job; nil when its schedule has
// no so many.
func lastSlot(st *belfryv1.JobState) *time.Time {
	if st.GetLastSlot() == job.NoSlot.UnixMilli() {
		return nil
	}
	return instant(st.GetLastSlot())
}

// runsGiven is how many slots a job with max_runs has been given; nil without.
func runsGiven(j *belfryv1.Job, s *job.Schedule) *int64 {
	st := j.GetState()
	if st.GetLastSlot() == 0 {
		return nil
	}
	n := st.GetRunsBefore() + messages.Given(s, st).Count(job.Instant(st.GetRunsSince()), job.Instant(st.GetCursor()))
	return &n
}

// viewRow is viewJob without what has to be computed from the schedule: the
// form of a list.
func viewRow(j *belfryv1.Job) *api.Job {
	st := j.GetState()
	out := &api.Job{
		JobID: j.GetJobId(), JobSpec: viewSpec(j.GetSpec()),
		Paused: j.GetStatus() == string(job.Paused), Status: j.GetStatus(), StatusReason: st.GetStatusReason(),
		StatusSince: instant(st.GetStatusAt()), NotRunning: notRunning(j),
		Generation: st.GetGeneration(), Revision: st.GetRevision(),
		CreatedAt: instant(st.GetCreatedAt()), UpdatedAt: instant(st.GetUpdatedAt()), NextRun: instant(j.GetNextRun()), LastSlot: lastSlot(st),
		InFlight: len(st.GetInFlight()),
		Counts: &api.Counts{
			Succeeded: st.GetSucceeded(), Failed: st.GetFailed(), Missed: st.GetMissed(),
			Skipped: st.GetSkipped(), Cancelled: st.GetCancelled(),
		},
	}
	for _, b := range st.GetBackfills() {
		out.Backfills = append(out.Backfills, viewBackfill(out.JobID, b))
	}
	if last := st.GetLast(); last != nil {
		out.LastExecution = &api.LastExecution{
			ExecutionID: last.GetExecutionId(), ScheduledFor: job.Instant(last.GetScheduledFor()),
			Status: last.GetStatus(), FinishedAt: instant(last.GetFinishedAt()),
		}
	}
	return out
}

// notRunning says why nothing more is started, if that is so.
func notRunning(j *belfryv1.Job) string {
	st := j.GetState()
	why := func(text string) string {
		if reason := st.GetStatusReason(); reason != "" {
			text += ": " + reason
		}
		return text
	}
	switch job.Status(j.GetStatus()) {
	case job.Paused:
		return why("it is paused")
	case job.Faulty:
		return why("it is in error")
	case job.Finished:
		return why("nothing is due any more")
	case job.Deleted:
		return why("it has been deleted")
	}
	if since := st.GetBacklogSince(); since != 0 {
		return fmt.Sprintf("max_outstanding: %d executions are unfinished, and slots since %s wait for them",
			len(st.GetInFlight()), job.Instant(since).Format(time.RFC3339))
	}
	return ""
}

// viewSpec is the definition with its secrets masked.
func viewSpec(s *belfryv1.JobSpec) api.JobSpec {
	out := revealSpec(s)
	if out.Target != nil && out.Target.HTTP != nil {
		h := out.Target.HTTP
		h.Headers, h.URL = maskHeaders(h.Headers), maskURL(h.URL)
	}
	return out
}

// revealSpec is the definition with everything in it.
func revealSpec(s *belfryv1.JobSpec) api.JobSpec {
	spec := messages.FromSpec(s)
	t, r, c := spec.Schedule, spec.Retry, spec.CatchUp
	jitter := max(r.Jitter, 0)
	out := api.JobSpec{
		Description: spec.Description, Labels: spec.Labels,
		ScheduleExpr: t.Expr, Seconds: t.Seconds, TimeZone: &t.Zone,
		DST:      &api.DST{Gap: string(t.Gap), Fold: string(t.Fold)},
		StartsAt: ptrTime(t.StartsAt), EndsAt: ptrTime(t.EndsAt),
		Target: viewTarget(spec.Target), Timeout: ptrDuration(spec.Timeout),
		Retry: &api.Retry{
			MaxAttempts: &r.MaxAttempts, InitialBackoff: ptrDuration(r.InitialBackoff), Multiplier: &r.Multiplier,
			MaxBackoff: ptrDuration(r.MaxBackoff), Jitter: &jitter, MaxElapsed: ptrDuration(r.MaxElapsed),
		},
		CatchUp: &api.CatchUp{
			Policy: string(c.Policy), Max: &c.Max, Window: ptrDuration(c.Window), Grace: ptrDuration(c.Grace),
		},
		MaxOutstanding: &spec.MaxOutstanding, RateLimit: viewRateLimit(spec.RateLimit), OnOpenCircuit: string(spec.OnOpenCircuit),
		Overlap: string(spec.Overlap), OverlapQueue: &spec.OverlapQueue,
		DependsOn: spec.DependsOn,
	}
	viewCalendar(&out, &spec)
	return out
}

// viewCalendar adds what few schedules have.
func viewCalendar(out *api.JobSpec, spec *job.Spec) {
	t := spec.Schedule
	if len(t.Exprs) > 0 {
		out.ScheduleExprs, out.ScheduleExpr = append([]string{t.Expr}, t.Exprs...), ""
	}
	for _, d := range t.Exclude {
		out.Exclude = append(out.Exclude, d.String())
	}
	if t.Jitter > 0 {
		out.Jitter = ptrDuration(t.Jitter)
	}
	if spec.MaxRuns > 0 {
		out.MaxRuns = &spec.MaxRuns
	}
}

func viewRateLimit(r job.RateLimit) *api.RateLimit {
	if !r.Set() {
		return nil
	}
	return &api.RateLimit{PerSecond: r.PerSecond, Burst: &r.Burst}
}

func viewTarget(t job.Target) *api.Target {
	out := viewKind(t)
	if out != nil && t.KeyLifetime != job.DefaultKeyLifetime {
		out.KeyLifetime = ptrDuration(t.KeyLifetime)
	}
	return out
}

func viewKind(t job.Target) *api.Target {
	switch {
	case t.Actor != nil:
		return &api.Target{Actor: &api.ActorTarget{Kind: t.Actor.Kind, Identity: t.Actor.Identity, Payload: viewPayload(t.Actor.Payload)}}
	case t.NATS != nil:
		return &api.Target{NATS: &api.NATSTarget{Broker: t.NATS.Broker, Subject: t.NATS.Subject, Headers: t.NATS.Headers, Payload: viewPayload(t.NATS.Payload)}}
	case t.Kafka != nil:
		return &api.Target{Kafka: &api.KafkaTarget{Broker: t.Kafka.Broker, Topic: t.Kafka.Topic, Key: t.Kafka.Key, Headers: t.Kafka.Headers, Payload: viewPayload(t.Kafka.Payload)}}
	case t.Queue != nil:
		return &api.Target{Queue: &api.QueueTarget{Name: t.Queue.Name, Payload: viewPayload(t.Queue.Payload)}}
	case t.HTTP == nil:
		return nil
	}
	h := &api.HTTPTarget{Method: t.HTTP.Method, URL: t.HTTP.URL, Headers: t.HTTP.Headers, SigningSecretRef: t.HTTP.SigningSecretRef}
	switch {
	case len(t.HTTP.Body) == 0:
	case isCompactJSON(t.HTTP):
		h.JSON = t.HTTP.Body
	default:
		body := string(t.HTTP.Body)
		h.Body = &body
	}
	return &api.Target{HTTP: h}
}

// viewPayload shows a payload as the value that makes it again, byte for byte.
func viewPayload(payload []byte) []byte {
	switch {
	case len(payload) == 0:
		return nil
	case compactJSON(payload) && payload[0] != '"':
		return payload
	}
	text, _ := jsontext.AppendQuote(nil, payload) // fails only for what is not UTF-8, and is replaced then
	return text
}

// isCompactJSON tells whether a body can be shown as json and comes back byte
// for byte when it is sent again.
func isCompactJSON(h *job.HTTPTarget) bool {
	kind, ok := headerOf(h.Headers, "Content-Type")
	return ok && kind == typeJSON && compactJSON(h.Body)
}

// compactJSON tells whether a payload is a JSON value without a needless byte,
// blank or escape, so as an answer writes it; not nested deeper than can be read
// back within a job, and not null, which stands for none.
func compactJSON(payload []byte) bool {
	const around = 3 // objects: the job, its target, http or actor
	v := jsontext.Value(payload).Clone()
	return tooDeep(payload, DefaultDepth-around) < 0 && v.Format() == nil && bytes.Equal(v, payload) && !bytes.Equal(v, []byte("null"))
}

func instant(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := job.Instant(ms)
	return &t
}

func ptrTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func ptrDuration(d time.Duration) *api.Duration {
	v := api.Duration(d)
	return &v
}
