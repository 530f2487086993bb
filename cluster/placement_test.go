package cluster

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func named(names ...string) []Member {
	members := make([]Member, len(names))
	for i, name := range names {
		members[i].Node = name
	}
	return members
}

// nodes names some nodes as people do.
func nodes(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i+1)
	}
	return names
}

// TestPlacementIsGolden: all versions of the program must place the same way.
// These values may never change.
func TestPlacementIsGolden(t *testing.T) {
	members := named("node-1", "node-2", "node-3", "belfry-a.example.org", "ü")
	got := ""
	for _, m := range Assign(32, members) {
		got += fmt.Sprint(slices.IndexFunc(members, func(o Member) bool { return o.Node == m.Node }))
	}
	if want := "00320324123233033341414011044041"; got != want {
		t.Errorf("partitions go to %s, want %s", got, want)
	}
	got = ""
	for _, key := range []string{"", "a", "b", "api.example.org:443", "billing", "ü", "queue/mail", "queue/sms"} {
		got += fmt.Sprint(Rendezvous(key, []string{"node-1", "node-2", "node-3", "belfry-a.example.org", "ü"}))
	}
	if want := "13210432"; got != want {
		t.Errorf("keys go to %s, want %s", got, want)
	}
}

func TestNobodyIsThere(t *testing.T) {
	if got := Assign(16, nil); got != nil {
		t.Errorf("of no members %v are named", got)
	}
	if i := Rendezvous("a", nil); i != -1 {
		t.Errorf("of no names number %d is taken", i)
	}
}

// TestOnlyNamesCount: order, incarnation and address do not matter.
func TestOnlyNamesCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := named(someNames(1).Draw(t, "names")...)
		first := Assign(64, members)
		shuffled := rapid.Permutation(members).Draw(t, "shuffled")
		for i := range shuffled {
			shuffled[i].Started, shuffled[i].Address = int64(i), "127.0.0.1:1"
		}
		for p, again := range Assign(64, shuffled) {
			if again.Node != first[p].Node {
				t.Errorf("partition %d goes to %s, and to %s in another order", p, first[p].Node, again.Node)
			}
		}
	})
}

func someNames(atLeast int) *rapid.Generator[[]string] {
	return rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9.-]{1,12}`), atLeast, 9, rapid.ID[string])
}

// shares is how many of n partitions each name gets.
func shares(n int, names []string) map[string]int {
	got := map[string]int{}
	for _, m := range Assign(n, named(names...)) {
		got[m.Node]++
	}
	return got
}

// TestSharesAreEven: nobody has more than a quarter above its share, rounded up,
// and as a whole shares lie close to it.
func TestSharesAreEven(t *testing.T) {
	const clusters = 120
	for _, c := range []struct{ partitions, nodes int }{{16, 3}, {256, 3}, {256, 5}, {1024, 16}} {
		r := rand.New(rand.NewPCG(1, uint64(c.nodes)))
		mean := float64(c.partitions) / float64(c.nodes)
		squares, least, most := 0.0, c.partitions, 0
		for range clusters {
			names := nodes(fmt.Sprintf("host%d", r.IntN(1e6)), c.nodes)
			got := shares(c.partitions, names)
			for _, name := range names {
				d := float64(got[name]) - mean
				squares += d * d
				least, most = min(least, got[name]), max(most, got[name])
			}
		}
		deviation := math.Sqrt(squares / float64(clusters*c.nodes))
		t.Logf("%d partitions on %d nodes, %d clusters: shares of %.1f are from %d to %d, standard deviation %.1f", c.partitions, c.nodes, clusters, mean, least, most, deviation)
		if float64(most) > math.Ceil(1.25*mean) {
			t.Errorf("%d partitions on %d nodes: one has %d", c.partitions, c.nodes, most)
		}
		if lot := math.Sqrt(mean * (1 - 1/float64(c.nodes))); deviation > 1.1*lot {
			t.Errorf("%d partitions on %d nodes: the shares deviate by %.1f, more than by lot (%.1f)", c.partitions, c.nodes, deviation, lot)
		}
	}
}

// TestAlmostOnlyTheShareMoves: when a node joins, the others pass few partitions
// among each other. Keys, which have no bound, move to it and nowhere else.
func TestAlmostOnlyTheShareMoves(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ partitions, nodes int }{{16, 3}, {256, 3}, {256, 5}} {
		moved, more := 0, 0
		for range 200 {
			names := nodes(fmt.Sprintf("host%d", r.IntN(1e6)), c.nodes)
			joining := names[c.nodes-1]
			without := Assign(c.partitions, named(names[:c.nodes-1]...))
			for p, with := range Assign(c.partitions, named(names...)) {
				switch with.Node {
				case without[p].Node:
				case joining:
					moved++
				default:
					more++
				}
			}
		}
		t.Logf("%d partitions, node %d joins: %d move to it and %d among the others, in 200 clusters", c.partitions, c.nodes, moved, more)
		if more > moved/4 {
			t.Errorf("%d partitions, node %d joins: %d move to it, and %d among the others", c.partitions, c.nodes, moved, more)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		names := someNames(2).Draw(t, "names")
		for i := range 100 {
			key := fmt.Sprint("key", i)
			without, with := Rendezvous(key, names[:len(names)-1]), Rendezvous(key, names)
			if with != without && with != len(names)-1 {
				t.Fatalf("%s goes from %s to %s when %s joins", key, names[without], names[with], names[len(names)-1])
			}
		}
	})
}

// TestKeysAreIndependent: which name has a key says nothing about who has the
// next one, nor about the partition of the same number.
func TestKeysAreIndependent(t *testing.T) {
	names := nodes("node", 4)
	same := 0
	const keys = 4000
	for i := range keys {
		if Rendezvous(fmt.Sprint("host", i), names) == Rendezvous(fmt.Sprint("host", i+1), names) {
			same++
		}
	}
	if same < keys/4-140 || same > keys/4+140 { // 5 standard deviations
		t.Errorf("of %d keys %d go where the one before went, want about %d", keys, same, keys/4)
	}
}

func BenchmarkAssign256To16(b *testing.B) {
	members := named(nodes("node", 16)...)
	for b.Loop() {
		Assign(256, members)
	}
}
