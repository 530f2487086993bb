package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a registration.
const (
	MaxDescription    = 1 << 10
	MaxLabels         = 32
	MaxLabelKey       = 63
	MaxLabelValue     = 255
	MaxBody           = 64 << 10 // of a request; also of the payload for an actor or a queue
	MaxActorName      = 128      // of a kind or an identity; also of a queue
	MaxTimeout        = time.Hour
	MaxQueueTimeout   = 24 * time.Hour
	MaxAttempts       = 50
	MaxBackoffLimit   = 7 * 24 * time.Hour
	MaxMultiplier     = 100
	MaxElapsedLimit   = 366 * 24 * time.Hour
	MaxCatchUp        = 1000
	MaxCatchUpWindow  = 366 * 24 * time.Hour
	MaxGrace          = 24 * time.Hour
	MaxOutstandingCap = 100
	MaxRuns           = 1_000_000_000
	MaxOverlapQueue   = 98 // beside the one that runs, and the one that is judged
	MinKeyLifetime    = time.Second
	MaxKeyLifetime    = 366 * 24 * time.Hour
)

// NoJitter is the share of a pause that is random when a user asks for none,
// since a share of 0 stands for the default.
const NoJitter = -1.0

// Methods are those that a target may be called with.
var Methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"}

// Validate finds everything that is wrong with a normalised spec: an *Invalid
// with one problem each, at paths of the API, or nil.
func (s Spec) Validate(p AddressPolicy) error {
	_, err := Compile(s.Schedule)
	v := &validation{problems: s.Idle()}
	if err := s.ValidateCompiled(p, err); err != nil {
		v.merge("", err)
	}
	return v.err()
}

// ValidateCompiled is Validate for a caller that has compiled the schedule
// already, and passes what Compile said.
func (s Spec) ValidateCompiled(p AddressPolicy, schedule error) error {
	v := &validation{}
	v.description(s.Description)
	v.labels(s.Labels)
	if schedule != nil {
		v.merge("schedule_expr", schedule)
	}
	v.target(s.Target, p)
	v.duration("timeout", s.Timeout, time.Millisecond, s.Target.maxTimeout())
	v.retry(s.Retry)
	v.catchUp(s.CatchUp)
	v.count("max_outstanding", s.MaxOutstanding, MaxOutstandingCap)
	v.limits(s.RateLimit, s.OnOpenCircuit)
	if s.Target.Queue != nil && s.OnOpenCircuit == OpenCircuitFail {
		v.refuse("on_open_circuit", "a queue has no circuit, since its workers come for what waits: leave it out, and let retry.max_elapsed say how long an execution waits for one")
	}
	v.dependsOn(s.DependsOn)
	if s.MaxRuns < 0 || s.MaxRuns > MaxRuns {
		v.refuse("max_runs", "%d is not from 0 (without end) to %d", s.MaxRuns, MaxRuns)
	}
	v.overlap(s.Overlap, s.OverlapQueue)
	v.duration("target.key_lifetime", s.Target.KeyLifetime, MinKeyLifetime, MaxKeyLifetime)
	return v.err()
}

// validation collects problems.
type validation struct{ problems []Problem }

// err is an *Invalid with the problems; nil: there are none.
func (v *validation) err() error {
	if len(v.problems) == 0 {
		return nil
	}
	return &Invalid{Problems: v.problems}
}

