package job

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// defaults is the catch-up of a job that says nothing about it.
func defaults(policy CatchUpPolicy) CatchUp {
	return CatchUp{Policy: policy, Max: DefaultCatchUpMax, Window: DefaultCatchUpWindow, Grace: DefaultGrace}
}

func TestPlanCatchUp(t *testing.T) {
	at := func(text string) time.Time { return instant(t, "2026-01-01T"+text+"Z") }
	minutely := compile(t, Timing{Expr: "* * * * *"})
	cases := []struct {
		name        string
		s           *Schedule
		p           CatchUp
		cursor, now time.Time
		want        CatchUpPlan
	}{
		{"nothing missed", minutely, defaults(CatchUpAll), at("00:00:00"), at("00:00:59.999"), CatchUpPlan{}},
		{"cursor ahead of now", minutely, defaults(CatchUpAll), at("01:00:00"), at("00:00:00"), CatchUpPlan{}},
		{"a slot at now itself", minutely, CatchUp{Policy: CatchUpNone}, at("00:00:00"), at("00:01:00"),
			CatchUpPlan{Late: true, OldestSlot: at("00:01:00"), RunFrom: at("00:01:00"), RunTo: at("00:01:00"), RunCount: 1}},
		{"within grace every policy runs all", minutely, CatchUp{Policy: CatchUpNone, Grace: 5 * time.Minute}, at("00:00:00"), at("00:06:00"),
			CatchUpPlan{Late: true, OldestSlot: at("00:01:00"), RunFrom: at("00:01:00"), RunTo: at("00:06:00"), RunCount: 6}},
		{"just over grace", minutely, CatchUp{Policy: CatchUpNone, Grace: 5 * time.Minute}, at("00:00:00"), at("00:06:00.001"),
			CatchUpPlan{OldestSlot: at("00:01:00"), Missed: MissedRange{at("00:01:00"), at("00:06:00"), 6}}},

		// C55 kubernetes/kubernetes#42649: more than a hundred missed slots.
		{"C55 latest", minutely, defaults(CatchUpLatest), at("00:00:00"), at("01:41:30"),
			CatchUpPlan{OldestSlot: at("00:01:00"), Missed: MissedRange{at("00:01:00"), at("01:40:00"), 100}, RunFrom: at("01:41:00"), RunTo: at("01:41:00"), RunCount: 1}},
		{"C55 none", minutely, defaults(CatchUpNone), at("00:00:00"), at("01:41:30"),
			CatchUpPlan{OldestSlot: at("00:01:00"), Missed: MissedRange{at("00:01:00"), at("01:41:00"), 101}}},
		{"C55 all, at most ten", minutely, CatchUp{Policy: CatchUpAll, Max: 10, Window: 24 * time.Hour, Grace: 30 * time.Second}, at("00:00:00"), at("01:41:30"),
			CatchUpPlan{OldestSlot: at("00:01:00"), Missed: MissedRange{at("00:01:00"), at("01:31:00"), 91}, RunFrom: at("01:32:00"), RunTo: at("01:41:00"), RunCount: 10}},
		// C56 quartz-scheduler/quartz#239: nothing is replayed.
		{"C56 none", minutely, defaults(CatchUpNone), at("12:00:00"), at("12:04:42"),
			CatchUpPlan{OldestSlot: at("12:01:00"), Missed: MissedRange{at("12:01:00"), at("12:04:00"), 4}}},
		// C62 robfig/cron#26: the clock steps an hour.
		{"C62 latest", compile(t, Timing{Expr: "@every 5s", Anchor: at("00:00:00")}), defaults(CatchUpLatest), at("12:00:00"), at("13:00:02"),
			CatchUpPlan{OldestSlot: at("12:00:05"), Missed: MissedRange{at("12:00:05"), at("12:59:55"), 719}, RunFrom: at("13:00:00"), RunTo: at("13:00:00"), RunCount: 1}},

		{"all, the window is shorter than max", minutely, CatchUp{Policy: CatchUpAll, Max: 100, Window: 3 * time.Minute, Grace: time.Second}, at("00:00:00"), at("01:00:00"),
			CatchUpPlan{OldestSlot: at("00:01:00"), Missed: MissedRange{at("00:01:00"), at("00:56:00"), 56}, RunFrom: at("00:57:00"), RunTo: at("01:00:00"), RunCount: 4}},
		{"all, nothing within the window", compile(t, Timing{Expr: "@daily"}), CatchUp{Policy: CatchUpAll, Max: 100, Window: time.Hour}, at("00:00:00").AddDate(0, 0, -1), at("09:00:00"),
			CatchUpPlan{OldestSlot: at("00:00:00"), Missed: MissedRange{at("00:00:00"), at("00:00:00"), 1}}},
		{"all, everything fits", minutely, defaults(CatchUpAll), at("00:00:00"), at("00:05:30"),
			CatchUpPlan{OldestSlot: at("00:01:00"), RunFrom: at("00:01:00"), RunTo: at("00:05:00"), RunCount: 5}},
		{"all, max 0", minutely, CatchUp{Policy: CatchUpAll, Window: time.Hour}, at("00:00:00"), at("00:02:30"),
			CatchUpPlan{OldestSlot: at("00:01:00"), Missed: MissedRange{at("00:01:00"), at("00:02:00"), 2}}},
		{"no policy is latest", minutely, CatchUp{}, at("00:00:00"), at("00:02:30"),
			CatchUpPlan{OldestSlot: at("00:01:00"), Missed: MissedRange{at("00:01:00"), at("00:01:00"), 1}, RunFrom: at("00:02:00"), RunTo: at("00:02:00"), RunCount: 1}},
		// C58 quartz-scheduler/quartz#49: the slot keeps its own instant.
		{"C58 latest", compile(t, Timing{Expr: "0 0 * * *"}), defaults(CatchUpLatest), at("00:00:00").Add(-time.Hour), at("09:00:00"),
			CatchUpPlan{OldestSlot: at("00:00:00"), RunFrom: at("00:00:00"), RunTo: at("00:00:00"), RunCount: 1}},
		{"one-time", compile(t, Timing{Expr: "2026-01-01T00:00:00Z"}), defaults(CatchUpLatest), at("00:00:00").AddDate(-1, 0, 0), at("09:00:00"),
			CatchUpPlan{OldestSlot: at("00:00:00"), RunFrom: at("00:00:00"), RunTo: at("00:00:00"), RunCount: 1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, PlanCatchUp(c.s, c.p, c.cursor, c.now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// C61 riverqueue/river#1035: two weeks of five seconds are 241,920 slots; the
// plan is as small as any.
func TestCaseC61LongOutage(t *testing.T) {
	start := date(2026, 1, 1)
	now := start.AddDate(0, 0, 14)
	for _, timing := range []Timing{{Expr: "@every 5s", Anchor: start}, {Expr: "*/5 * * * * *", Seconds: true}, {Expr: "*/5 * * * * *", Seconds: true, Zone: "Europe/Berlin"}} {
		s := compile(t, timing)
		plan := PlanCatchUp(s, defaults(CatchUpLatest), start, now)
		if plan.Missed.Count != 241_919 || plan.RunCount != 1 || !plan.RunFrom.Equal(now) {
			t.Errorf("latest: %+v", plan)
		}
		plan = PlanCatchUp(s, CatchUp{Policy: CatchUpAll, Max: 100, Window: time.Hour, Grace: 30 * time.Second}, start, now)
		if plan.Missed.Count != 241_820 || plan.RunCount != 100 || !plan.RunFrom.Equal(now.Add(-495*time.Second)) || !plan.RunTo.Equal(now) {
			t.Errorf("all: %+v", plan)
		}
		if n := testing.AllocsPerRun(10, func() { PlanCatchUp(s, defaults(CatchUpAll), start, now) }); n > 0 {
			t.Errorf("a plan allocates %v times", n)
		}
	}
}

// Fifty years of seconds with catch-up all: the registration that asks for it
// is answered like any other.
func TestCatchUpOfFiftyYears(t *testing.T) {
	s := compile(t, Timing{Expr: "* * * * * *", Seconds: true, Zone: "America/New_York", StartsAt: date(1976, 1, 1)})
	plan := PlanCatchUp(s, CatchUp{Policy: CatchUpAll, Max: 1000, Window: 24 * time.Hour}, date(1970, 1, 1), date(2026, 1, 1))
	if plan.RunCount != 1000 || plan.Missed.Count != int64(date(2026, 1, 1).Sub(date(1976, 1, 1))/time.Second)+1-1000 {
		t.Errorf("%+v", plan)
	}
}

// The plan is what a walk over every slot would decide.
func TestPlanAgreesWithAWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := compile(t, Timing{
			Expr: rapid.SampledFrom([]string{"*/7 * * * *", "30 1,2 * * *", "@every 11m", "0 */3 * * 1-5"}).Draw(t, "expr"),
			Zone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Australia/Lord_Howe"}).Draw(t, "zone"),
		})
		p := CatchUp{
			Policy: rapid.SampledFrom([]CatchUpPolicy{CatchUpLatest, CatchUpAll, CatchUpNone}).Draw(t, "policy"),
			Max:    rapid.IntRange(0, 30).Draw(t, "max"),
			Window: time.Duration(rapid.Int64Range(0, int64(72*time.Hour)).Draw(t, "window")),
			Grace:  time.Duration(rapid.Int64Range(0, int64(4*time.Hour)).Draw(t, "grace")),
		}
		cursor := date(2026, 3, 27).Add(time.Duration(rapid.Int64Range(0, int64(72*time.Hour)).Draw(t, "cursor")))
		now := cursor.Add(time.Duration(rapid.Int64Range(0, int64(72*time.Hour)).Draw(t, "outage")))
		if diff := cmp.Diff(walkPlan(s, p, cursor, now), PlanCatchUp(s, p, cursor, now)); diff != "" {
			t.Fatalf("%+v from %v to %v:\n%s", p, cursor, now, diff)
		}
	})
}

func walkPlan(s *Schedule, p CatchUp, cursor, now time.Time) CatchUpPlan {
	var slots []time.Time
	for at, ok := s.Next(cursor); ok && !at.After(now); at, ok = s.Next(at) {
		slots = append(slots, at)
	}
	if len(slots) == 0 {
		return CatchUpPlan{}
	}
	plan := CatchUpPlan{OldestSlot: slots[0], Late: now.Sub(slots[0]) <= p.Grace}
	run := slots
	switch {
	case plan.Late:
	case p.Policy == CatchUpNone:
		run = nil
	case p.Policy == CatchUpLatest:
		run = slots[len(slots)-1:]
	default:
		for len(run) > p.Max || len(run) > 0 && now.Sub(run[0]) > p.Window {
			run = run[1:]
		}
	}
	if len(run) > 0 {
		plan.RunFrom, plan.RunTo, plan.RunCount = run[0], run[len(run)-1], len(run)
	}
	if missed := slots[:len(slots)-len(run)]; len(missed) > 0 {
		plan.Missed = MissedRange{First: missed[0], Last: missed[len(missed)-1], Count: int64(len(missed))}
	}
	return plan
}
