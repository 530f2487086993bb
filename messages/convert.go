package messages

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// Spec converts a registration to its stored form.
func Spec(s job.Spec) *belfryv1.JobSpec {
	return &belfryv1.JobSpec{
		Description:    s.Description,
		Labels:         s.Labels,
		Timing:         timing(s.Schedule),
		DependsOn:      s.DependsOn,
		Target:         target(s.Target),
		TimeoutMs:      s.Timeout.Milliseconds(),
		MaxOutstanding: int32(s.MaxOutstanding),
		MaxRuns:        s.MaxRuns,
		Overlap:        overlaps[s.Overlap],
		OverlapQueue:   int32(unlessDefault(s.OverlapQueue, job.DefaultOverlapQueue)),
		Retry: &belfryv1.RetryPolicy{
			MaxAttempts:      int32(s.Retry.MaxAttempts),
			InitialBackoffMs: s.Retry.InitialBackoff.Milliseconds(),
			Multiplier:       s.Retry.Multiplier,
			MaxBackoffMs:     s.Retry.MaxBackoff.Milliseconds(),
			Jitter:           s.Retry.Jitter,
			MaxElapsedMs:     s.Retry.MaxElapsed.Milliseconds(),
		},
		CatchUp: &belfryv1.CatchUp{
			Policy:   catchUpPolicies[s.CatchUp.Policy],
			Max:      int32(s.CatchUp.Max),
			WindowMs: s.CatchUp.Window.Milliseconds(),
			GraceMs:  s.CatchUp.Grace.Milliseconds(),
		},
		RateLimit:     rateLimit(s.RateLimit),
		OnOpenCircuit: openCircuits[s.OnOpenCircuit],
	}
}

// FromSpec converts a stored registration to the domain. Paused is no part of
// what is stored with the spec: it is the job's status.
func FromSpec(s *belfryv1.JobSpec) job.Spec {
	r, c := s.GetRetry(), s.GetCatchUp()
	return job.Spec{
		Description:    s.GetDescription(),
		Labels:         s.GetLabels(),
		Schedule:       TimingOf("", s),
		DependsOn:      s.GetDependsOn(),
		Target:         FromTarget(s.GetTarget()),
		Timeout:        millis(s.GetTimeoutMs()),
		MaxOutstanding: int(s.GetMaxOutstanding()),
		MaxRuns:        s.GetMaxRuns(),
		Overlap:        fromOverlap(s.GetOverlap()),
		OverlapQueue:   cmp.Or(int(s.GetOverlapQueue()), job.DefaultOverlapQueue),
		Retry: job.RetryPolicy{
			MaxAttempts:    int(r.GetMaxAttempts()),
			InitialBackoff: millis(r.GetInitialBackoffMs()),
			Multiplier:     r.GetMultiplier(),
			MaxBackoff:     millis(r.GetMaxBackoffMs()),
			Jitter:         r.GetJitter(),
			MaxElapsed:     millis(r.GetMaxElapsedMs()),
		},
		CatchUp: job.CatchUp{
			Policy: fromCatchUpPolicy(c.GetPolicy()),
			Max:    int(c.GetMax()),
			Window: millis(c.GetWindowMs()),
			Grace:  millis(c.GetGraceMs()),
		},
		RateLimit:     FromRateLimit(s.GetRateLimit()),
		OnOpenCircuit: fromOpenCircuit(s.GetOnOpenCircuit()),
	}
}

func timing(t job.Timing) *belfryv1.Timing {
	zone := t.Zone
	if zone == "UTC" {
		zone = ""
	}
	exclude := make([]int32, len(t.Exclude))
	for i, d := range t.Exclude {
		exclude[i] = int32(d)
	}
	return &belfryv1.Timing{
		Expr: t.Expr, Exprs: t.Exprs, Seconds: t.Seconds, Zone: zone, Exclude: exclude, JitterMs: t.Jitter.Milliseconds(),
		GapSkip: t.Gap == job.GapSkip, FoldBoth: t.Fold == job.FoldBoth,
		StartsAt: job.Millis(t.StartsAt), EndsAt: job.Millis(t.EndsAt), Anchor: job.Millis(t.Anchor),
	}
}

