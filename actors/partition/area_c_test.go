package partition

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// The rows of area C of the cases from the field that are no script: see
// testdata/area_c.txt, catchup.txt, clock.txt, pause.txt and update.txt for the
// others.

// startAt begins a world anew at an instant.
func startAt(t testing.TB, at time.Time) *world {
	w := newWorld(t)
	w.now = at
	w.crash()
	w.boot()
	return w
}

// C64: a machine that slept notices when it wakes, and its timers do not keep
// their old lengths. With a peer it is the peer that runs the slot: see
// TestNodePaused of chaos.
func TestCaseC64TheMachineSleeps(t *testing.T) {
	w := startAt(t, time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC))
	w.register("a", "5 12 * * *")
	w.now = w.now.Add(10 * time.Minute) // nobody wakes the state in between
	w.step(Tick{Judge: true})
	if len(w.deliveries) != 1 || !w.deliveries[0].slot.Equal(time.Date(2026, 1, 1, 12, 5, 0, 0, time.UTC)) {
		t.Fatalf("delivered %v", w.deliveries)
	}
}

// A decision takes no time and no room, however many slots were missed: one
// record, and what runs is a range.
func TestAnOutageOfAnyLength(t *testing.T) {
	for _, n := range []int64{0, 1, 99, 101, 1001, 241_920} {
		for _, policy := range []job.CatchUpPolicy{job.CatchUpLatest, job.CatchUpAll, job.CatchUpNone} {
			w := newWorld(t)
			w.register("a", "@every 5s", func(s *job.Spec) {
				s.CatchUp = job.CatchUp{Policy: policy, Max: 50, Window: time.Hour, Grace: time.Second}
			})
			w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result { return nil }
			w.crash()
			w.now = w.now.Add(time.Duration(n)*5*time.Second + 3*time.Second)
			began := time.Now()
			w.boot()
			if took := time.Since(began); took > time.Second {
				t.Errorf("%d slots under %s: decided in %s", n, policy, took)
			}
			run := map[job.CatchUpPolicy]int64{job.CatchUpLatest: min(n, 1), job.CatchUpAll: min(n, 50)}[policy]
			j, missed, records := w.state.jobs["a"], int64(0), 0
			for _, l := range w.lines("a") {
				if l.status == string(job.Missed) {
					missed, records = missed+l.count, records+1
				}
			}
			if missed != n-run || records > 1 {
				t.Errorf("%d slots under %s: %d missed in %d records", n, policy, missed, records)
			}
			if size := len(encode(j.state())); size > 4<<10 {
				t.Errorf("%d slots under %s: its state has %d bytes", n, policy, size)
			}
		}
	}
}

// C71 temporalio/temporal#11161: twelve backfills of 200 slots and one of 5,000 on
// one job while its schedule goes on. All end, no slot is lost or run twice, and
// live slots are on time, also with the owner lost in the middle.
func TestCaseC71ManyBackfills(t *testing.T) {
	w := startAt(t, time.Date(2026, 1, 20, 0, 0, 30, 0, time.UTC))
	w.register("a", "* * * * *", func(s *job.Spec) { s.MaxOutstanding = 1 })
	w.fate.outcome = func(*belfryv1.Delivery) *belfryv1.Result { return nil } // each call takes a second, below
	want := map[string]int{}
	ask := func(from time.Time, n int, concurrency int32) {
		a := w.ask(&belfryv1.Command{JobId: "a", Action: &belfryv1.Command_Backfill{Backfill: &belfryv1.AskBackfill{
			From: from.UnixMilli(), To: from.Add(time.Duration(n) * time.Minute).UnixMilli(), Concurrency: concurrency,
		}}})
		if a.GetBackfill().GetTotal() != int64(n) {
			t.Fatalf("answered %v", a)
		}
		want[a.GetBackfill().GetId()] = n
	}
	for i := range 12 {
		ask(w.now.AddDate(0, 0, -1-i), 200, 1)
	}
	ask(w.now.AddDate(0, 0, -15), 5000, 10)
	w.unchecked = true
	begun := w.now
	for second := 0; len(w.state.jobs["a"].unendedBackfills()) > 0; second++ {
		if second > 3600 {
			t.Fatalf("after an hour: %v", w.state.jobs["a"].past.backfills)
		}
		for _, id := range slices.Sorted(maps.Keys(w.running)) {
			if r := w.running[id]; !slices.ContainsFunc(w.held, func(h *belfryv1.Result) bool { return h.GetExecutionId() == id }) {
				w.finish(r.d, &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_SUCCEEDED}, w.state.life)
			}
		}
		w.step(Tick{})
		w.check(Tick{})
		if second == 100 {
			w.crash()
			w.boot()
		}
		w.advance(time.Second)
	}
	ran, live := map[string]int{}, 0
	for _, d := range w.deliveries {
		ref, _ := job.ParseExecutionID(d.id)
		if ref.Kind == job.Backfilled {
			ran[d.id]++
		} else if live++; !d.at.Equal(d.slot) {
			t.Errorf("the live slot %s was sent at %s", d.slot, d.at)
		}
	}
	if due := int(w.now.Sub(begun) / time.Minute); live < due {
		t.Errorf("%d live slots ran, of %d", live, due)
	}
	if len(ran) != 12*200+5000 {
		t.Errorf("%d executions of backfills", len(ran))
	}
	for _, b := range w.state.jobs["a"].past.backfills {
		if b.GetSucceeded() != int64(want[b.GetId()]) {
			t.Errorf("%v, want %d", b, want[b.GetId()])
		}
	}
}

