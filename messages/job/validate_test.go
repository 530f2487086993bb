package job

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func valid() Spec {
	return Spec{
		Schedule: Timing{Expr: "0 6 * * 1-5"},
		Target:   Target{HTTP: &HTTPTarget{URL: "https://example.com/hook"}},
	}.Normalize()
}

func fields(err error) []string {
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		return nil
	}
	var out []string
	for _, p := range invalid.Problems {
		out = append(out, p.Field)
	}
	return out
}

func TestDefaultsAreValid(t *testing.T) {
	if err := valid().Validate(AddressPolicy{}); err != nil {
		t.Error(err)
	}
}

func TestOneWrongField(t *testing.T) {
	http := func(change func(*HTTPTarget)) func(*Spec) {
		return func(s *Spec) { change(s.Target.HTTP) }
	}
	actor := func(change func(*ActorTarget)) func(*Spec) {
		return func(s *Spec) {
			s.Target = Target{Actor: &ActorTarget{Kind: "cart", Identity: "1"}, KeyLifetime: DefaultKeyLifetime}
			change(s.Target.Actor)
		}
	}
	cases := []struct {
		field string
		edit  func(*Spec)
	}{
		{"schedule_expr", func(s *Spec) { s.Schedule.Expr = "60 * * * *" }},
		{"time_zone", func(s *Spec) { s.Schedule.Zone = "Nowhere/Land" }},
		{"description", func(s *Spec) { s.Description = strings.Repeat("x", MaxDescription+1) }},
		{"description", func(s *Spec) { s.Description = "a\x1b[31m" }},
		{"description", func(s *Spec) { s.Description = "\xff" }},
		{"labels", func(s *Spec) { s.Labels = manyLabels(MaxLabels + 1) }},
		{"labels", func(s *Spec) { s.Labels = map[string]string{"": "x"} }},
		{"labels", func(s *Spec) { s.Labels = map[string]string{"a=b": "x"} }},
		{"labels", func(s *Spec) { s.Labels = map[string]string{"-a": "x"} }},
		{"labels", func(s *Spec) { s.Labels = map[string]string{strings.Repeat("a", 64): "x"} }},
		{"labels", func(s *Spec) { s.Labels = map[string]string{"a": strings.Repeat("x", 256)} }},
		{"labels", func(s *Spec) { s.Labels = map[string]string{"a": "x\ny"} }},
		{"target", func(s *Spec) { s.Target.HTTP = nil }},
		{"target.key_lifetime", func(s *Spec) { s.Target.KeyLifetime = time.Millisecond }},
		{"target.key_lifetime", func(s *Spec) { s.Target.KeyLifetime = MaxKeyLifetime + 1 }},
		{"target.http.method", http(func(h *HTTPTarget) { h.Method = "CONNECT" })},
		{"target.http.method", http(func(h *HTTPTarget) { h.Method = "post" })},
		{"target.http.url", http(func(h *HTTPTarget) { h.URL = "https://127.0.0.1" })},
		{"target.http.headers", http(func(h *HTTPTarget) { h.Headers = map[string]string{"Host": "x"} })},
		{"target.http.body", http(func(h *HTTPTarget) { h.Body = make([]byte, MaxBody+1) })},
		{"target.http.body", http(func(h *HTTPTarget) { h.Method, h.Body = "GET", []byte("x") })},
		{"target.http.body", http(func(h *HTTPTarget) { h.Body = []byte("\xff") })},
		{"target", func(s *Spec) { s.Target.Actor = &ActorTarget{Kind: "cart", Identity: "1"} }},
		{"target.actor.kind", actor(func(a *ActorTarget) { a.Kind = "" })},
		{"target.actor.kind", actor(func(a *ActorTarget) { a.Kind = "a/b" })},
		{"target.actor.identity", actor(func(a *ActorTarget) { a.Identity = "" })},
		{"target.actor.identity", actor(func(a *ActorTarget) { a.Identity = "ä" })},
		{"target.actor.identity", actor(func(a *ActorTarget) { a.Identity = strings.Repeat("x", MaxActorName+1) })},
		{"target.actor.payload", actor(func(a *ActorTarget) { a.Payload = make([]byte, MaxBody+1) })},
		{"target.actor.payload", actor(func(a *ActorTarget) { a.Payload = []byte("\xff") })},
		{"timeout", func(s *Spec) { s.Timeout = -1 }},
		{"timeout", func(s *Spec) { s.Timeout = 1 }},
		{"timeout", func(s *Spec) { s.Timeout = MaxTimeout + 1 }},
		{"timeout", func(s *Spec) { s.Timeout = 10 * 365 * 24 * time.Hour }},
		{"retry.max_attempts", func(s *Spec) { s.Retry.MaxAttempts = -1 }},
		{"retry.max_attempts", func(s *Spec) { s.Retry.MaxAttempts = 51 }},
		{"retry.max_attempts", func(s *Spec) { s.Retry.MaxAttempts = 1 << 31 }},
		{"retry.initial_backoff", func(s *Spec) { s.Retry.InitialBackoff = -time.Second }},
		{"retry.max_backoff", func(s *Spec) { s.Retry.MaxBackoff = math.MaxInt64 }},
		{"retry.max_backoff", func(s *Spec) { s.Retry.InitialBackoff, s.Retry.MaxBackoff = time.Hour, time.Minute }},
		{"retry.multiplier", func(s *Spec) { s.Retry.Multiplier = 0.5 }},
		{"retry.multiplier", func(s *Spec) { s.Retry.Multiplier = -400 }},
		{"retry.multiplier", func(s *Spec) { s.Retry.Multiplier = math.Inf(1) }},
		{"retry.multiplier", func(s *Spec) { s.Retry.Multiplier = math.NaN() }},
		{"retry.jitter", func(s *Spec) { s.Retry.Jitter = 1.01 }},
		{"retry.jitter", func(s *Spec) { s.Retry.Jitter = -0.5 }},
		{"retry.jitter", func(s *Spec) { s.Retry.Jitter = math.NaN() }},
		{"retry.max_elapsed", func(s *Spec) { s.Retry.MaxElapsed = -1 }},
		{"catch_up.policy", func(s *Spec) { s.CatchUp.Policy = "some" }},
		{"catch_up.max", func(s *Spec) { s.CatchUp.Max = 1001 }},
		{"catch_up.max", func(s *Spec) { s.CatchUp.Max = -1 }},
		{"catch_up.window", func(s *Spec) { s.CatchUp.Window = -1 }},
		{"catch_up.grace", func(s *Spec) { s.CatchUp.Grace = math.MaxInt64 }},
		{"max_outstanding", func(s *Spec) { s.MaxOutstanding = 101 }},
		{"max_outstanding", func(s *Spec) { s.MaxOutstanding = -1 }},
		{"on_open_circuit", func(s *Spec) { s.OnOpenCircuit = "explode" }},
		{"on_open_circuit", func(s *Spec) {
			s.Target = Target{Queue: &QueueTarget{Name: "emails"}, KeyLifetime: DefaultKeyLifetime}
			s.OnOpenCircuit = OpenCircuitFail
		}},
		{"overlap", func(s *Spec) { s.Overlap = "forbid" }},
		{"overlap_queue", func(s *Spec) { s.OverlapQueue = MaxOverlapQueue + 1 }},
		{"overlap_queue", func(s *Spec) { s.OverlapQueue = -1 }},
	}
	for i, c := range cases {
		s := valid()
		c.edit(&s)
		if got := fields(s.Validate(AddressPolicy{})); !slices.Equal(got, []string{c.field}) {
			t.Errorf("case %d: problems at %q, want one at %s", i, got, c.field)
		}
	}
}