// FromTiming converts a stored schedule to the domain, defaults written out.
func FromTiming(t *belfryv1.Timing) job.Timing {
	out := job.Timing{
		Expr: t.GetExpr(), Seconds: t.GetSeconds(), Zone: t.GetZone(), Gap: job.GapRunAfter, Fold: job.FoldFirst,
		StartsAt: job.Instant(t.GetStartsAt()), EndsAt: job.Instant(t.GetEndsAt()), Anchor: job.Instant(t.GetAnchor()),
	}
	out.Exprs, out.Jitter = t.GetExprs(), millis(t.GetJitterMs())
	for _, d := range t.GetExclude() {
		out.Exclude = append(out.Exclude, job.Day(d))
	}
	if out.Zone == "" {
		out.Zone = "UTC"
	}
	if t.GetGapSkip() {
		out.Gap = job.GapSkip
	}
	if t.GetFoldBoth() {
		out.Fold = job.FoldBoth
	}
	return out
}

// TimingOf is when a stored job is due: H in it stands for values of its own.
func TimingOf(jobID string, s *belfryv1.JobSpec) job.Timing {
	t := FromTiming(s.GetTiming())
	t.Job, t.Triggered = jobID, len(s.GetDependsOn()) > 0
	return t
}

// Given is the schedule of a job up to the last slot that max_runs gives it.
func Given(s *job.Schedule, st *belfryv1.JobState) *job.Schedule {
	if last := st.GetLastSlot(); last != 0 {
		return s.Until(time.UnixMilli(last))
	}
	return s
}

func target(t job.Target) *belfryv1.Target {
	out := &belfryv1.Target{KeyLifetimeMs: unlessDefault(t.KeyLifetime, job.DefaultKeyLifetime).Milliseconds()}
	switch h, a, q, n, k := t.HTTP, t.Actor, t.Queue, t.NATS, t.Kafka; {
	case h != nil:
		out.Kind = &belfryv1.Target_Http{Http: &belfryv1.HTTPTarget{
			Method: h.Method, Url: h.URL, Headers: h.Headers, Body: h.Body, SigningSecretRef: h.SigningSecretRef,
		}}
	case a != nil:
		out.Kind = &belfryv1.Target_Actor{Actor: &belfryv1.ActorTarget{
			Kind: a.Kind, Identity: a.Identity, Payload: a.Payload,
		}}
	case q != nil:
		out.Kind = &belfryv1.Target_Queue{Queue: &belfryv1.QueueTarget{Name: q.Name, Payload: q.Payload}}
	case n != nil:
		out.Kind = &belfryv1.Target_Nats{Nats: &belfryv1.NATSTarget{
			Broker: n.Broker, Subject: n.Subject, Headers: n.Headers, Payload: n.Payload,
		}}
	case k != nil:
		out.Kind = &belfryv1.Target_Kafka{Kafka: &belfryv1.KafkaTarget{
			Broker: k.Broker, Topic: k.Topic, Key: k.Key, Headers: k.Headers, Payload: k.Payload,
		}}
	default:
		return nil
	}
	return out
}

// FromTarget converts a stored target to the domain.
func FromTarget(t *belfryv1.Target) job.Target {
	out := job.Target{KeyLifetime: cmp.Or(millis(t.GetKeyLifetimeMs()), job.DefaultKeyLifetime)}
	switch h, a, q, n, k := t.GetHttp(), t.GetActor(), t.GetQueue(), t.GetNats(), t.GetKafka(); {
	case h != nil:
		out.HTTP = &job.HTTPTarget{Method: h.GetMethod(), URL: h.GetUrl(), Headers: h.GetHeaders(), Body: h.GetBody(), SigningSecretRef: h.GetSigningSecretRef()}
	case a != nil:
		out.Actor = &job.ActorTarget{Kind: a.GetKind(), Identity: a.GetIdentity(), Payload: a.GetPayload()}
	case q != nil:
		out.Queue = &job.QueueTarget{Name: q.GetName(), Payload: q.GetPayload()}
	case n != nil:
		out.NATS = &job.NATSTarget{Broker: n.GetBroker(), Subject: n.GetSubject(), Headers: n.GetHeaders(), Payload: n.GetPayload()}
	case k != nil:
		out.Kafka = &job.KafkaTarget{Broker: k.GetBroker(), Topic: k.GetTopic(), Key: k.GetKey(), Headers: k.GetHeaders(), Payload: k.GetPayload()}
	}
	return out
}

// unlessDefault is what is stored of a setting that jobs did not have at first:
// nothing where it has the default, so that a registration made before is equal
// to the same one made now. That default never changes.
func unlessDefault[T comparable](v, def T) (out T) {
	if v != def {
		out = v
	}
	return out
}

