package chaos

import (
	"fmt"
	"testing"
	"time"
)

// clean is a small history of three nodes with nothing wrong: one job, twenty
// slots. n1 is killed at 5 s and n2 takes over; the worker of n3, who had one of
// n2's executions, is killed at 10 s; n2 is paused from 15 s to 18.3 s and loses
// the partition to n1, which it notices after one send that it had begun.
func clean() History {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }
	job := Interval{Job: "a", First: t0, Every: time.Second, Until: at(20)}
	h := History{
		Jobs: []Interval{job}, Records: map[string][]Record{}, InFlight: time.Second, Partitions: 16, OnTime: time.Second, Recovery: RecoveryBound,
		Faults: []Fault{
			{Killed, "n1", at(5.01), at(5.02)}, {Killed, "n3", at(10.01), at(10.02)}, {Paused, "n2", at(15.5), at(18.3)},
			{Restarted, "n3", at(19), at(19.5)},
		},
	}
	p := h.partition("a")
	h.Takeovers = []Takeover{{p, 1, "n1", t0.Add(-time.Second)}, {p, 2, "n2", at(5.2)}, {p, 3, "n1", at(18)}}
	for i, slot := range job.slots() {
		id := "a~1~" + slot.Format("20060102T150405.000Z")
		h.Records["a"] = append(h.Records["a"], Record{ExecutionID: id, ScheduledFor: slot, Status: "succeeded", AttemptCount: 1})
		rc := Receipt{Execution: id, Job: "a", Key: id, ScheduledFor: slot, Attempt: 1, Epoch: 1, Received: slot.Add(2 * time.Millisecond)}
		switch {
		case i > 15:
			rc.Epoch = 3
			rc.Received = later(rc.Received, at(18.1))
		case i > 5:
			rc.Epoch = 2
		}
		rc.Answered = rc.Received.Add(time.Millisecond)
		h.Receipts = append(h.Receipts, rc)
		again := rc
		switch i {
		case 5: // its owner died
			again.Epoch, again.Received = 2, at(5.3)
		case 10: // its worker died
			again.Received = at(12)
		case 16: // sent by n2 before it notices
			again.Epoch, again.Received = 2, at(18.35)
		default:
			continue
		}
		again.Answered = again.Received.Add(time.Millisecond)
		h.Receipts = append(h.Receipts, again)
	}
	return h
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// of is the number of the first receipt of a slot; the one after it is its
// repeat, if it has one.
func of(h *History, slot int) int {
	for i, r := range h.Receipts {
		if r.ScheduledFor.Equal(h.Jobs[0].First.Add(time.Duration(slot) * time.Second)) {
			return i
		}
	}
	panic("no such slot")
}

// repeat makes slot's delivery come again, so much later and under an epoch.
func repeat(h *History, slot int, after time.Duration, epoch int64) {
	r := h.Receipts[of(h, slot)]
	r.Received, r.Answered, r.Epoch = r.Received.Add(after), r.Answered.Add(after), epoch
	h.Receipts = append(h.Receipts, r)
}

func TestCheckerIsQuietOnACleanHistory(t *testing.T) {
	if f := clean().Check(); len(f) > 0 {
		t.Errorf("%v", f)
	}
	if n := clean().Repeats(); n != 3 {
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
		"a repeat without a kill": {"C5", func(h *History) { h.Faults = h.Faults[1:] }},
		"a repeat long after":     {"C5", func(h *History) { repeat(h, 2, 9*time.Second, 2) }},
		"a repeat after a planned restart": {"C5", func(h *History) {
			h.Faults[0].Kind = Restarted
		}},
		"a repeat of what was answered long before":    {"C5", func(h *History) { repeat(h, 3, 3*time.Second, 2) }},
		"a repeat in one epoch, though its owner died": {"C14", func(h *History) { h.Receipts[of(h, 5)+1].Epoch = 1 }},
		"a repeat in one epoch, and the owner alone":   {"C14", func(h *History) { h.Faults[1].Node = "n2" }},
		"a repeat in one epoch, and no nodes":          {"C14", func(h *History) { h.Takeovers = nil }},
		"an earlier owner that was not paused":         {"C14", func(h *History) { h.Faults[2].Node = "n3" }},
		"an earlier owner, long after": {"C14", func(h *History) {
			i := of(h, 10)
			h.Receipts[i].Epoch, h.Receipts[i+1].Epoch = 1, 1
		}},
		"many sends of an earlier owner after its pause": {"C14", func(h *History) {
			for slot := 16; slot <= 18; slot++ {
				repeat(h, slot, 300*time.Millisecond, 2)
			}
		}},
		"a repeat during a pause, and both by others": {"C5", func(h *History) { repeat(h, 17, 50*time.Millisecond, 3) }},
		"an earlier owner, a second after its pause":  {"C5", func(h *History) { repeat(h, 17, 1200*time.Millisecond, 2) }},
		"two owners under one epoch": {"C14", func(h *History) {
			h.Takeovers = append(h.Takeovers, Takeover{h.Takeovers[1].Partition, 2, "n3", h.Takeovers[1].At})
		}},
		"late for no reason": {"C3", func(h *History) {
			i := of(h, 2)
			h.Receipts[i].Received = h.Receipts[i].ScheduledFor.Add(1100 * time.Millisecond)
		}},
		"later than a recovery takes": {"C3", func(h *History) {
			i := of(h, 16)
			h.Receipts[i].Received = h.Faults[3].End.Add(RecoveryBound + time.Second)
			h.Receipts = append(h.Receipts[:i+1:i+1], h.Receipts[i+2:]...)
		}},
		"a partition that moves long after": {"C18", func(h *History) {
			h.Takeovers = append(h.Takeovers, Takeover{h.Takeovers[0].Partition, 4, "n2", h.Faults[3].End.Add(RecoveryBound + time.Second)})
		}},
		"a success that nobody received": {"C16", func(h *History) {
			i := of(h, 2)
			h.Receipts = append(h.Receipts[:i:i], h.Receipts[i+1:]...)
		}},
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