func TestBoundsAreInside(t *testing.T) {
	s := valid()
	s.Description = strings.Repeat("x", MaxDescription)
	s.Labels = manyLabels(MaxLabels)
	s.Timeout = MaxTimeout
	s.Retry = RetryPolicy{MaxAttempts: 50, InitialBackoff: time.Millisecond, Multiplier: 1, MaxBackoff: MaxBackoffLimit, Jitter: NoJitter, MaxElapsed: MaxElapsedLimit}
	s.CatchUp = CatchUp{Policy: CatchUpAll, Max: 1000, Window: time.Millisecond, Grace: MaxGrace}
	s.MaxOutstanding = 1
	s.Overlap, s.OverlapQueue = OverlapQueued, MaxOverlapQueue
	s.Target.HTTP.Body = make([]byte, MaxBody)
	if err := s.Validate(AddressPolicy{}); err != nil {
		t.Error(err)
	}
	s.Target = Target{KeyLifetime: MinKeyLifetime, Actor: &ActorTarget{Kind: strings.Repeat("k", MaxActorName), Identity: "..", Payload: make([]byte, MaxBody)}}
	if err := s.Validate(AddressPolicy{}); err != nil {
		t.Error(err)
	}
}

func TestEveryProblemIsReported(t *testing.T) {
	s := valid()
	s.Schedule.Expr = "* *"
	s.Timeout = -1
	s.Retry.MaxAttempts = 99
	s.Target.HTTP.URL = "ftp://x"
	want := []string{"schedule_expr", "target.http.url", "timeout", "retry.max_attempts"}
	if got := fields(s.Validate(AddressPolicy{})); !slices.Equal(got, want) {
		t.Errorf("problems at %q, want %q", got, want)
	}
}

