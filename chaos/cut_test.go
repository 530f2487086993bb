package chaos

import (
	"slices"
	"testing"
	"time"
)

// cutHistory has nothing wrong: n1 owns the one job and is cut off from 5.2 s to
// 15 s. It sends slots 6 and 7 while it trusts its last sign of life; n2 takes
// over at 8.2 s, and sends 7, which it knows nothing of, again, and what follows.
func cutHistory() History {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }
	job := Interval{Job: "a", First: t0, Every: time.Second, Until: at(20)}
	h := History{Jobs: []Interval{job}, Records: map[string][]Record{}, InFlight: time.Second, Partitions: 16, Faults: []Fault{{CutOff, "n1", at(5.2), at(15)}}}
	p := h.partition("a")
	h.Takeovers = []Takeover{{p, 1, "n1", t0}, {p, 5, "n2", at(8.2)}}
	for i, slot := range job.slots() {
		id := "a~1~" + slot.Format("20060102T150405.000Z")
		h.Records["a"] = append(h.Records["a"], Record{ExecutionID: id, ScheduledFor: slot, Status: "succeeded", AttemptCount: 1})
		r := Receipt{Execution: id, Job: "a", Key: id, ScheduledFor: slot, Attempt: 1, Epoch: 1, Received: slot.Add(2 * time.Millisecond)}
		if i > 7 {
			r.Epoch, r.Received = 5, later(r.Received, at(8.3))
		}
		h.Receipts = append(h.Receipts, r)
		if i == 7 {
			r.Epoch, r.Received = 5, at(8.3)
			h.Receipts = append(h.Receipts, r)
		}
	}
	return h
}

func TestCheckerAllowsWhatACutMakes(t *testing.T) {
	if found := cutHistory().Check(); len(found) > 0 {
		t.Errorf("%v", found)
	}
	late := cutHistory()
	late.Faults[0].Kind = Split
	late.Receipts[of(&late, 12)].Epoch = 1
	if i := slices.IndexFunc(late.Check(), func(f Finding) bool { return f.Rule == "C15" }); i >= 0 {
		t.Errorf("the database sees it: %v", late.Check()[i])
	}
}

// TestCheckerCatchesLiesAboutCuts: each tells one lie, and the right rule must
// find it.
func TestCheckerCatchesLiesAboutCuts(t *testing.T) {
	for name, lie := range map[string]struct {
		rule string
		tell func(*History)
	}{
		"a send while cut off":                            {"C15", func(h *History) { h.Receipts[of(h, 12)].Epoch = 1 }},
		"one under an epoch that it raised later":         {"C15", func(h *History) { h.Receipts[of(h, 12)].Epoch = 4 }},
		"a repeat long after the cut":                     {"C5", func(h *History) { repeat(h, 12, 300*time.Millisecond, 6) }},
		"a repeat long after, by the one that is cut off": {"C5", func(h *History) { repeat(h, 12, 300*time.Millisecond, 1) }},
		"a takeover long after the end": {"C18", func(h *History) {
			h.Takeovers = append(h.Takeovers, Takeover{h.partition("a"), 7, "n1", h.Faults[0].End.Add(time.Minute)})
		}},
	} {
		h := cutHistory()
		lie.tell(&h)
		if found := h.Check(); !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == lie.rule }) {
			t.Errorf("%s: rule %s is silent: %v", name, lie.rule, found)
		}
	}
}