func (v *validation) refuse(field, format string, args ...any) {
	v.problems = append(v.problems, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// merge adds the problems of an error, or the error itself under a field.
func (v *validation) merge(field string, err error) {
	var invalid *Invalid
	if errors.As(err, &invalid) {
		v.problems = append(v.problems, invalid.Problems...)
		return
	}
	v.refuse(field, "%v", err)
}

func (v *validation) description(text string) {
	if len(text) > MaxDescription {
		v.refuse("description", "it has %d bytes, and at most %d are allowed", len(text), MaxDescription)
	}
	if !plainText(text) {
		v.refuse("description", "it must be one line of valid UTF-8 without control characters")
	}
}

func (v *validation) labels(labels map[string]string) {
	if len(labels) > MaxLabels {
		v.refuse("labels", "there are %d labels, and at most %d are allowed", len(labels), MaxLabels)
	}
	for _, key := range sortedKeys(labels) {
		if !labelKey(key) {
			v.refuse("labels", "the key %s is not allowed: use 1 to %d of A-Z a-z 0-9 . _ / - and begin with a letter or digit", shown(key), MaxLabelKey)
		}
		if value := labels[key]; len(value) > MaxLabelValue || !plainText(value) {
			v.refuse("labels", "the value of %s must be at most %d bytes of valid UTF-8 without control characters", shown(key), MaxLabelValue)
		}
	}
}

func (v *validation) target(t Target, p AddressPolicy) {
	switch {
	case t.kinds() > 1:
		v.refuse("target", "an execution goes to one target, and more than one of http, actor, queue, nats and kafka is given: leave all but one out")
	case t.HTTP != nil:
		v.http(t.HTTP, p)
	case t.Actor != nil:
		v.actor(t.Actor)
	case t.Queue != nil:
		v.queue(t.Queue)
	case t.NATS != nil:
		v.nats(t.NATS)
	case t.Kafka != nil:
		v.kafka(t.Kafka)
	default:
		v.refuse("target", "a job needs a target, such as {\"http\": {\"url\": \"https://example.com/hook\"}}")
	}
}

func (t Target) kinds() int {
	n := 0
	for _, given := range []bool{t.HTTP != nil, t.Actor != nil, t.Queue != nil, t.NATS != nil, t.Kafka != nil} {
		if given {
			n++
		}
	}
	return n
}

func (t Target) maxTimeout() time.Duration {
	if t.Queue != nil {
		return MaxQueueTimeout
	}
	return MaxTimeout
}

func (v *validation) queue(q *QueueTarget) {
	if !QueueName(q.Name) {
		v.refuse("target.queue.name", "%s is not allowed: use 1 to %d of A-Z a-z 0-9 . _ -", shown(q.Name), MaxActorName)
	}
	v.payload("target.queue.payload", q.Payload, "worker")
}

func (v *validation) payload(field string, payload []byte, reader string) {
	if len(payload) > MaxBody {
		v.refuse(field, "it has %d bytes, and at most %d are allowed: let the %s fetch what is larger", len(payload), MaxBody, reader)
	}
	if !utf8.Valid(payload) {
		v.refuse(field, "it is not valid UTF-8, and could not be shown: write other bytes as base64")
	}
}

// QueueName tells whether a queue may have a name.
func QueueName(name string) bool { return actorName(name) }

func (v *validation) actor(a *ActorTarget) {
	for _, name := range []struct{ field, text string }{{"target.actor.kind", a.Kind}, {"target.actor.identity", a.Identity}} {
		if !actorName(name.text) {
			v.refuse(name.field, "%s is not allowed: use 1 to %d of A-Z a-z 0-9 . _ -", shown(name.text), MaxActorName)
		}
	}
	v.payload("target.actor.payload", a.Payload, "actor")
}

func (v *validation) http(h *HTTPTarget, p AddressPolicy) {
	if !slices.Contains(Methods, h.Method) {
		v.refuse("target.http.method", "%s is not one of GET, POST, PUT, PATCH, DELETE, HEAD", shown(h.Method))
	}
	if refused := p.CheckURL("target.http.url", h.URL); refused != nil {
		v.problems = append(v.problems, refused.Problems...)
	}
	v.problems = append(v.problems, CheckHeaders("target.http.headers", h.Headers)...)
	if h.SigningSecretRef != "" {
		if _, err := ParseSecretRef(h.SigningSecretRef); err != nil {
			v.refuse("target.http.signing_secret_ref", "%v", err)
		}
	}
	v.payload("target.http.body", h.Body, "target")
	if len(h.Body) > 0 && (h.Method == "GET" || h.Method == "HEAD") {
		v.refuse("target.http.body", "a %s request has no body: use POST, or leave the body out", h.Method)
	}
}

func (v *validation) retry(r RetryPolicy) {
	v.count("retry.max_attempts", r.MaxAttempts, MaxAttempts)
	v.duration("retry.initial_backoff", r.InitialBackoff, time.Millisecond, MaxBackoffLimit)
	v.duration("retry.max_backoff", r.MaxBackoff, time.Millisecond, MaxBackoffLimit)
	if r.InitialBackoff > r.MaxBackoff && r.MaxBackoff > 0 {
		v.refuse("retry.max_backoff", "%v is less than initial_backoff, %v, so that could never be waited: raise it", r.MaxBackoff, r.InitialBackoff)
	}
	if !(r.Multiplier >= 1 && r.Multiplier <= MaxMultiplier) {
		v.refuse("retry.multiplier", "%v is not from 1 to %d: 1 keeps the pause, 2 doubles it each time", r.Multiplier, MaxMultiplier)
	}
	if r.Jitter != NoJitter && !(r.Jitter >= 0 && r.Jitter <= 1) {
		v.refuse("retry.jitter", "%v is not from 0 to 1: it is the share of the pause that is random", r.Jitter)
	}
	v.duration("retry.max_elapsed", r.MaxElapsed, time.Millisecond, MaxElapsedLimit)
}

func (v *validation) catchUp(c CatchUp) {
	switch c.Policy {
	case CatchUpLatest, CatchUpAll, CatchUpNone:
	default:
		v.refuse("catch_up.policy", "%s is not one of latest, all, none", shown(string(c.Policy)))
	}
	v.count("catch_up.max", c.Max, MaxCatchUp)
	v.duration("catch_up.window", c.Window, time.Millisecond, MaxCatchUpWindow)
	v.duration("catch_up.grace", c.Grace, time.Millisecond, MaxGrace)
}

func (v *validation) limits(r RateLimit, o OpenCircuit) {
	if r != (RateLimit{}) {
		if why := r.Check(); why != "" {
			v.refuse("rate_limit", "%s; leave rate_limit out for no limit", why)
		}
	}
	switch o {
	case OpenCircuitWait, OpenCircuitFail:
	default:
		v.refuse("on_open_circuit", "%s is neither wait nor fail", shown(string(o)))
	}
}

func (v *validation) overlap(o Overlap, queue int) {
	switch o {
	case OverlapAllow, OverlapSkip, OverlapQueued, OverlapReplace:
	default:
		v.refuse("overlap", "%s is not one of allow, skip, queue, replace", shown(string(o)))
	}
	v.count("overlap_queue", queue, MaxOverlapQueue)
}

func (v *validation) count(field string, n, most int) {
	if n < 1 || n > most {
		v.refuse(field, "%d is not from 1 to %d", n, most)
	}
}

func (v *validation) duration(field string, d, least, most time.Duration) {
	if d < least || d > most {
		v.refuse(field, "%v is not from %v to %v", d, least, most)
	}
}

func actorName(name string) bool {
	for i := range len(name) {
		if !idByte(name[i]) {
			return false
		}
	}
	return name != "" && len(name) <= MaxActorName
}

func labelKey(key string) bool {
	if key == "" || len(key) > MaxLabelKey {
		return false
	}
	for i := range len(key) {
		if c := key[i]; !idByte(c) && c != '/' {
			return false
		}
	}
	c := key[0]
	return c != '.' && c != '_' && c != '-' && c != '/'
}

// plainText reports whether text is valid UTF-8 that prints on one line.
func plainText(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return false
		}
	}
	return true
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// shown is a piece of input as a message may repeat it.
func shown(text string) string { return quote(printable(text)) }
