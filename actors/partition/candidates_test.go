package partition

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/persistence"
)

// TestCandidates: a member whose beat stands still is offered no partition,
// though gossip hears of it and it says that all is well: it has lost the store
// alone. A node is its own candidate in any case.
func TestCandidates(t *testing.T) {
	var members []cluster.Member
	for _, name := range []string{"a", "b", "c"} {
		members = append(members, cluster.Member{Node: name, Incarnation: uuid.New(), Roles: cluster.Roles{cluster.Scheduler}})
	}
	h := &Host{watch: cluster.NewWatch(cluster.Settings{}), seen: Seen{View: &cluster.View{Members: members}}}
	h.Owner = members[0].Owner()
	h.Peers = func() []cluster.Peer {
		return []cluster.Peer{{Member: members[1], Heard: time.Now()}, {Member: members[2], Heard: time.Now()}}
	}
	now, beats := time.Duration(0), int64(0)
	read := func(times int, moving ...int) {
		for range times {
			now += cluster.Settings{}.Every()
			beats++
			var rows []persistence.Beat
			for i, m := range members {
				n := int64(1)
				if slices.Contains(moving, i) {
					n = beats
				}
				rows = append(rows, persistence.Beat{Owner: m.Owner(), N: n})
			}
			h.watch.Saw(now, now+time.Millisecond, rows)
		}
	}
	want := func(when string, names ...string) {
		t.Helper()
		var got []string
		for _, m := range h.candidates() {
			got = append(got, m.Node)
		}
		if !slices.Equal(got, names) {
			t.Errorf("%s: %v, not %v", when, got, names)
		}
	}
	want("before any reading", "a")
	read(1)
	want("once they were seen to beat", "a", "b", "c")
	read(6, 1)
	want("within a TTL", "a", "b", "c")
	read(3, 1)
	want("after a TTL", "a", "b")
	read(1, 1, 2)
	want("when it beats again", "a", "b", "c")
}
