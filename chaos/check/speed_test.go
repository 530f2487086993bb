package check

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestMillion: a million receipts are judged in less than ten seconds of one
// processor, whatever else the machine does.
func TestMillion(t *testing.T) {
	const jobs, each = 1000, 1000
	h := History{Records: map[string][]Record{}, InFlight: time.Second, Partitions: 256, OnTime: time.Second, TTL: storyTTL, Recovery: 8 * time.Second}
	for p := range int32(256) {
		h.Takeovers = append(h.Takeovers, Takeover{p, 1, "n1", dawn})
	}
	for i := range 40 {
		h.Faults = append(h.Faults, Fault{Kind: Restarted, Node: "n2", At: at(float64(20 * i)), End: at(float64(20*i + 5))})
	}
	for n := range jobs {
		id := "job-" + string(rune('a'+n%26)) + string(rune('a'+n/26%26)) + string(rune('a'+n/26/26))
		j := Once(id, Interval{First: at(1), Every: time.Second})
		j.Until = at(each + 1)
		h.Jobs = append(h.Jobs, j)
		for _, slot := range j.Ops[0].Schedule.Due(dawn, j.Until.Add(-1)) {
			exec := idOf(id, "1", slot)
			h.Records[id] = append(h.Records[id], Record{ExecutionID: exec, ScheduledFor: slot, Status: "succeeded", AttemptCount: 1})
			h.Receipts = append(h.Receipts, Receipt{
				Execution: exec, Job: id, Key: exec, ScheduledFor: slot, Attempt: 1, Epoch: 1, Received: slot.Add(time.Millisecond), Answered: slot.Add(2 * time.Millisecond), Status: 200,
			})
		}
	}
	slices.SortFunc(h.Receipts, func(a, b Receipt) int { return a.Received.Compare(b.Received) }) // as a ledger has them
	began := processor(t)
	found := h.Check()
	took := processor(t) - began
	if len(found) > 0 || len(h.Receipts) != jobs*each {
		t.Errorf("%d receipts: %s", len(h.Receipts), Text(found))
	}
	t.Logf("%d receipts in %s of the processor", len(h.Receipts), took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("a million receipts took %s", took)
	}
}

// processor is the time that this process has computed.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
