package partition

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// TestOutagesOverClockChanges: an outage over 0, 1, 99 or 1,001 slots, across each
// change of daylight saving, under each policy: what ran and what was missed is
// what a walk over every minute says.
func TestOutagesOverClockChanges(t *testing.T) {
	t.Parallel()
	const most = 50
	changes := []time.Time{time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)} // of Europe/Berlin
	for i, period := range map[int]time.Duration{2: 15 * time.Minute, 3: 24 * time.Hour} {
		o := oracles[i]
		for _, change := range changes {
			for _, n := range []int{0, 1, 99, 1001} {
				began := change.Add(-time.Duration(n/2)*period - 10*time.Minute).Add(250 * time.Millisecond)
				all := o.slots(began, began.Add(time.Duration(n+2)*period), began)
				ended := began.Add(time.Minute)
				if n > 0 {
					ended = all[n-1].Add(2 * time.Second) // later than the grace
				}
				want := map[job.CatchUpPolicy][]time.Time{
					job.CatchUpNone: nil, job.CatchUpLatest: all[max(n-1, 0):n], job.CatchUpAll: all[max(n-most, 0):n],
				}
				for policy, run := range want {
					catchUp := job.CatchUp{Policy: policy, Max: most, Window: 10_000 * time.Hour * 24, Grace: time.Second}
					if got, missed := o.outage(t, began, ended, catchUp); !slices.EqualFunc(got, run, time.Time.Equal) || missed != int64(n-len(run)) {
						t.Errorf("%s %s: %d slots to %s: %d missed, and sent %v, not %v", o.expr, policy, n, ended, missed, short(got), short(run))
					}
				}
			}
		}
	}
}

// outage plays one: which slots ran of those in it, and how many are recorded as
// missed.
func (o *oracle) outage(t *testing.T, began, ended time.Time, policy job.CatchUp) (ran []time.Time, missed int64) {
	w := startAt(t, began)
	w.register("a", o.expr, func(s *job.Spec) { s.Schedule.Zone, s.CatchUp = o.zone, policy })
	w.crash()
	w.now = ended
	w.boot()
	w.advance(time.Second)
	for _, d := range w.deliveries {
		ran = append(ran, d.slot)
	}
	for _, l := range w.lines("a") {
		if l.status == string(job.Missed) {
			missed += l.count
		}
	}
	return ran, missed
}

// short is the ends of a list.
func short(at []time.Time) string {
	if len(at) < 4 {
		return fmt.Sprint(at)
	}
	return fmt.Sprintf("%d from %s to %s", len(at), at[0], at[len(at)-1])
}
