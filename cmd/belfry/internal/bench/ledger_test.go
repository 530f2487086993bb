package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// t0 is when the first delivery of the tests' plans is due.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC)

func plan(jobs, slots int) Plan {
	return Plan{Prefix: "b-", Jobs: jobs, Slots: slots, Every: time.Second, First: func(i int) time.Time { return t0.Add(time.Duration(i) * 2 * time.Millisecond) }}
}

// arrive records delivery n of a plan, so much after it was due.
func arrive(l *Ledger, n int, late time.Duration, key string) {
	due := l.plan.Due(n)
	l.Record(Receipt{JobID: l.plan.JobID(n / l.plan.Slots), ScheduledFor: due.Format(time.RFC3339Nano), Key: key, At: due.Add(late)})
}

func TestThePlanFindsItsDeliveriesAndNothingElse(t *testing.T) {
	t.Parallel()
	p := plan(3, 4)
	for n := range p.Total() {
		if got, ok := p.Find(p.JobID(n/4), p.Due(n)); !ok || got != n {
			t.Errorf("delivery %d was found as %d, %v", n, got, ok)
		}
	}
	for what, c := range map[string]struct {
		id string
		at time.Time
	}{
		"one millisecond off": {p.JobID(0), t0.Add(time.Millisecond)},
		"before the first":    {p.JobID(0), t0.Add(-time.Second)},
		"after the last":      {p.JobID(0), t0.Add(4 * time.Second)},
		"another job":         {p.JobID(3), t0.Add(6 * time.Millisecond)},
		"another run":         {"c-00000000", t0},
		"a short id":          {"b-0", t0},
		"a negative id":       {"b--0000001", t0},
	} {
		if n, ok := p.Find(c.id, c.at); ok {
			t.Errorf("%s was found as %d", what, n)
		}
	}
}

func TestTheLedgerCountsEachLie(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrive func(l *Ledger)
		want   Verdict
	}{
		"all well": {func(*Ledger) {}, Verdict{}},
		"early by a nanosecond": {
			func(l *Ledger) { arrive(l, 9, -time.Nanosecond, "x9") }, Verdict{Early: 1},
		},
		"due to the nanosecond": {func(l *Ledger) { arrive(l, 9, 0, "x9") }, Verdict{}},
		"late":                  {func(l *Ledger) { arrive(l, 9, 1001*time.Millisecond, "x9") }, Verdict{Late: 1}},
		"missing":               {func(*Ledger) {}, Verdict{Missing: 1}},
		"the same key again":    {func(l *Ledger) { arrive(l, 9, 1, "x9"); arrive(l, 9, 2, "x9") }, Verdict{DoubledKeys: 1, DoubledSlots: 1}},
		"a second key":          {func(l *Ledger) { arrive(l, 9, 1, "x9"); arrive(l, 9, 2, "y9") }, Verdict{DoubledSlots: 1, DoubledIDs: 1}},
		"one key for two":       {func(l *Ledger) { arrive(l, 9, 1, "x8") }, Verdict{DoubledKeys: 1, DoubledIDs: 1}},
		"an early second one":   {func(l *Ledger) { arrive(l, 9, 1, "x9"); arrive(l, 9, -1, "y9") }, Verdict{Early: 1, DoubledSlots: 1, DoubledIDs: 1}},
		"another instant": {
			func(l *Ledger) {
				l.Record(Receipt{JobID: "b-00000000", ScheduledFor: "2026-01-02T03:04:05Z", Key: "z"})
			}, Verdict{Unexpected: 1, Missing: 1},
		},
		"no instant": {
			func(l *Ledger) { l.Record(Receipt{JobID: "b-00000000", Key: "z"}) }, Verdict{Unexpected: 1, Missing: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := NewLedger(plan(5, 2))
			for n := range 9 {
				arrive(l, n, time.Millisecond, "x"+count(n))
			}
			c.arrive(l)
			got := l.Judge(time.Second)
			if name == "all well" {
				arrive(l, 9, time.Millisecond, "x9")
				got = l.Judge(time.Second)
			}
			type counts struct{ Early, Late, Missing, DoubledKeys, DoubledSlots, DoubledIDs, Unexpected int }
			of := func(v Verdict) counts {
				return counts{v.Early, v.Late, v.Missing, v.DoubledKeys, v.DoubledSlots, v.DoubledIDs, v.Unexpected}
			}
			if diff := cmp.Diff(of(c.want), of(got)); diff != "" {
				t.Error(diff)
			}
			if broken := len(got.Broken()) > 0; broken != (of(c.want) != counts{Late: c.want.Late}) {
				t.Errorf("Broken = %v", got.Broken())
			}
			got.Repeats = true
			fine := of(c.want) == counts{Late: c.want.Late} || of(c.want) == counts{DoubledKeys: 1, DoubledSlots: 1}
			if broken := len(got.Broken()) > 0; broken == fine {
				t.Errorf("where repeats may be: Broken = %v", got.Broken())
			}
		})
	}
}

func TestCompleteIsTheLastFirstReceipt(t *testing.T) {
	t.Parallel()
	l := NewLedger(plan(1, 2))
	arrive(l, 0, 0, "a")
	arrive(l, 0, 0, "a")
	select {
	case <-l.Complete():
		t.Fatal("one delivery is still missing")
	default:
	}
	arrive(l, 1, 0, "b")
	<-l.Complete()
	if v := l.Judge(time.Second); v.PerSecond() != 2 {
		t.Errorf("2 deliveries in 1 s are %v/s", v.PerSecond())
	}
}

func TestPercentilesAreExact(t *testing.T) {
	t.Parallel()
	var d []time.Duration
	for i := 1000; i > 0; i-- {
		d = append(d, time.Duration(i))
	}
	got := Distribute(d)
	for share, want := range map[float64]time.Duration{0: 1, 0.001: 1, 0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got.At(share) != want {
			t.Errorf("At(%v) = %d, want %d", share, got.At(share), want)
		}
	}
	if one := Distribute([]time.Duration{7}); one.At(0.5) != 7 || one.Max() != 7 || Distribute(nil).Max() != 0 {
		t.Error("the distribution of one, or of none")
	}
}

func TestPartOfAPlanIsJudgedAlone(t *testing.T) {
	t.Parallel()
	l := NewLedger(plan(1, 3))
	arrive(l, 0, time.Millisecond, "a")
	for until, want := range map[time.Time][2]int{
		t0: {0, 0}, t0.Add(time.Nanosecond): {1, 0}, t0.Add(time.Second): {1, 0}, t0.Add(time.Second + 1): {2, 1}, {}: {3, 2},
	} {
		if v := l.JudgeUntil(time.Second, until); [2]int{v.Expected, v.Missing} != want {
			t.Errorf("until %s: %d expected, %d missing, not %v", until, v.Expected, v.Missing, want)
		}
	}
}