// C73: whatever keeps a job from being sent when it is due, a busy node among it,
// makes it late and not lost.
func TestCaseC73LateIsNotLost(t *testing.T) {
	for _, late := range []time.Duration{1500 * time.Millisecond, 30 * time.Second, 10 * time.Minute} {
		w := startAt(t, time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC))
		w.register("a", "0 12 * * *")
		w.step(Workers{List: []Worker{{ID: w.worker, Draining: true}}}) // no slot
		w.advance(time.Hour + late)
		if len(w.deliveries) != 0 {
			t.Fatal("a draining worker was sent something")
		}
		w.step(Workers{List: []Worker{{ID: w.worker}}})
		w.advance(5 * time.Second)
		l := w.lines("a")
		if len(w.deliveries) != 1 || len(l) != 1 || l[0].status != string(job.Succeeded) {
			t.Errorf("%s late: delivered %v, recorded %v", late, w.deliveries, l)
		}
	}
}

// oracle knows when a job is due without the code that decides it: every minute
// or second is looked at.
type oracle struct {
	expr, zone string
	every      time.Duration // between the instants that are looked at
	due        func(at, origin time.Time, loc *time.Location) bool
}

var oracles = []oracle{
	{"* * * * *", "UTC", time.Minute, func(time.Time, time.Time, *time.Location) bool { return true }},
	{"@every 5s", "UTC", 5 * time.Second, func(at, origin time.Time, _ *time.Location) bool { return at.Sub(origin)%(5*time.Second) == 0 }},
	{"*/15 * * * *", "Europe/Berlin", time.Minute, func(at, _ time.Time, loc *time.Location) bool { return at.In(loc).Minute()%15 == 0 }},
	{"30 2 * * *", "Europe/Berlin", time.Minute, func(at, _ time.Time, loc *time.Location) bool {
		wall := func(at time.Time) string { return at.In(loc).Format("15:04") }
		switch wall(at) {
		case "02:30":
			return wall(at.Add(-time.Hour)) != "02:30" // the first of two
		case "03:00":
			return wall(at.Add(-time.Minute)) == "01:59" // there was no 02:30
		}
		return false
	}},
	{"0 */6 * * *", "America/New_York", time.Minute, func(at, _ time.Time, loc *time.Location) bool {
		local := at.In(loc)
		return local.Hour()%6 == 0 && local.Minute() == 0
	}},
}

// slots are those in (after, through].
func (o *oracle) slots(after, through, origin time.Time) (out []time.Time) {
	loc, err := time.LoadLocation(o.zone)
	if err != nil {
		panic(err)
	}
	for at := after.Truncate(o.every).Add(o.every); !at.After(through); at = at.Add(o.every) {
		if at.After(after) && o.due(at, origin, loc) {
			out = append(out, at)
		}
	}
	return out
}

