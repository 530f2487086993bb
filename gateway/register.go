package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// registration is a request that has been found good.
type registration struct {
	spec     *belfryv1.JobSpec
	plan     *plan
	schedule *job.Schedule // of plan, as far as max_runs goes when it is registered now
	notes    []string      // what the schedule was translated to
	paused   *belfryv1.Paused
	runPast  bool
}

// prior looks up what is stored under the id that a request replaces; nil when
// there is nothing, or nothing can be.
type prior func() (*stored, error)

func noPrior() (*stored, error) { return nil, nil }

// priorOf reads a job at most once, and only if it is asked for.
func (g *Gateway) priorOf(ctx context.Context, jobID string) prior {
	var s *stored
	var err error
	done := false
	return func() (*stored, error) {
		if !done {
			done = true
			s, err = g.readJob(ctx, jobID)
			if errors.Is(err, job.ErrNotFound) {
				s, err = nil, nil
			}
		}
		return s, err
	}
}

// check turns a request into a registration, or says everything that is wrong
// with it.
func (g *Gateway) check(req *api.JobRequest, old prior, now time.Time) (*registration, error) {
	spec, problems := fromRequest(req)
	translated, bad := spec.Translate()
	if bad != nil {
		return nil, &job.Invalid{Problems: append(problems, bad.Problems...)}
	}
	if err := keepSecrets(&spec, old, &problems); err != nil {
		return nil, err
	}
	if err := setAnchor(&spec.Schedule, old, now); err != nil {
		return nil, err
	}
	spec = spec.Normalize()
	spec.Schedule.Job = req.JobID
	p, wrong := g.validate(spec)
	idle, err := newlyIdle(spec, old)
	if err != nil {
		return nil, err
	}
	problems = slices.Concat(problems, wrong, idle)
	if problems != nil {
		return nil, &job.Invalid{Problems: problems}
	}
	reg := &registration{spec: messages.Spec(spec), plan: p, notes: translated, schedule: p.schedule.First(spec.MaxRuns, spec.Schedule.RunsFrom(now))}
	if req.Paused != nil {
		reg.paused = &belfryv1.Paused{Paused: *req.Paused}
	}
	return reg, reg.judgePast(spec, req.Past == "run_now", old, now)
}

// newlyIdle finds settings without an effect. What is stored already is not judged
// again, so that a job can be sent back as it is shown.
func newlyIdle(spec job.Spec, old prior) ([]job.Problem, error) {
	idle := spec.Idle()
	if idle == nil {
		return nil, nil
	}
	before, err := old()
	if err != nil || before == nil {
		return idle, err
	}
	was := messages.FromSpec(before.spec).Idle()
	return slices.DeleteFunc(idle, func(p job.Problem) bool { return slices.Contains(was, p) }), nil
}

// judgePast refuses what is over. A one-time instant that has just passed still
// runs; and what is stored already is not judged again, so that an edit of
// something else neither fails nor runs a finished job once more.
func (r *registration) judgePast(spec job.Spec, runNow bool, old prior, now time.Time) error {
	if spec.Schedule.Triggered {
		return nil
	}
	next, ok := r.schedule.Next(now)
	if ok && (!r.schedule.Once() || next.Sub(now) > job.PastGrace) {
		return nil
	}
	before, err := old()
	if err != nil {
		return err
	}
	if before != nil && before.spec.GetMaxRuns() == spec.MaxRuns && sameSlots(messages.FromTiming(before.spec.GetTiming()), spec.Schedule) {
		return nil
	}
	if !r.schedule.Once() {
		field, advice := endedBy(spec)
		return job.Refuse(field, "nothing is due after now, %s: %s", now.UTC().Format(time.RFC3339), advice)
	}
	if _, recent := r.schedule.Next(now.Add(-job.PastGrace - time.Millisecond)); !recent && !runNow {
		return job.Refuse("schedule_expr", `the instant is past (now is %s): give a later one, or say "past": "run_now" to run it at once`, now.UTC().Format(time.RFC3339))
	}
	r.runPast = true
	return nil
}

