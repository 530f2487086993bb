package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// routesModel is what Routes should know, written down as it was told.
type routesModel struct {
	own     map[int32]int64
	said    map[persistence.Owner]map[int32]int64
	refused map[persistence.Owner]map[int32]int64
}

// best is whoever claims a partition under the highest epoch: ours first, then
// by name.
func (m *routesModel) best(p int32) (node string, epoch int64) {
	epoch = m.own[p]
	for owner, claims := range m.said {
		if e := claims[p]; e > epoch || e == epoch && node != "" && owner.Node < node {
			node, epoch = owner.Node, e
		}
	}
	return node, epoch
}

func TestRoutesKnowTheHighestEpoch(t *testing.T) {
	const partitions = 16
	members := []Member{memberAt("a", "10.0.0.1:1"), memberAt("b", "10.0.0.2:1"), memberAt("c", "10.0.0.3:1")}
	system := newPost(t).open("10.0.0.9:1").System()
	rapid.Check(t, func(t *rapid.T) {
		r := NewRoutes(system, partitions)
		m := &routesModel{own: map[int32]int64{}, said: map[persistence.Owner]map[int32]int64{}, refused: map[persistence.Owner]map[int32]int64{}}
		part, epoch := rapid.Int32Range(0, 2), rapid.Int64Range(1, 6)
		before := r.at(0)
		t.Repeat(map[string]func(*rapid.T){
			"own": func(t *rapid.T) {
				p, e := part.Draw(t, "p"), epoch.Draw(t, "e")
				r.Own(p, e, OwnerPID("10.0.0.9:1", p, e))
				m.own[p] = e
			},
			"disown": func(t *rapid.T) {
				p, e := part.Draw(t, "p"), epoch.Draw(t, "e")
				r.Disown(p, e)
				if m.own[p] == e {
					delete(m.own, p)
				}
			},
			"heard": func(t *rapid.T) {
				from := rapid.SampledFrom(members).Draw(t, "from")
				claims := rapid.MapOfN(part, epoch, 0, 3).Draw(t, "claims")
				msg := &belfryv1.Presence{Partitions: partitions}
				for p, e := range claims {
					msg.Owned = append(msg.Owned, &belfryv1.Owned{Partition: p, Epoch: e})
				}
				r.Heard(from, msg)
				for p, e := range claims {
					if e <= m.refused[from.Owner()][p] {
						delete(claims, p)
					}
				}
				m.said[from.Owner()] = claims
			},
			"viewed": func(t *rapid.T) {
				v := &View{Members: rapid.Permutation(members).Draw(t, "members")[:rapid.IntRange(1, 3).Draw(t, "n")]}
				r.Viewed(v)
				for owner := range m.said {
					if _, here := v.Find(owner); !here {
						delete(m.said, owner)
						delete(m.refused, owner)
					}
				}
			},
			"refused": func(t *rapid.T) {
				p, e := part.Draw(t, "p"), epoch.Draw(t, "e")
				r.Refused(p, e)
				if m.own[p] == e {
					delete(m.own, p)
				}
				for owner, claims := range m.said {
					if claims[p] == e {
						delete(claims, p)
						if m.refused[owner] == nil {
							m.refused[owner] = map[int32]int64{}
						}
						m.refused[owner][p] = e
					}
				}
			},
			"": func(t *rapid.T) {
				ready := 0
				for p := range int32(3) {
					node, epoch := m.best(p)
					at := r.at(p)
					if at.node != node || at.epoch != epoch || (at.pid == nil) != (epoch == 0) {
						t.Fatalf("partition %d: %q under %d (%v), want %q under %d", p, at.node, at.epoch, at.pid, node, epoch)
					}
					if want := fmt.Sprintf("host/p%d-e%d", p, epoch); at.pid != nil && at.pid.GetId() != want {
						t.Fatalf("partition %d is owned by %v, want %s", p, at.pid, want)
					}
					if at.pid != nil {
						ready++
					}
				}
				if r.Ready() != ready || len(r.Owned()) != len(m.own) {
					t.Fatalf("%d ready, want %d; %d owned, want %d", r.Ready(), ready, len(r.Owned()), len(m.own))
				}
				now := r.at(0)
				if ended := isClosed(before.over); ended != (now != before) {
					t.Fatalf("the route to 0 is over: %v; another: %v", ended, now != before)
				}
				before = now
			},
		})
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Whatever the order in which presences come, the same routes stand at the end.
func TestRoutesInAnyOrder(t *testing.T) {
	system := newPost(t).open("10.0.0.9:1").System()
	members := []Member{memberAt("a", "10.0.0.1:1"), memberAt("b", "10.0.0.2:1"), memberAt("c", "10.0.0.3:1")}
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.Permutation([]int{0, 1, 2}).Draw(t, "order")
		r := NewRoutes(system, 16)
		for _, i := range order {
			r.Heard(members[i], owns(7, int64(10+i)))
		}
		if at := r.Owner(7); !at.Equal(actor.NewPID("10.0.0.3:1", "host/p7-e12")) {
			t.Fatalf("owner %v", at)
		}
	})
}

func TestRoutesWithoutANumber(t *testing.T) {
	r := NewRoutes(newPost(t).open("10.0.0.9:1").System(), 0)
	if r.Partitions() != 0 || r.Owner(3) != nil || len(r.Table()) != 0 {
		t.Error("it knows partitions that nobody told of")
	}
	r.Heard(memberAt("client", "10.0.0.1:1"), &belfryv1.Presence{})
	r.Heard(memberAt("a", "10.0.0.2:1"), owns(3, 1))
	if r.Partitions() != 16 || r.Owner(3) == nil || r.Owner(16) != nil || r.Owner(-1) != nil {
		t.Errorf("%d partitions, owner of 3: %v", r.Partitions(), r.Owner(3))
	}
	r.Heard(memberAt("b", "10.0.0.3:1"), &belfryv1.Presence{Partitions: 32, Owned: []*belfryv1.Owned{{Partition: 20, Epoch: 1}}})
	if r.Partitions() != 16 {
		t.Errorf("the number of partitions became %d", r.Partitions())
	}
}

func TestRoutesTellOfChanges(t *testing.T) {
	r := NewRoutes(newPost(t).open("10.0.0.9:1").System(), 16)
	told := 0
	r.OnOwn(func() { told++ })
	changed := r.Changed()
	r.Own(3, 7, OwnerPID("10.0.0.9:1", 3, 7))
	if !isClosed(changed) || told != 1 {
		t.Errorf("changed: %v, told %d times", isClosed(changed), told)
	}
	r.Disown(3, 6) // an owner that was there before
	if told != 1 || r.Owner(3) == nil {
		t.Error("another epoch was disowned")
	}
	want := []*belfryv1.Owned{{Partition: 3, Epoch: 7}}
	if !slices.EqualFunc(r.Owned(), want, func(a, b *belfryv1.Owned) bool { return proto.Equal(a, b) }) {
		t.Errorf("owned: %v", r.Owned())
	}
	r.Disown(3, 7)
	if told != 2 || r.Owner(3) != nil || r.Ready() != 0 {
		t.Errorf("told %d times, owner %v", told, r.Owner(3))
	}
}

func BenchmarkOwner(b *testing.B) {
	r := NewRoutes(newPost(b).open("10.0.0.9:1").System(), 256)
	r.Heard(memberAt("a", "10.0.0.2:1"), &belfryv1.Presence{Partitions: 256, Owned: []*belfryv1.Owned{{Partition: 3, Epoch: 1}}})
	b.ReportAllocs()
	for b.Loop() {
		if r.Owner(3) == nil {
			b.Fatal("no owner")
		}
	}
}