// TestCatchUpAsTheOracleSays plays outages of seconds to days, steps of the clock
// both ways and calm stretches over changes of daylight saving, under every
// policy. What ran and what was missed is exactly what a walk over every minute
// says (C20 of the checker), each slot once, in order, under its own name.
func TestCatchUpAsTheOracleSays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { playCatchUp(t, seeded(seed)) })
	}
}

func playCatchUp(t *testing.T, r *rand.Rand) {
	o := oracles[r.IntN(len(oracles))]
	origin := []time.Time{time.Date(2026, 3, 27, 10, 0, 0, 0, time.UTC), time.Date(2026, 10, 23, 10, 0, 0, 0, time.UTC)}[r.IntN(2)]
	w := startAt(t, origin)
	policy := job.CatchUp{
		Policy: []job.CatchUpPolicy{job.CatchUpLatest, job.CatchUpAll, job.CatchUpNone}[r.IntN(3)],
		Max:    1 + r.IntN(20), Window: time.Duration(1+r.IntN(48)) * time.Hour, Grace: time.Duration(1+r.IntN(300)) * time.Second,
	}
	w.register("a", o.expr, func(s *job.Spec) { s.Schedule.Zone, s.CatchUp = o.zone, policy })
	// A quarter of a second off, so that nothing is ever armed ahead when the owner
	// is lost or the clock is stepped.
	w.advance(250 * time.Millisecond)
	cursor := origin
	ran, missed := map[time.Time]bool{}, map[time.Time]bool{}
	judge := func(all bool) {
		slots := o.slots(cursor, w.now, origin)
		run := slots
		switch {
		case len(slots) == 0 || all || w.now.Sub(slots[0]) <= policy.Grace:
		case policy.Policy == job.CatchUpNone:
			run = nil
		case policy.Policy == job.CatchUpLatest:
			run = slots[len(slots)-1:]
		default:
			for len(run) > policy.Max || len(run) > 0 && w.now.Sub(run[0]) > policy.Window {
				run = run[1:]
			}
		}
		for _, at := range slots[:len(slots)-len(run)] {
			missed[at] = true
		}
		for _, at := range run {
			ran[at] = true
		}
		if w.now.After(cursor) {
			cursor = w.now
		}
	}
	gap := func() time.Duration {
		return []time.Duration{time.Duration(r.IntN(600)) * time.Second, time.Duration(r.IntN(600)) * time.Minute, time.Duration(r.IntN(72)) * time.Hour}[r.IntN(3)]
	}
	for range 12 {
		sent := len(w.deliveries)
		switch r.IntN(5) {
		case 0, 1:
			w.crash()
			w.now = w.now.Add(gap())
			w.boot()
			judge(false)
		case 2:
			w.now = w.now.Add(min(gap(), 24*time.Hour))
			w.step(Tick{Judge: true})
			judge(false)
		case 3:
			w.now = w.now.Add(-time.Duration(r.IntN(7200)) * time.Second)
			w.step(Tick{Judge: true})
			judge(false)
		default:
			w.advance(time.Duration(r.IntN(1800)) * time.Second)
			judge(true)
		}
		if !slices.IsSortedFunc(w.deliveries[sent:], func(a, b delivery) int { return a.slot.Compare(b.slot) }) {
			t.Fatalf("sent in the order %v", w.deliveries[sent:])
		}
	}
	for _, d := range w.deliveries {
		if id := job.ScheduledID("a", w.state.jobs["a"].gen, d.slot); d.id != id || !ran[d.slot] {
			t.Fatalf("%+v %s: %s was sent under the name of %s, wanted: %t", policy, o.expr, d.id, d.slot, ran[d.slot])
		}
		delete(ran, d.slot)
	}
	if len(ran) > 0 {
		t.Fatalf("%+v %s: not sent: %v", policy, o.expr, slices.SortedFunc(maps.Keys(ran), time.Time.Compare))
	}
	total, want := int64(0), int64(len(missed))
	for _, l := range w.lines("a") {
		if l.status != string(job.Missed) {
			continue
		}
		total += l.count
		for at := range missed {
			if !at.Before(time.UnixMilli(l.first)) && !at.After(time.UnixMilli(l.last)) {
				delete(missed, at)
			}
		}
	}
	if len(missed) > 0 || total != want {
		t.Fatalf("%+v %s: not recorded as missed: %v; %d are, of %d", policy, o.expr, missed, total, want)
	}
}
