package job

import (
	"slices"
	"strings"
	"time"
)

// Spec is what a user registers: everything about a job that an edit can
// change. The zero value of each optional field means "the default", which
// Normalize fills in.
type Spec struct {
	Description string
	Labels      map[string]string

	Schedule Timing
	Target   Target

	Timeout        time.Duration // one attempt, from dial to the last byte of the answer; of a queue, from claim to completion
	Retry          RetryPolicy
	CatchUp        CatchUp
	MaxOutstanding int // executions of this job that may be unfinished at once
	Overlap        Overlap
	OverlapQueue   int      // executions that may wait, with OverlapQueued
	DependsOn      []string // jobs whose success triggers this one; its schedule is not evaluated then
	MaxRuns        int64    // slots of the schedule that are given to the job; 0: all
	RateLimit      RateLimit
	OnOpenCircuit  OpenCircuit
	Paused         bool
}

// Overlap is what becomes of an execution that is due while another one of its
// job has not ended, retries included.
type Overlap string

const (
	OverlapAllow   Overlap = "allow"   // it runs as well (default)
	OverlapSkip    Overlap = "skip"    // it is recorded as skipped
	OverlapQueued  Overlap = "queue"   // it waits its turn; when OverlapQueue wait already it is skipped
	OverlapReplace Overlap = "replace" // the other one is cancelled, and once that has ended it runs
)

// Timing is the schedule as the user wrote it. Compile turns it into a
// Schedule that can be asked for instants.
type Timing struct {
	Expr     string   // cron, descriptor, "@every 10m", or one RFC 3339 instant
	Exprs    []string // further ones: what is due by any of them is due
	Seconds  bool     // cron expressions have a first field of seconds
	Zone     string   // IANA name; "" is UTC
	Gap      GapRule
	Fold     FoldRule
	StartsAt time.Time     // zero: no lower bound; also the anchor of @every
	EndsAt   time.Time     // zero: no upper bound; a slot at EndsAt is not due
	Anchor   time.Time     // phase of @every: StartsAt, else the instant of registration; stored, so failover does not move it
	Exclude  []Day         // dates of the zone on which nothing is due
	Jitter   time.Duration // how much later than its slot an execution may be due
	Job      string        // id of the job, from which H is made; not stored with the schedule

	Triggered bool // upstreams trigger the job: nothing is ever due, whatever Expr says, which may be "" then
}

// Anchored tells whether the schedule has a phase of its own, which must be
// stored: that of an interval.
func (t Timing) Anchored() bool {
	expr := strings.TrimSpace(t.Expr)
	return len(expr) >= len("@every") && strings.EqualFold(expr[:len("@every")], "@every")
}

// Through is the Timing of an interval with a slot at an instant; others stay as
// they are.
func (t Timing) Through(slot time.Time) Timing {
	if e, bad := parseExpr(t.Expr, t.Seconds, t.Job); bad == nil && e.kind == kindEvery && len(t.Exprs) == 0 {
		t.Anchor = slot.Add(-e.every)
	}
	return t
}

// Shared tells whether many jobs are likely to have this very schedule, so that
// it is worth keeping compiled: a cron expression, and neither an instant nor an
// interval with a phase of its own.
func (t Timing) Shared() bool {
	return !t.Anchored() && !t.Spread() && !looksLikeInstant(strings.TrimSpace(t.Expr))
}

// Spread tells whether the schedule has an H, so that it is each job's own.
func (t Timing) Spread() bool { return spreads(t.Expr) || slices.ContainsFunc(t.Exprs, spreads) }

// Key identifies a schedule: Timings of one key are compiled, or refused, alike.
type Key struct {
	exprs, exclude, zone, job string
	seconds, triggered        bool
	gap                       GapRule
	fold                      FoldRule
	starts, ends, anchor      time.Time
	jitter                    time.Duration
}

// Key is the key of a Timing.
func (t Timing) Key() Key {
	k := Key{
		exprs: t.Expr, zone: t.Zone, seconds: t.Seconds, triggered: t.Triggered, gap: t.Gap, fold: t.Fold, jitter: t.Jitter,
		starts: t.StartsAt.UTC().Round(0), ends: t.EndsAt.UTC().Round(0), anchor: t.Anchor.UTC().Round(0),
	}
	if len(t.Exprs) > 0 {
		k.exprs += "\n" + strings.Join(t.Exprs, "\n")
	}
	for _, d := range t.Exclude {
		k.exclude += d.String() + " "
	}
	if t.Spread() {
		k.job = t.Job
	}
	return k
}

// GapRule says what happens to a fixed wall time that a change of the clock skips.
type GapRule string

// FoldRule says what happens to a fixed wall time that exists twice.
type FoldRule string

const (
	GapRunAfter GapRule = "run_after" // fire at the first instant after the gap (default)
	GapSkip     GapRule = "skip"

	FoldFirst FoldRule = "first" // fire at the first of the two (default)
	FoldBoth  FoldRule = "both"
)

// Target is where an execution goes. Exactly one of the kinds is set.
type Target struct {
	HTTP  *HTTPTarget
	Actor *ActorTarget
	Queue *QueueTarget
	NATS  *NATSTarget
	Kafka *KafkaTarget

	KeyLifetime time.Duration // how long it remembers an idempotency key
}

// HTTPTarget is a callback: one request per attempt, 2xx is success.
type HTTPTarget struct {
	Method  string
	URL     string
	Headers map[string]string // a value may end in a reference to a secret; see SecretRef
	Body    []byte
	// SigningSecretRef is where the keys are that each request is signed with;
	// "": it is not signed.
	SigningSecretRef string
}