// endedBy is the field that ends a schedule, and what to do about it.
func endedBy(spec job.Spec) (field, advice string) {
	switch t := spec.Schedule; {
	case !t.EndsAt.IsZero():
		return "ends_at", "choose a later one, or change the schedule"
	case spec.MaxRuns > 0:
		return "max_runs", "all of them were due before: allow more, or begin later (starts_at)"
	case len(t.Exprs) > 0:
		return "schedule_exprs", "add a schedule that is due later"
	}
	return "schedule_expr", "choose later years, or exclude fewer dates"
}

// sameSlots tells whether two timings are due at the same instants.
func sameSlots(a, b job.Timing) bool {
	return a.Expr == b.Expr && a.Seconds == b.Seconds && a.Zone == b.Zone && a.Gap == b.Gap && a.Fold == b.Fold &&
		a.StartsAt.Equal(b.StartsAt) && a.EndsAt.Equal(b.EndsAt) && slices.Equal(a.Exprs, b.Exprs) && slices.Equal(a.Exclude, b.Exclude)
}

// setAnchor fixes the phase of @every when it is first registered. A job that
// keeps its expression keeps its phase.
func setAnchor(t *job.Timing, old prior, now time.Time) error {
	if !t.Anchored() {
		return nil
	}
	if !t.StartsAt.IsZero() {
		t.Anchor = t.StartsAt
		return nil
	}
	before, err := old()
	if err != nil {
		return err
	}
	if before != nil && before.spec.GetTiming().GetExpr() == t.Expr && before.spec.GetTiming().GetAnchor() != 0 {
		t.Anchor = job.Instant(before.spec.GetTiming().GetAnchor())
		return nil
	}
	t.Anchor = now.UTC().Truncate(time.Millisecond)
	return nil
}

// fromRequest converts the API's form, and notes what only this form can get
// wrong: an explicit zero where absence means the default.
func fromRequest(req *api.JobRequest) (job.Spec, []job.Problem) {
	n := &notes{}
	spec := job.Spec{
		Description: req.Description,
		Labels:      req.Labels,
		Schedule:    n.timing(&req.JobSpec),
		MaxRuns:     n.maxRuns(req.MaxRuns),
		Target:      n.target(req.Target),
		Timeout:     n.duration("timeout", req.Timeout),
	}
	if r := req.Retry; r != nil {
		spec.Retry = job.RetryPolicy{
			MaxAttempts:    n.count("retry.max_attempts", r.MaxAttempts),
			InitialBackoff: n.duration("retry.initial_backoff", r.InitialBackoff),
			Multiplier:     n.float("retry.multiplier", r.Multiplier),
			MaxBackoff:     n.duration("retry.max_backoff", r.MaxBackoff),
			Jitter:         n.jitter(r.Jitter),
			MaxElapsed:     n.duration("retry.max_elapsed", r.MaxElapsed),
		}
	}
	if c := req.CatchUp; c != nil {
		spec.CatchUp = job.CatchUp{
			Policy: job.CatchUpPolicy(c.Policy),
			Max:    n.count("catch_up.max", c.Max),
			Window: n.duration("catch_up.window", c.Window),
			Grace:  n.duration("catch_up.grace", c.Grace),
		}
	}
	spec.MaxOutstanding = n.count("max_outstanding", req.MaxOutstanding)
	spec.OnOpenCircuit = job.OpenCircuit(req.OnOpenCircuit)
	if r := req.RateLimit; r != nil {
		spec.RateLimit = n.rateLimit(*r)
	}
	spec.DependsOn = req.DependsOn
	if req.JobID != "" && slices.Contains(req.DependsOn, req.JobID) {
		n.add("depends_on", "it would close a cycle: %s → %s: a job cannot follow itself", req.JobID, req.JobID)
	}
	spec.Overlap, spec.OverlapQueue = job.Overlap(req.Overlap), n.count("overlap_queue", req.OverlapQueue)
	if req.Past != "" && req.Past != "run_now" {
		n.add("past", `%q is not known: write "run_now", or leave it out`, clip(req.Past))
	}
	return spec, n.problems
}