func manyLabels(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("team/%d", i)] = "bïlling"
	}
	return m
}

// TestIdle: what would have no effect is refused, and the same value where it has
// one, or is the default, is not.
func TestIdle(t *testing.T) {
	idle := []struct {
		field string
		edit  func(*Spec)
	}{
		{"overlap_queue", func(s *Spec) { s.Overlap, s.OverlapQueue = OverlapSkip, 5 }},
		{"overlap_queue", func(s *Spec) { s.Overlap, s.OverlapQueue = OverlapReplace, 5 }},
		{"starts_at", func(s *Spec) { s.DependsOn, s.Schedule.StartsAt = []string{"a"}, time.UnixMilli(1) }},
		{"ends_at", func(s *Spec) { s.DependsOn, s.Schedule.EndsAt = []string{"a"}, time.UnixMilli(1) }},
		{"exclude", func(s *Spec) { s.DependsOn, s.Schedule.Exclude = []string{"a"}, []Day{1} }},
		{"jitter", func(s *Spec) { s.DependsOn, s.Schedule.Jitter = []string{"a"}, time.Second }},
		{"max_runs", func(s *Spec) { s.DependsOn, s.MaxRuns = []string{"a"}, 5 }},
	}
	for _, c := range idle {
		s := valid()
		c.edit(&s)
		if got := fields(s.Normalize().Validate(AddressPolicy{})); !slices.Equal(got, []string{c.field}) {
			t.Errorf("problems at %q, want one at %s", got, c.field)
		}
	}
	for i, edit := range []func(*Spec){
		func(s *Spec) { s.Overlap, s.OverlapQueue = OverlapSkip, DefaultOverlapQueue },
		func(s *Spec) { s.Overlap, s.OverlapQueue = OverlapQueued, 5 },
		func(s *Spec) { s.Overlap, s.OverlapQueue = OverlapAllow, 5 }, // that many wait at max_outstanding
		func(s *Spec) { s.DependsOn = []string{"a"} },
		func(s *Spec) { s.Schedule.Exclude, s.Schedule.Jitter, s.MaxRuns = []Day{1}, time.Second, 5 },
	} {
		s := valid()
		edit(&s)
		if err := s.Normalize().Validate(AddressPolicy{}); err != nil {
			t.Errorf("case %d: %v", i, err)
		}
	}
}