var overlaps = map[job.Overlap]belfryv1.Overlap{
	job.OverlapAllow:   belfryv1.Overlap_OVERLAP_ALLOW,
	job.OverlapSkip:    belfryv1.Overlap_OVERLAP_SKIP,
	job.OverlapQueued:  belfryv1.Overlap_OVERLAP_QUEUE,
	job.OverlapReplace: belfryv1.Overlap_OVERLAP_REPLACE,
}

func fromOverlap(o belfryv1.Overlap) job.Overlap {
	for name, number := range overlaps {
		if number == o {
			return name
		}
	}
	return ""
}

var catchUpPolicies = map[job.CatchUpPolicy]belfryv1.CatchUp_Policy{
	job.CatchUpLatest: belfryv1.CatchUp_POLICY_LATEST,
	job.CatchUpAll:    belfryv1.CatchUp_POLICY_ALL,
	job.CatchUpNone:   belfryv1.CatchUp_POLICY_NONE,
}

func fromCatchUpPolicy(p belfryv1.CatchUp_Policy) job.CatchUpPolicy {
	for name, number := range catchUpPolicies {
		if number == p {
			return name
		}
	}
	return ""
}

func rateLimit(r job.RateLimit) *belfryv1.RateLimit {
	if !r.Set() {
		return nil
	}
	return &belfryv1.RateLimit{PerSecond: r.PerSecond, Burst: int32(r.Burst)}
}

// FromRateLimit converts a stored rate limit to the domain.
func FromRateLimit(r *belfryv1.RateLimit) job.RateLimit {
	return job.RateLimit{PerSecond: r.GetPerSecond(), Burst: int(r.GetBurst())}
}

var openCircuits = map[job.OpenCircuit]belfryv1.OpenCircuit{
	job.OpenCircuitWait: belfryv1.OpenCircuit_OPEN_CIRCUIT_UNSPECIFIED,
	job.OpenCircuitFail: belfryv1.OpenCircuit_OPEN_CIRCUIT_FAIL,
}

func fromOpenCircuit(o belfryv1.OpenCircuit) job.OpenCircuit {
	if o == belfryv1.OpenCircuit_OPEN_CIRCUIT_FAIL {
		return job.OpenCircuitFail
	}
	return job.OpenCircuitWait
}

var outcomes = map[belfryv1.Result_Outcome]job.Outcome{
	belfryv1.Result_OUTCOME_SUCCEEDED: job.AttemptSucceeded,
	belfryv1.Result_OUTCOME_FAILED:    job.AttemptFailed,
	belfryv1.Result_OUTCOME_TIMEOUT:   job.AttemptTimeout,
	belfryv1.Result_OUTCOME_UNKNOWN:   job.AttemptUnknown,
}

// Outcome converts how an attempt ended; what a newer node may have sent and
// this one does not know counts as unknown.
func Outcome(o belfryv1.Result_Outcome) job.Outcome {
	if out, ok := outcomes[o]; ok {
		return out
	}
	return job.AttemptUnknown
}

// ExecutionID is the id of an execution in flight.
func ExecutionID(jobID string, generation int64, e *belfryv1.InFlight) string {
	switch at := time.UnixMilli(e.GetScheduledFor()); {
	case e.GetExecutionId() != "":
		return e.GetExecutionId()
	case e.GetKind() == belfryv1.InFlight_KIND_MANUAL:
		return job.ManualIDOf(jobID, generation, e.GetHash(), at)
	case e.GetKind() == belfryv1.InFlight_KIND_DEPENDENT:
		return job.DependentID(jobID, generation, e.GetHash(), at)
	case e.GetKind() == belfryv1.InFlight_KIND_BACKFILL:
		return job.MarkedID(job.Backfilled, jobID, generation, e.GetHash(), at)
	case e.GetKind() == belfryv1.InFlight_KIND_REPLAY:
		return job.MarkedID(job.Replayed, jobID, generation, e.GetHash(), at)
	default:
		return job.ScheduledID(jobID, generation, at)
	}
}

// DecodeJob reads a job from the two blobs of its row. A row that cannot be
// read is an error of that job alone; *NewerFormat: newer nodes can read it.
func DecodeJob(spec, state []byte) (*belfryv1.JobSpec, *belfryv1.JobState, error) {
	sp, st := new(belfryv1.JobSpec), new(belfryv1.JobState)
	if err := proto.Unmarshal(spec, sp); err != nil {
		return nil, nil, fmt.Errorf("decode spec: %w", err)
	}
	if err := proto.Unmarshal(state, st); err != nil {
		return nil, nil, fmt.Errorf("decode state: %w", err)
	}
	if err := CheckFormat(st); err != nil {
		return nil, nil, err
	}
	return sp, st, nil
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
