package messages

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// specs draws normalised registrations.
func specs(t *rapid.T) job.Spec {
	ms := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, name)) * time.Millisecond
	}
	at := func(name string) time.Time { return job.Instant(rapid.Int64Range(0, 1<<42).Draw(t, name)) }
	body := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "body")
	target := job.Target{HTTP: &job.HTTPTarget{
		Method: "PUT", URL: rapid.String().Draw(t, "url"), Headers: rapid.MapOfN(rapid.String(), rapid.String(), 1, 3).Draw(t, "headers"), Body: body,
	}}
	if rapid.Bool().Draw(t, "actor") {
		target = job.Target{Actor: &job.ActorTarget{Kind: rapid.String().Draw(t, "kind"), Identity: rapid.String().Draw(t, "identity"), Payload: body}}
	}
	target.KeyLifetime = ms("key lifetime")
	return job.Spec{
		Description: rapid.String().Draw(t, "description"),
		Labels:      rapid.MapOfN(rapid.String(), rapid.String(), 1, 3).Draw(t, "labels"),
		Schedule: job.Timing{
			Expr: rapid.String().Draw(t, "expr"), Seconds: rapid.Bool().Draw(t, "seconds"), Zone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin"}).Draw(t, "zone"),
			Gap:      rapid.SampledFrom([]job.GapRule{job.GapRunAfter, job.GapSkip}).Draw(t, "gap"),
			Fold:     rapid.SampledFrom([]job.FoldRule{job.FoldFirst, job.FoldBoth}).Draw(t, "fold"),
			StartsAt: at("starts"), EndsAt: at("ends"), Anchor: at("anchor"), Jitter: ms("jitter of the schedule"),
			Exprs:   rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "exprs"),
			Exclude: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) job.Day { return job.Day(rapid.IntRange(0, 200_000).Draw(t, "day")) }), 1, 5).Draw(t, "exclude"),
		},
		Target:         target,
		Timeout:        ms("timeout"),
		MaxOutstanding: rapid.IntRange(1, 100).Draw(t, "outstanding"),
		MaxRuns:        rapid.Int64Range(0, 1<<40).Draw(t, "runs"),
		Overlap:        rapid.SampledFrom([]job.Overlap{job.OverlapAllow, job.OverlapSkip, job.OverlapQueued, job.OverlapReplace}).Draw(t, "overlap"),
		OverlapQueue:   rapid.IntRange(1, 98).Draw(t, "queue"),
		Retry: job.RetryPolicy{
			MaxAttempts: rapid.IntRange(1, 50).Draw(t, "attempts"), InitialBackoff: ms("initial"), Multiplier: rapid.Float64Range(1, 100).Draw(t, "multiplier"),
			MaxBackoff: ms("max"), Jitter: rapid.SampledFrom([]float64{job.NoJitter, 0.2, 1}).Draw(t, "jitter"), MaxElapsed: ms("elapsed"),
		},
		CatchUp: job.CatchUp{
			Policy: rapid.SampledFrom([]job.CatchUpPolicy{job.CatchUpAll, job.CatchUpLatest, job.CatchUpNone}).Draw(t, "policy"),
			Max:    rapid.IntRange(1, 1000).Draw(t, "most"), Window: ms("window"), Grace: ms("grace"),
		},
		RateLimit:     rapid.SampledFrom([]job.RateLimit{{}, {PerSecond: 0.25, Burst: 1}, {PerSecond: 10, Burst: 20}}).Draw(t, "rate limit"),
		OnOpenCircuit: rapid.SampledFrom([]job.OpenCircuit{job.OpenCircuitWait, job.OpenCircuitFail}).Draw(t, "open circuit"),
	}
}

// TestSpecRoundTrip: what is stored is what was registered.
func TestSpecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := specs(t)
		stored, err := proto.Marshal(Spec(want))
		if err != nil {
			t.Fatal(err)
		}
		sp, _, err := DecodeJob(stored, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := FromSpec(sp); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestExecutionIDOfAFlight(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hash := job.CommandHash("command")
	for want, f := range map[string]*belfryv1.InFlight{
		job.ScheduledID("a", 9, at):         {ScheduledFor: at.UnixMilli()},
		job.ManualID("a", 9, "command", at): {ScheduledFor: at.UnixMilli(), Kind: belfryv1.InFlight_KIND_MANUAL, Hash: hash},
		"a~8~20260101T000000.000Z":          {ScheduledFor: at.UnixMilli(), ExecutionId: "a~8~20260101T000000.000Z"},
	} {
		if got := ExecutionID("a", 9, f); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestUnreadableRows(t *testing.T) {
	if _, _, err := DecodeJob([]byte{0xff}, nil); err == nil {
		t.Error("a broken spec was read")
	}
	if _, _, err := DecodeJob(nil, []byte{0xff}); err == nil {
		t.Error("a broken state was read")
	}
	if Outcome(99) != job.AttemptUnknown {
		t.Error("an outcome of a newer node is not unknown")
	}
}

// FuzzDecodeJob: a row that can be read is written and read back as it was, with
// what a newer node has put there.
func FuzzDecodeJob(f *testing.F) {
	good, _ := proto.Marshal(Spec(job.Spec{Schedule: job.Timing{Expr: "* * * * *"}}.Normalize()))
	f.Add(good, []byte{})
	f.Add([]byte{0x0a, 0xff}, []byte{0x80})
	f.Fuzz(func(t *testing.T, spec, state []byte) {
		sp, st, err := DecodeJob(spec, state)
		if err != nil {
			return
		}
		FromSpec(sp)
		spec, _ = proto.Marshal(sp)
		state, _ = proto.Marshal(st)
		if sp2, st2, err := DecodeJob(spec, state); err != nil || !proto.Equal(sp, sp2) || !proto.Equal(st, st2) {
			t.Fatalf("%v became %v, and %v became %v, %v", sp, sp2, st, st2, err)
		}
	})
}
