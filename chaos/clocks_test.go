package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// tolerance is how far a node's clock may be off: the product's, and the error
// of what is read of the others' clocks.
const tolerance = 500*time.Millisecond + 75*time.Millisecond

// TestClocks: the clock of one of three nodes is wrong: by an hour from its start,
// by a step of seconds or a minute while it owns partitions, by running fast. It
// owns nothing while it is wrong, and says so; nothing comes early, nothing is
// missed, and when its clock is right again it takes its share by itself.
// BELFRY_CHAOS_CLOCKS is how many rounds of that there are.
func TestClocks(t *testing.T) {
	t.Parallel()
	c := clocksOn(t)
	c.Start(c.All[:2]...)
	c.WaitEven(time.Minute)
	c.load = onNodes(t, c.Nodes)
	c.add("tick", 40, time.Second, c.ledger.URL)
	c.seconds(2)
	rounds := envInt(t, "BELFRY_CHAOS_CLOCKS", 1)
	last := c.All[2]
	for i := range 2 * rounds {
		if i > 0 {
			over := c.hit(Restarted, last)
			c.Terminate(last)
			over()
		}
		c.startsOff(last, []time.Duration{time.Hour, -time.Hour}[i%2])
		c.recovered(c.Nodes)
	}
	for range rounds {
		for i, by := range []time.Duration{5 * time.Second, -5 * time.Second, time.Minute, -time.Minute} {
			c.steps(c.All[(c.seed+i)%len(c.All)], by)
		}
		c.recovered(c.Nodes)
		c.runsFast(c.All[c.random.IntN(len(c.All))])
		c.recovered(c.Nodes)
	}
	c.seconds(2)
	c.finishOn(c.Nodes)
}

// clocks is a load on a cluster whose nodes have clocks that can be moved.
type clocks struct {
	*Nodes
	*load
	dir string
}

func clocksOn(t *testing.T) *clocks {
	t.Helper()
	bin, err := Built("-tags", "belfry_test_clock")
	if err != nil {
		t.Fatal(err)
	}
	c := &clocks{Nodes: NewNodes(t, cassandra.Start(t, 1), 3), dir: t.TempDir()}
	for _, n := range c.All {
		n.Bin = bin
		n.Env = []string{"BELFRY_TEST_CLOCK_FILE=" + c.file(n)}
	}
	return c
}

// file says how a node's clock is to be moved.
func (c *clocks) file(n *Node) string { return filepath.Join(c.dir, n.Name) }

// set moves the clock of a node: a time by which it is off, and maybe how much
// faster it runs from then on.
func (c *clocks) set(n *Node, to string) {
	c.T.Helper()
	if err := os.WriteFile(c.file(n), []byte(to), 0o600); err != nil {
		c.T.Fatal(err)
	}
	if err := n.Signal(syscall.SIGUSR1); err != nil {
		c.T.Fatal(err)
	}
}

// startsOff starts a node whose clock is off.
func (c *clocks) startsOff(n *Node, by time.Duration) {
	c.T.Helper()
	c.anywhere()
	n.Env = []string{"BELFRY_TEST_CLOCK_FILE=" + c.file(n), "BELFRY_TEST_CLOCK_OFFSET=" + by.String()}
	over := c.hit(Skewed, n)
	before := len(c.Takeovers())
	c.Launch(n)
	c.isOff(n, time.Minute, by)
	c.staysOff(n, before)
	c.setRight(n)
	over()
}

// steps sets the clock of a node that owns partitions.
func (c *clocks) steps(n *Node, by time.Duration) {
	c.T.Helper()
	c.Await(n.Name+" owns something", slow(c.t, RecoveryBound), func() (any, bool) {
		owned := c.OwnedBy(n)
		return owned, len(owned) > 0
	})
	c.anywhere()
	over := c.hit(Skewed, n)
	c.set(n, by.String())
	c.isOff(n, slow(c.t, RecoveryBound), by)
	c.WaitTaken(n, slow(c.t, RecoveryBound))
	c.staysOff(n, len(c.Takeovers()))
	c.setRight(n)
	over()
}

// runsFast has the clock of a node gain a second in a hundred, and be within the
// tolerance for fifteen.
func (c *clocks) runsFast(n *Node) {
	c.T.Helper()
	const ahead, perSecond = 350 * time.Millisecond, 10 * time.Millisecond
	c.anywhere()
	over := c.hit(Skewed, n)
	c.history.Faults[len(c.history.Faults)-1].Ahead = tolerance
	before, set := len(c.Takeovers()), time.Now()
	c.set(n, fmt.Sprint(ahead, " 0.01"))
	c.Await(n.Name+" gives up what it owns", slow(c.t, time.Minute), func() (any, bool) {
		why := n.Why()
		return why, strings.Contains(why, "clock is wrong")
	})
	off := ahead + perSecond*time.Duration(time.Since(set)/time.Second)
	if off < 425*time.Millisecond || off > slow(c.t, tolerance) { // a reading errs by 75 ms
		c.t.Errorf("%s was judged off when it was %s fast", n.Name, off)
	}
	for _, o := range c.Takeovers()[before:] {
		if o.At.Sub(set) < 5*time.Second {
			c.t.Errorf("partition %d moved to %s when the clock of %s was in the tolerance", o.Partition, o.Node, n.Name)
		}
	}
	c.WaitTaken(n, slow(c.t, RecoveryBound))
	over()
	over = c.hit(Skewed, n)
	c.staysOff(n, len(c.Takeovers()))
	c.setRight(n)
	over()
	c.t.Logf("%s gave up when it was %s fast", n.Name, off)
}

// isOff waits until a node is not ready because its clock is off, and everybody
// can see that.
func (c *clocks) isOff(n *Node, within, by time.Duration) {
	c.T.Helper()
	c.Await(n.Name+" says that its clock is wrong", within, func() (any, bool) {
		why := n.Why()
		return why, strings.Contains(why, "clock is wrong")
	})
	skew, err := metrics(&n.Process, "belfry_clock_skew_seconds")
	if err != nil || (time.Duration(skew[0]*float64(time.Second))-by).Abs() > tolerance {
		c.t.Errorf("the clock of %s is %s off, and it shows %v s, %v", n.Name, by, skew, err)
	}
	others := slices.DeleteFunc(slices.Clone(c.All), func(o *Node) bool { return o == n || !o.Running() })
	c.Await("another node shows the clock of "+n.Name, slow(c.t, TTL), func() (any, bool) {
		members, err := others[0].Members()
		i := slices.IndexFunc(members, func(m Member) bool { return m.Node == n.Name })
		ok := i >= 0 && members[i].State == "clock_off" && (time.Duration(members[i].ClockOffset)*time.Millisecond-by).Abs() < tolerance
		return fmt.Sprint(members, err), ok
	})
}

// staysOff looks for a second of work whether a node owns anything, and took nothing
// after so many takeovers.
func (c *clocks) staysOff(n *Node, before int) {
	c.T.Helper()
	c.seconds(1)
	for _, o := range c.Takeovers()[before:] {
		if o.Node == n.Name {
			c.t.Errorf("%s took partition %d with a wrong clock", n.Name, o.Partition)
		}
	}
	if owned := c.OwnedBy(n); len(owned) > 0 {
		c.t.Errorf("%s owns %v with a wrong clock", n.Name, owned)
	}
}

// setRight sets a node's clock right, and waits until it says so.
func (c *clocks) setRight(n *Node) {
	c.T.Helper()
	c.set(n, "0s")
	if err := n.WaitReady(slow(c.t, RecoveryBound)); err != nil {
		c.t.Fatal(err)
	}
}
