package chaos

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

// splitNodes is a cluster of three, each in a network namespace of its own, with
// a load, whose database and target are hosts as well.
type splitNodes struct {
	*Nodes
	load     *load
	network  *Network
	host     map[*Node]*Host
	database *Host
}

// newSplitNodes starts them, with so many executions a second.
func newSplitNodes(t *testing.T, rate int) *splitNodes {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	network, err := NewNetwork()
	must(err)
	t.Cleanup(network.Close)
	db := cassandra.Start(t, 1)
	s := &splitNodes{Nodes: NewNodes(t, db, 3), network: network, host: map[*Node]*Host{}}
	for _, n := range s.All {
		h, err := network.Join(n.Name)
		must(err)
		must(h.Expose(n.Listen))
		n.Host, n.Spawn, n.Extra = h.IP.String(), h.Do, []string{"--cluster-insecure", "--allow-targets", "10.200.0.0/16"}
		s.host[n] = h
	}
	s.load = onNodes(t, s.Nodes)
	s.database, err = network.Join("database")
	must(err)
	target, err := network.Join("target")
	must(err)
	for _, addr := range db.Hosts() {
		at, err := netip.ParseAddrPort(addr)
		must(err)
		must(s.database.Have(at.Addr().AsSlice()))
		_, err = s.database.Serve(addr)
		must(err)
	}
	at, err := target.Serve(strings.TrimPrefix(s.load.ledger.URL, "http://"))
	must(err)
	s.StartAll()
	s.load.add("tick", rate, time.Second, "http://"+at)
	s.load.seconds(2)
	return s
}

// peers of a node.
func (s *splitNodes) peers(of *Node) (out []*Host) {
	for _, n := range s.All {
		if n != of {
			out = append(out, s.host[n])
		}
	}
	return out
}

// fault cuts, lets something be seen meanwhile, heals after so long, and wants
// everything to be as before.
func (s *splitNodes) fault(kind FaultKind, victim *Node, last time.Duration, cut func(*Host) error, meanwhile func()) {
	s.T.Helper()
	over := s.load.hit(kind, victim)
	heal := time.After(last)
	if err := cut(s.host[victim]); err != nil {
		s.T.Fatal(err)
	}
	s.Reached = func(n *Node) bool { return n != victim }
	meanwhile()
	<-heal
	over()
	healed := time.Now()
	if err := s.network.Heal(); err != nil {
		s.T.Fatal(err)
	}
	s.Reached = nil
	s.load.recovered(s.Nodes)
	s.T.Logf("%s: together again %s after the end", victim.Name, time.Since(healed).Round(time.Millisecond))
}

// cutOff wants the others to take everything, and the node to fence itself.
func (s *splitNodes) cutOff(victim *Node, last time.Duration, cut func(*Host) error) {
	s.T.Helper()
	s.fault(CutOff, victim, last, cut, func() {
		s.Await("the node that is cut off has fenced itself", slow(s.load.t, 2*TTL), func() (any, bool) {
			fenced, err := metrics(&victim.Process, "belfry_self_fenced")
			return []any{fenced, err}, err == nil && fenced[0] == 1
		})
		s.Await("the others own everything", slow(s.load.t, RecoveryBound), func() (any, bool) {
			left := s.OwnedBy(victim)
			return left, len(left) == 0
		})
		s.Await("the node that is cut off is not ready", slow(s.load.t, 2*TTL), func() (any, bool) {
			ready := victim.Ready()
			return ready, !ready
		})
		s.load.seconds(1)
	})
}

// split wants nobody to take anything: every owner shows signs of life.
func (s *splitNodes) split(victim *Node, last time.Duration, cut func(*Host) error) {
	s.T.Helper()
	before := len(s.Takeovers())
	s.fault(Split, victim, last, cut, func() {
		s.load.seconds(last.Seconds())
		if taken := s.Takeovers()[before:]; len(taken) > 0 {
			s.T.Errorf("nodes that are alive lost partitions: %v", taken)
		}
	})
}

// TestSplits: one node of three is cut off from others in every way, for longer
// than a TTL. What the database does not see of it, others take, and it sends
// nothing more; what the database sees stays where it is, though nodes do not
// hear each other. Every time it is back by itself. The last cut is longer than
// members remember the dead (30 s).
//
// Case C104: the halves of a split find each other again without a restart, and
// meanwhile each job has one owner, with the database on both sides or on one.
//
// BELFRY_CHAOS_SPLIT_SECONDS is how long the last cut is (35), BELFRY_CHAOS_CUTS how
// many there are: 6, or 9 with those of one direction between a node and the
// database.
func TestSplits(t *testing.T) {
	t.Parallel()
	const last = 2 * TTL
	long := time.Duration(envInt(t, "BELFRY_CHAOS_SPLIT_SECONDS", 35)) * time.Second
	s := newSplitNodes(t, 40)
	n := s.network
	t.Log("cut off from nodes and database")
	s.cutOff(s.All[0], last, func(h *Host) error { return n.Cut(h, append(s.peers(s.All[0]), s.database)...) })
	t.Log("cut off from the database alone")
	s.cutOff(s.All[1], last, func(h *Host) error { return n.Cut(h, s.database) })
	t.Log("cut off from the nodes alone")
	s.split(s.All[2], last, func(h *Host) error { return n.Cut(h, s.peers(s.All[2])...) })
	t.Log("heard by no node")
	s.split(s.All[0], last, func(h *Host) error { return n.CutOneWay(h, s.peers(s.All[0])...) })
	t.Log("hears no node")
	s.split(s.All[1], last, func(h *Host) error {
		peers := s.peers(s.All[1])
		return errors.Join(n.CutOneWay(peers[0], h), n.CutOneWay(peers[1], h))
	})
	if envInt(t, "BELFRY_CHAOS_CUTS", 6) > 6 {
		t.Log("not heard by the database")
		s.cutOff(s.All[0], last, func(h *Host) error { return n.CutOneWay(h, s.database) })
		t.Log("does not hear the database")
		s.cutOff(s.All[1], last, func(h *Host) error { return n.CutOneWay(s.database, h) })
		t.Log("cut off from one node")
		s.split(s.All[2], last, func(h *Host) error { return n.Cut(h, s.host[s.All[0]]) })
	}
	t.Logf("cut off from nodes and database for %s", long)
	s.cutOff(s.All[2], long, func(h *Host) error { return n.Cut(h, append(s.peers(s.All[2]), s.database)...) })
	s.load.seconds(2)
	s.load.finishOn(s.Nodes)
}
