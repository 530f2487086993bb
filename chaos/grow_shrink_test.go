package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/chaos/check"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// TestGrowAndShrink: under load a cluster grows from one node to five, and
// shrinks to two. Shares are even each time; only partitions move that a new node
// gets or a leaving one had, and few others; nothing is delivered twice.
//
// Case C110: nodes that join at the same moment, and agree on the members a
// little later, deliver nothing twice and end up with even shares.
func TestGrowAndShrink(t *testing.T) {
	t.Parallel()
	c := NewNodes(t, cassandra.Start(t, 1), 1)
	c.StartAll()
	l := onNodes(t, c)
	l.add("tick", 100, time.Second, l.ledger.URL)
	l.seconds(2)
	for range 2 {
		before := c.Owners()
		two := []*Node{c.Add(""), c.Add("")}
		l.join(c, two...)
		l.recovered(c)
		movedFew(t, before, c.Owners(), two)
		l.seconds(1)
	}
	for _, n := range []*Node{c.All[4], c.All[0], c.All[3]} {
		before := c.Owners()
		over := l.hit(Restarted, n)
		c.Terminate(n)
		over()
		l.recovered(c)
		movedFew(t, before, c.Owners(), []*Node{n})
		l.seconds(1)
	}
	l.finishOn(c)
	if n := l.history.Repeats(); n > 0 {
		t.Errorf("%d deliveries were repeated", n)
	}
	t.Logf("late at a change of owner: %s", check.Spread(l.history.Changes()))
}

// movedFew wants a change of some nodes to move what they get or had, and little
// more: with few partitions the bound on shares moves some.
func movedFew(t *testing.T, before, after []Owner, changed []*Node) {
	t.Helper()
	of := func(name string) bool {
		return slices.ContainsFunc(changed, func(n *Node) bool { return n.Name == name })
	}
	own, others := 0, 0
	for i := range before {
		switch {
		case before[i].Node == after[i].Node:
			if before[i].Epoch != after[i].Epoch { // there and back, when nodes come one after another
				others++
			}
		case of(before[i].Node) || of(after[i].Node):
			own++
		default:
			others++
		}
	}
	t.Logf("%d partitions moved with the node, %d others", own, others)
	if own == 0 || others > len(before)/4 {
		t.Errorf("%d partitions moved with the node, and %d others", own, others)
	}
}
