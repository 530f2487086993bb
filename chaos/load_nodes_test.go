package chaos

import (
	"testing"
	"time"
)

// slow stretches what is expected of time, for a machine that has other work:
// BELFRY_CHAOS_SLOW is the factor. What is promised is judged with 1.
func slow(t *testing.T, d time.Duration) time.Duration {
	t.Helper()
	return d * time.Duration(envInt(t, "BELFRY_CHAOS_SLOW", 1))
}

// onNodes prepares a load on a cluster: what is due is judged as a cluster's,
// too.
func onNodes(t *testing.T, c *Nodes) *load {
	t.Helper()
	l := newLoad(t, c)
	l.history.Partitions = 16
	l.history.OnTime, l.history.Recovery = slow(t, 2*time.Second), slow(t, RecoveryBound)
	return l
}

// hit notes a fault of a node that begins now and ends with over.
func (l *load) hit(kind FaultKind, n *Node) (over func()) {
	h := &l.history
	h.Faults = append(h.Faults, Fault{Kind: kind, Node: n.Name, At: time.Now()})
	f := len(h.Faults) - 1
	return func() { h.Faults[f].End = time.Now() }
}

// join starts nodes, and waits until they are ready.
func (l *load) join(c *Nodes, nodes ...*Node) {
	l.t.Helper()
	over := l.hit(Joined, nodes[0])
	c.Start(nodes...)
	over()
}

// recovered waits until a cluster is as it was before a fault.
func (l *load) recovered(c *Nodes) {
	l.t.Helper()
	c.WaitEven(slow(l.t, RecoveryBound) + steady)
}

// finishOn ends a load on a cluster.
func (l *load) finishOn(c *Nodes) {
	l.t.Helper()
	l.history.Takeovers = c.Takeovers()
	l.finish()
}

// moves are the times from each fault of a kind until each partition that its
// node had made its first delivery under a later epoch.
func (h History) moves(kind FaultKind) []time.Duration {
	var out []time.Duration
	for _, f := range h.Faults {
		if f.Kind != kind || kind == Paused && f.End.Sub(f.At) < TTL { // such a pause moves nothing
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
		if r.Epoch > epoch && r.Received.After(since) && h.partition(r.Job) == p && (!found || r.Received.Before(at)) {
			at, found = r.Received, true
		}
	}
	return at, found
}

// changes are how late the first delivery under each later epoch of a partition
// was: what a planned move costs.
func (h History) changes() []time.Duration {
	var out []time.Duration
	newest := map[int32]int64{}
	for _, r := range h.Receipts {
		p := h.partition(r.Job)
		if newest[p] > 0 && r.Epoch > newest[p] {
			out = append(out, r.Received.Sub(r.ScheduledFor))
		}
		newest[p] = max(newest[p], r.Epoch)
	}
	return out
}