// ActorTarget is an actor of a service in the cluster: one message per attempt,
// which it answers.
type ActorTarget struct {
	Kind     string // of the actor: services say which they host
	Identity string // of the actor among those of its kind
	Payload  []byte
}

// QueueTarget is a queue: outside workers claim executions from it, and say how
// they ended.
type QueueTarget struct {
	Name    string
	Payload []byte
}

// NATSTarget is a subject that a JetStream stream takes: one message per attempt.
type NATSTarget struct {
	Broker  string // as the operator named it
	Subject string
	Headers map[string]string
	Payload []byte
}

// KafkaTarget is a topic: one record per attempt.
type KafkaTarget struct {
	Broker  string // as the operator named it
	Topic   string
	Key     string // of the record; "": the job's id, which keeps its records in order
	Headers map[string]string
	Payload []byte
}

// RetryPolicy says how often and when a failed attempt is repeated. The pause
// before attempt n+1 is InitialBackoff × Multiplier^(n−1), at most MaxBackoff,
// spread by ± Jitter.
type RetryPolicy struct {
	MaxAttempts    int
	InitialBackoff time.Duration
	Multiplier     float64
	MaxBackoff     time.Duration
	Jitter         float64       // 0 … 1, the share of the pause that is random; negative: none (0 is the default share)
	MaxElapsed     time.Duration // age from due at which an execution is given up, waiting included
}

// OpenCircuit says what becomes of an execution that finds its host's circuit
// open.
type OpenCircuit string

const (
	OpenCircuitWait OpenCircuit = "wait" // it waits, and no attempt is used up (default)
	OpenCircuitFail OpenCircuit = "fail" // its attempt fails unsent, and the retry policy decides
)

// CatchUpPolicy says which of the slots missed in an outage run afterwards.
type CatchUpPolicy string

const (
	CatchUpLatest CatchUpPolicy = "latest" // the newest missed slot, once (default)
	CatchUpAll    CatchUpPolicy = "all"    // the newest Max slots within Window, oldest first
	CatchUpNone   CatchUpPolicy = "none"
)

// CatchUp is the policy and its bounds. An outage of at most Grace is no
// outage: every slot fires late.
type CatchUp struct {
	Policy CatchUpPolicy
	Max    int
	Window time.Duration
	Grace  time.Duration
}

// PastGrace is how far in the past the instant of a one-time job may lie at
// registration and still run: the time a request takes, not a wish to run the
// past.
const PastGrace = 60 * time.Second

// Status is the state of a job.
type Status string

const (
	Active   Status = "active"
	Paused   Status = "paused"
	Finished Status = "finished" // nothing is due any more and nothing is in flight
	Deleted  Status = "deleted"
	Faulty   Status = "error" // its row cannot be read or stored; the rest of its partition goes on
)

// Defaults of a Spec, as the API documents them.
const (
	DefaultTimeout        = 30 * time.Second
	DefaultQueueTimeout   = time.Hour // a worker that is lost is found by its lease
	DefaultMaxOutstanding = 100
	DefaultOverlapQueue   = 10
	DefaultKeyLifetime    = 24 * time.Hour
	DefaultMaxAttempts    = 5
	DefaultInitialBackoff = time.Second
	DefaultMultiplier     = 2.0
	DefaultMaxBackoff     = 10 * time.Minute
	DefaultJitter         = 0.2
	DefaultMaxElapsed     = 24 * time.Hour
	DefaultCatchUpMax     = 100
	DefaultCatchUpWindow  = 24 * time.Hour
	DefaultGrace          = 30 * time.Second
)

// Normalize returns the spec with every default written out, so that what is
// stored does not change its meaning when a default changes.
func (s Spec) Normalize() Spec {
	s.Schedule = s.Schedule.normalize()
	s.DependsOn = slices.Sorted(slices.Values(s.DependsOn))
	s.Schedule.Triggered = len(s.DependsOn) > 0
	if h := s.Target.HTTP; h != nil && h.Method == "" {
		t := *h
		t.Method = "POST"
		s.Target.HTTP = &t
	}
	if s.Target.Queue != nil {
		orDefault(&s.Timeout, DefaultQueueTimeout)
	}
	orDefault(&s.Timeout, DefaultTimeout)
	orDefault(&s.MaxOutstanding, DefaultMaxOutstanding)
	orDefault(&s.Overlap, OverlapAllow)
	orDefault(&s.OverlapQueue, DefaultOverlapQueue)
	orDefault(&s.Target.KeyLifetime, DefaultKeyLifetime)
	orDefault(&s.Retry.MaxAttempts, DefaultMaxAttempts)
	orDefault(&s.Retry.InitialBackoff, DefaultInitialBackoff)
	orDefault(&s.Retry.Multiplier, DefaultMultiplier)
	orDefault(&s.Retry.MaxBackoff, DefaultMaxBackoff)
	orDefault(&s.Retry.Jitter, DefaultJitter)
	orDefault(&s.Retry.MaxElapsed, DefaultMaxElapsed)
	orDefault(&s.CatchUp.Policy, CatchUpLatest)
	orDefault(&s.CatchUp.Max, DefaultCatchUpMax)
	orDefault(&s.CatchUp.Window, DefaultCatchUpWindow)
	orDefault(&s.CatchUp.Grace, DefaultGrace)
	orDefault(&s.OnOpenCircuit, OpenCircuitWait)
	if s.RateLimit.PerSecond != 0 {
		orDefault(&s.RateLimit.Burst, 1)
	}
	return s
}

func (t Timing) normalize() Timing {
	orDefault(&t.Zone, "UTC")
	orDefault(&t.Gap, GapRunAfter)
	orDefault(&t.Fold, FoldFirst)
	t.Exclude = slices.Compact(slices.Sorted(slices.Values(t.Exclude)))
	return t
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
