package chaos

import (
	"fmt"
	"testing"
	"time"
)

// clean is a small history with nothing wrong: one job, ten slots, a kill in the
// middle and one repeat because of it.
func clean() History {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	job := Interval{Job: "a", First: t0, Every: time.Second, Until: t0.Add(10 * time.Second)}
	h := History{Jobs: []Interval{job}, Records: map[string][]Record{}, Kills: []Kill{{t0.Add(5*time.Second + 10*time.Millisecond)}}, InFlight: time.Second}
	for i, at := range job.slots() {
		id := "a~1~" + at.Format("20060102T150405.000Z")
		h.Records["a"] = append(h.Records["a"], Record{ExecutionID: id, ScheduledFor: at, Status: "succeeded", AttemptCount: 1})
		rc := Receipt{Execution: id, Job: "a", Key: id, ScheduledFor: at, Attempt: 1, Epoch: 1, Received: at.Add(2 * time.Millisecond)}
		h.Receipts = append(h.Receipts, rc)
		if i == 5 {
			rc.Epoch, rc.Received = 2, rc.Received.Add(300*time.Millisecond)
			h.Receipts = append(h.Receipts, rc)
		}
	}
	return h
}

func TestCheckerIsQuietOnACleanHistory(t *testing.T) {
	if f := clean().Check(); len(f) > 0 {
		t.Errorf("%v", f)
	}
	if n := clean().Repeats(); n != 1 {
		t.Errorf("%d repeats", n)
	}
}

// TestCheckerCatchesLies: each tells one lie, and the right rule must find it.
func TestCheckerCatchesLies(t *testing.T) {
	for name, lie := range map[string]struct {
		rule string
		tell func(*History)
	}{
		"a lost record":       {"C1", func(h *History) { h.Records["a"] = h.Records["a"][1:] }},
		"a record twice":      {"C1", func(h *History) { h.Records["a"] = append(h.Records["a"], h.Records["a"][3]) }},
		"a record of nothing": {"C1", func(h *History) { shift(&h.Records["a"][4], 300*time.Millisecond) }},
		"a failure":           {"C1", func(h *History) { h.Records["a"][2].Status = "failed" }},
		"a second id":         {"C4", func(h *History) { h.Records["a"][2].ExecutionID += "x" }},
		"a second id at the target": {"C4", func(h *History) {
			r := h.Receipts[2]
			r.Execution, r.Key = "b", "b"
			h.Receipts = append(h.Receipts, r)
		}},
		"one millisecond early":   {"C2", func(h *History) { h.Receipts[0].Received = h.Receipts[0].ScheduledFor.Add(-time.Millisecond) }},
		"another key":             {"C5", func(h *History) { h.Receipts[0].Key = "k" }},
		"a repeat without a kill": {"C5", func(h *History) { h.Kills = nil }},
		"a repeat long after":     {"C5", func(h *History) { h.InFlight = time.Millisecond }},
		"a repeat in one epoch":   {"C14", func(h *History) { h.Receipts[6].Epoch = 1 }},
		"a receipt without record": {"C16", func(h *History) {
			r := h.Receipts[2]
			r.Execution, r.Key = "b", "b"
			h.Receipts = append(h.Receipts, r)
		}},
	} {
		h := clean()
		lie.tell(&h)
		caught := false
		for _, f := range h.Check() {
			caught = caught || f.Rule == lie.rule
		}
		if !caught {
			t.Errorf("%s: rule %s is silent: %v", name, lie.rule, h.Check())
		}
	}
}

func shift(r *Record, by time.Duration) {
	r.ScheduledFor = r.ScheduledFor.Add(by)
	r.ExecutionID = fmt.Sprint("a~1~", r.ScheduledFor.Format("20060102T150405.000Z"))
}