// notes collects problems.
type notes struct {
	problems []job.Problem
}

func (n *notes) add(field, format string, args ...any) {
	n.problems = append(n.problems, job.Refuse(field, format, args...).Problems...)
}

const zeroAdvice = "0 is not allowed: leave it out for the default, or give a positive value"

func (n *notes) duration(field string, d *api.Duration) time.Duration {
	if d == nil {
		return 0
	}
	switch v := time.Duration(*d); {
	case v == 0:
		n.add(field, zeroAdvice)
	case v > 0 && v%time.Millisecond != 0:
		n.add(field, "%s is finer than a millisecond, the unit in which it is kept: write whole milliseconds", v)
	}
	return time.Duration(*d)
}

func (n *notes) count(field string, v *int) int {
	if v == nil {
		return 0
	}
	if *v == 0 {
		n.add(field, zeroAdvice)
	}
	return *v
}

func (n *notes) rateLimit(r api.RateLimit) job.RateLimit {
	out := job.RateLimit{PerSecond: r.PerSecond}
	if r.Burst != nil {
		out.Burst = *r.Burst
		if r.PerSecond != 0 && *r.Burst == 0 {
			n.add("rate_limit.burst", zeroAdvice)
		}
	}
	return out
}

func (n *notes) float(field string, v *float64) float64 {
	if v == nil {
		return 0
	}
	if *v == 0 {
		n.add(field, zeroAdvice)
	}
	return *v
}

// jitter 0 is a choice, and the domain writes it as a negative share.
func (n *notes) jitter(v *float64) float64 {
	switch {
	case v == nil:
		return 0
	case *v == 0:
		return job.NoJitter
	case *v < 0:
		n.add("retry.jitter", "%v is negative: give a share of the pause from 0 (none) to 1", *v)
	}
	return *v
}

func (n *notes) timing(s *api.JobSpec) job.Timing {
	all := s.Schedules()
	t := job.Timing{Expr: all[0], Exprs: all[1:], Seconds: s.Seconds}
	if s.ScheduleExpr != "" && len(s.ScheduleExprs) > 0 {
		n.add("schedule_exprs", "it is given together with schedule_expr, and one of the two says when the job is due: put all into schedule_exprs")
	}
	if zone := s.TimeZone; zone != nil {
		if t.Zone = *zone; *zone == "" {
			n.add("time_zone", `"" is no time zone: write an IANA name such as Europe/Berlin, or leave the field out for UTC`)
		}
	}
	if dst := s.DST; dst != nil {
		t.Gap, t.Fold = job.GapRule(dst.Gap), job.FoldRule(dst.Fold)
	}
	t.StartsAt, t.EndsAt = n.instant("starts_at", s.StartsAt), n.instant("ends_at", s.EndsAt)
	if s.Jitter != nil {
		t.Jitter = time.Duration(*s.Jitter)
	}
	for i, text := range s.Exclude {
		day, ok := job.ParseDay(text)
		if !ok {
			n.add(fmt.Sprintf("exclude[%d]", i), "%q is no date: write it as 2026-12-25", clip(text))
		}
		t.Exclude = append(t.Exclude, day)
	}
	return t
}

// instant is the zero time when it is absent; what says so itself is refused.
func (n *notes) instant(field string, at *time.Time) time.Time {
	switch {
	case at == nil:
		return time.Time{}
	case at.IsZero():
		n.add(field, "0001-01-01T00:00:00Z stands for no instant: choose a later one, or leave it out")
	}
	return at.UTC()
}

