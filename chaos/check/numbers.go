package check

import (
	"fmt"
	"slices"
	"time"
)

// Slots is how many slots had to have a record.
func (h History) Slots() int {
	n := 0
	for i := range h.Jobs {
		for _, s := range h.Jobs[i].due(h.Jobs[i].Until.Add(-1)) {
			if s.must {
				n++
			}
		}
	}
	return n
}

// Repeats is how many deliveries were repeats.
func (h History) Repeats() int {
	seen := map[string]bool{}
	n := 0
	for _, r := range h.Receipts {
		if seen[r.Execution] {
			n++
		}
		seen[r.Execution] = true
	}
	return n
}

// Lateness is how late each slot was delivered first that no fault is in the way
// of.
func (h History) Lateness() []time.Duration {
	first := map[string]bool{}
	var out []time.Duration
	for _, r := range h.Receipts {
		if !first[r.Execution] && h.deadline(r.ScheduledFor).Equal(r.ScheduledFor.Add(h.OnTime)) {
			out = append(out, r.Received.Sub(r.ScheduledFor))
		}
		first[r.Execution] = true
	}
	return out
}

// Moves are the times from each fault of a kind until each partition that its
// node had made its first delivery under a later epoch.
func (h History) Moves(kind FaultKind) []time.Duration {
	var out []time.Duration
	for _, f := range h.Faults {
		if f.Kind != kind || kind == Paused && f.End.Sub(f.At) < h.TTL { // such a pause moves nothing
			continue
		}
		for p := range int32(h.Partitions) {
			epoch, owned := h.ownedAt(p, f)
			if at, ok := h.firstSince(p, epoch, f.At); ok && owned {
				out = append(out, at.Sub(f.At))
			}
		}
	}
	return out
}

// ownedAt tells under which epoch the node of a fault had a partition when it
// was hit.
func (h History) ownedAt(p int32, f Fault) (epoch int64, owned bool) {
	for _, o := range h.Takeovers {
		if o.Partition == p && o.At.Before(f.At) && o.Epoch >= epoch {
			epoch, owned = o.Epoch, o.Node == f.Node
		}
	}
	return epoch, owned
}

// firstSince is the first delivery of a partition after a moment under an epoch
// later than one.
func (h History) firstSince(p int32, epoch int64, since time.Time) (at time.Time, found bool) {
	for _, r := range h.Receipts {
		if r.Epoch > epoch && r.Received.After(since) && h.Partition(r.Job) == p && (!found || r.Received.Before(at)) {
			at, found = r.Received, true
		}
	}
	return at, found
}

// Changes are what each planned change of a partition's owner costs: how late
// that came which the change kept waiting the longest. It may have kept waiting
// what was due before the first delivery under the new epoch and came first after
// that, or was that. A repeat is not counted, the rules judge those; nor is a
// change while another fault than a planned one is felt, which is a failover: see
// Moves.
func (h History) Changes() []time.Duration {
	var out []time.Duration
	type change struct {
		at    time.Time // of the first delivery under the epoch
		index int       // in out; -1: not planned
	}
	newest, last, seen := map[int32]int64{}, map[int32]change{}, map[string]bool{}
	for _, r := range h.Receipts {
		p := h.Partition(r.Job)
		if newest[p] > 0 && r.Epoch > newest[p] {
			last[p] = change{r.Received, -1}
			if !h.disturbed(r.Received) {
				last[p] = change{r.Received, len(out)}
				out = append(out, 0)
			}
		}
		newest[p] = max(newest[p], r.Epoch)
		if c, changed := last[p]; changed && c.index >= 0 && !seen[r.Execution] && !r.ScheduledFor.After(c.at) {
			out[c.index] = max(out[c.index], r.Received.Sub(r.ScheduledFor))
		}
		seen[r.Execution] = true
	}
	return out
}

// disturbed tells that a fault is felt at a moment that nobody had planned.
func (h History) disturbed(at time.Time) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool {
		return !f.planned() && !at.Before(f.At) && !at.After(f.End.Add(h.Recovery))
	})
}

// Spread is percentiles of durations as text.
func Spread(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %s, p99 %s, p99.9 %s, max %s of %d", Percentile(d, 0.5), Percentile(d, 0.99), Percentile(d, 0.999), Percentile(d, 1), len(d))
}

// Percentile is the duration that a share of some is at most; 0 of none.
func Percentile(d []time.Duration, share float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[min(int(share*float64(len(d))), len(d)-1)].Round(time.Millisecond)
}
