package job

import (
	"strings"
	"testing"
	"time"
)

func TestPlanBackfill(t *testing.T) {
	now, day := date(2026, 4, 1), 24*time.Hour
	berlin := compile(t, Timing{Expr: "30 2 * * *", Zone: "Europe/Berlin"})
	skip := compile(t, Timing{Expr: "30 2 * * *", Zone: "Europe/Berlin", Gap: GapSkip})
	second := compile(t, Timing{Expr: "* * * * * *", Seconds: true})
	cases := []struct {
		name     string
		s        *Schedule
		from, to time.Time
		count    int64
		field    string // of the refusal
	}{
		{"the gap fires after it", berlin, date(2026, 3, 28), date(2026, 3, 31), 3, ""},
		{"the gap is skipped", skip, date(2026, 3, 28), date(2026, 3, 31), 2, ""},
		{"from is in and to is not", second, now.Add(-2 * time.Second), now.Add(-time.Second), 1, ""},
		{"a nanosecond later from is not", second, now.Add(-2*time.Second + 1), now.Add(-time.Second + 1), 1, ""},
		{"up to now", berlin, date(2026, 3, 31), now, 1, ""},
		{"the most", second, now.Add(-MaxBackfillSlots * time.Second), now, MaxBackfillSlots, ""},
		{"one more", second, now.Add(-(MaxBackfillSlots + 1) * time.Second), now, 0, "to"},
		{"empty", berlin, now.Add(-day), now.Add(-day), 0, "to"},
		{"the wrong way round", berlin, now, now.Add(-day), 0, "to"},
		{"of the future", berlin, now.Add(-day), now.Add(time.Millisecond), 0, "to"},
		{"older than history", berlin, now.Add(-30*day - 1), now, 0, "from"},
		{"no slot", berlin, now.Add(-20 * time.Hour), now.Add(-19 * time.Hour), 0, "from"},
		{"before an interval began", compile(t, Timing{Expr: "@every 1h", Anchor: now.Add(-time.Hour)}), now.Add(-day), now, 0, "from"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, err := PlanBackfill(c.s, c.from, c.to, now, 30*day)
			if bad, _ := err.(*Invalid); (bad == nil) != (c.field == "") || bad != nil && bad.Problems[0].Field != c.field {
				t.Fatalf("refused: %v, want about %q", err, c.field)
			}
			if m.Count != c.count {
				t.Errorf("%d slots, want %d", m.Count, c.count)
			}
		})
	}
}

func TestBackfillIDs(t *testing.T) {
	slot := date(2026, 3, 29)
	h := BackfillHash(CommandHash("c"), slot)
	id := MarkedID(Backfilled, strings.Repeat("j", MaxJobID), 1<<62, h, slot)
	ref, ok := ParseExecutionID(id)
	if !ok || ref.Kind != Backfilled || ref.Hash != h || !ref.At.Equal(slot) || ref.Generation != 1<<62 {
		t.Errorf("%q is %+v, %t", id, ref, ok)
	}
	if h == BackfillHash(CommandHash("c"), slot.Add(time.Hour)) || h == BackfillHash(CommandHash("d"), slot) {
		t.Error("two executions have one hash")
	}
}