func (n *notes) maxRuns(v *int64) int64 {
	if v == nil {
		return 0
	}
	return *v
}

func (n *notes) target(t *api.Target) job.Target {
	if t == nil {
		return job.Target{}
	}
	return job.Target{
		HTTP: n.http(t.HTTP), Actor: actorTarget(t.Actor), Queue: queueTarget(t.Queue), NATS: n.nats(t.NATS), Kafka: n.kafka(t.Kafka),
		KeyLifetime: n.duration("target.key_lifetime", t.KeyLifetime),
	}
}

func actorTarget(a *api.ActorTarget) *job.ActorTarget {
	if a == nil {
		return nil
	}
	return &job.ActorTarget{Kind: a.Kind, Identity: a.Identity, Payload: payloadOf(a.Payload)}
}

// defaultBroker is the name that is meant where none is given.
const defaultBroker = "default"

func (n *notes) nats(t *api.NATSTarget) *job.NATSTarget {
	if t == nil {
		return nil
	}
	n.secretsReferred("target.nats.headers", t.Headers)
	return &job.NATSTarget{Broker: cmp.Or(t.Broker, defaultBroker), Subject: t.Subject, Headers: t.Headers, Payload: payloadOf(t.Payload)}
}

func (n *notes) kafka(t *api.KafkaTarget) *job.KafkaTarget {
	if t == nil {
		return nil
	}
	n.secretsReferred("target.kafka.headers", t.Headers)
	return &job.KafkaTarget{Broker: cmp.Or(t.Broker, defaultBroker), Topic: t.Topic, Key: t.Key, Headers: t.Headers, Payload: payloadOf(t.Payload)}
}

// secretsReferred wants the secrets among headers to be references.
func (n *notes) secretsReferred(field string, headers map[string]string) {
	for name, v := range headers {
		if job.Sensitive(name) && !refersToSecret(v) {
			n.add(field, "%q looks like a secret, which a message refers to: env://%sNAME or file:///path", clip(name), job.SecretEnvPrefix)
		}
	}
}

func queueTarget(q *api.QueueTarget) *job.QueueTarget {
	if q == nil {
		return nil
	}
	return &job.QueueTarget{Name: q.Name, Payload: payloadOf(q.Payload)}
}

// payloadOf reads a payload as http's json, or as its body if it is a string.
func payloadOf(raw []byte) []byte {
	var text string
	switch payload := jsontext.Value(raw).Clone(); {
	case len(payload) == 0 || payload.Kind() == 'n':
		return nil
	case payload.Kind() == '"' && lenient(payload, &text) == nil:
		return []byte(text)
	default:
		_ = payload.Format() // it has been decoded: it is JSON
		return payload
	}
}

func (n *notes) http(h *api.HTTPTarget) *job.HTTPTarget {
	if h == nil {
		return nil
	}
	out := &job.HTTPTarget{Method: h.Method, URL: h.URL, Headers: h.Headers, SigningSecretRef: h.SigningSecretRef}
	payload := h.JSON
	if bytes.Equal(payload, []byte("null")) {
		payload = nil
	}
	switch {
	case h.Body != nil && payload != nil:
		n.add("target.http.json", "it is given together with body, and only one can be sent: leave one of the two out")
	case h.Body != nil:
		out.Body = []byte(*h.Body)
	case payload != nil:
		compact := jsontext.Value(payload)
		_ = compact.Format() // it has been decoded: it is JSON
		out.Body = compact
		out.Headers = withJSONType(h.Headers)
	}
	return out
}

func withJSONType(headers map[string]string) map[string]string {
	for name := range headers {
		if http.CanonicalHeaderKey(name) == "Content-Type" {
			return headers
		}
	}
	out := map[string]string{"Content-Type": typeJSON}
	for name, v := range headers {
		out[name] = v
	}
	return out
}
