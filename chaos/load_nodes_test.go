package chaos

import (
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
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

// partitionOf a job, of 16: the range of XXH64 that its id falls into.
func partitionOf(id string) int32 { return int32(xxhash.Sum64String(id) >> 60) }
