package cluster

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// TestRosterKeepsTheNewest: presences lost, repeated and out of order leave what
// the newest one that came has said.
func TestRosterKeepsTheNewest(t *testing.T) {
	self, other := memberAt("self", here), memberAt("other", "10.0.0.1:1")
	rapid.Check(t, func(t *rapid.T) {
		r := roster{}
		r.viewed(&View{Members: []Member{self, other}}, self)
		var newest int64
		for _, n := range rapid.SliceOfN(rapid.Int64Range(1, 20), 1, 30).Draw(t, "numbers") {
			m := &belfryv1.Presence{Node: other.Node, Incarnation: other.Incarnation[:], Number: n, Stamp: n * 10, Draining: n%2 == 0}
			p, first, _ := r.heard(m, time.Now())
			if (p != nil) != (n > newest) || first != (newest == 0) && p != nil {
				t.Fatalf("number %d after %d: taken %v, the first %v", n, newest, p != nil, first)
			}
			newest = max(newest, n)
		}
		if got := r.peers(); len(got) != 1 || got[0].Stamp != newest*10 || got[0].Draining != (newest%2 == 0) || got[0].Heard.IsZero() {
			t.Fatalf("after %d: %+v", newest, got)
		}
	})
}

func TestRosterOfAView(t *testing.T) {
	self, a, b := memberAt("self", here), memberAt("a", "10.0.0.1:1"), memberAt("b", "10.0.0.2:1")
	r := roster{}
	if joined, changed := r.viewed(&View{Members: []Member{a, self}}, self); len(joined) != 1 || !changed {
		t.Errorf("joined %v", joined)
	}
	stranger := &belfryv1.Presence{Node: b.Node, Incarnation: b.Incarnation[:], Number: 1}
	if p, _, _ := r.heard(stranger, time.Now()); p != nil {
		t.Error("a process that is in no view was heard")
	}
	if p, _, _ := r.heard(&belfryv1.Presence{Node: a.Node, Incarnation: []byte{1}, Number: 1}, time.Now()); p != nil {
		t.Error("a presence without an incarnation was heard")
	}
	if joined, changed := r.viewed(&View{Members: []Member{self, a, b}}, self); len(joined) != 1 || joined[0].Node != "b" || !changed {
		t.Errorf("joined %v", joined)
	}
	if joined, changed := r.viewed(&View{Members: []Member{self, a, b}}, self); len(joined) != 0 || changed {
		t.Errorf("joined %v", joined)
	}
	if _, changed := r.viewed(&View{Members: []Member{self}}, self); !changed || len(r.peers()) != 0 {
		t.Error("members that left are there")
	}
}

// TestRosterTellsNewsFromStamps: only what somebody may decide on is a change.
func TestRosterTellsNewsFromStamps(t *testing.T) {
	self, a := memberAt("self", here), memberAt("a", "10.0.0.1:1")
	r := roster{}
	r.viewed(&View{Members: []Member{self, a}}, self)
	for i, step := range []struct {
		msg  *belfryv1.Presence
		want bool
	}{
		{&belfryv1.Presence{}, true},
		{&belfryv1.Presence{Stamp: 5}, false},
		{&belfryv1.Presence{Stamp: 4, Worker: "worker-1"}, true},
		{&belfryv1.Presence{Stamp: 6, Worker: "worker-1"}, false},
		{&belfryv1.Presence{Stamp: 7, Worker: "worker-1", Draining: true}, true},
		{&belfryv1.Presence{Stamp: 7, Worker: "worker-1", Draining: true, Format: 2}, true},
		{&belfryv1.Presence{Stamp: 7, Worker: "worker-1", Draining: true, Format: 2, ClockOff: true}, true},
		{&belfryv1.Presence{Stamp: 7}, true},
		{&belfryv1.Presence{Stamp: 7, Store: a.Incarnation[:]}, true},
	} {
		step.msg.Node, step.msg.Incarnation, step.msg.Number = a.Node, a.Incarnation[:], int64(i+1)
		if _, _, changed := r.heard(step.msg, time.Now()); changed != step.want {
			t.Errorf("step %d: changed %v", i, changed)
		}
		if w := r.peers()[0].Worker; w.GetId() != step.msg.GetWorker() || w != nil && w.GetAddress() != a.Address {
			t.Errorf("step %d: worker %v", i, w)
		}
	}
	if got := r.peers()[0].Stamp; got != 7 {
		t.Errorf("stamp %d", got)
	}
}

// society is processes that tell each other of themselves.
type society struct {
	post    *post
	members []Member
	ps      []*Presence
	routes  []*Routes
	mu      sync.Mutex
	status  []Status
	changed []int
	events  chan *belfryv1.Event
	drained chan int
}

const every = 500 * time.Millisecond

func newSociety(t *testing.T, n int) *society {
	s := &society{post: newPost(t), status: make([]Status, n), changed: make([]int, n), events: make(chan *belfryv1.Event, 10), drained: make(chan int, 10)}
	for i := range n {
		m := memberAt(string(rune('a'+i)), "10.0.0."+string(rune('1'+i))+":1")
		f := s.post.open(m.Address)
		routes := NewRoutes(f.System(), 16)
		p, err := StartPresence(f, PresenceConfig{
			Self: m, Every: every, Routes: routes,
			Status:  func() Status { s.mu.Lock(); defer s.mu.Unlock(); return s.status[i] },
			Changed: func() { s.mu.Lock(); defer s.mu.Unlock(); s.changed[i]++ },
			Events: func(all []*belfryv1.Event) {
				for _, e := range all {
					s.events <- e
				}
			},
			Drain: func() { s.drained <- i },
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop() })
		s.members, s.ps, s.routes = append(s.members, m), append(s.ps, p), append(s.routes, routes)
	}
	return s
}

func (s *society) viewed(of int, members ...int) {
	v := &View{}
	for _, i := range members {
		v.Members = append(v.Members, s.members[i])
	}
	s.ps[of].Viewed(v)
}

// meet gives all the view of all.
func (s *society) meet() {
	all := make([]int, len(s.ps))
	for i := range all {
		all[i] = i
	}
	for i := range s.ps {
		s.viewed(i, all...)
	}
}

func (s *society) set(i int, st Status) {
	s.mu.Lock()
	s.status[i] = st
	s.mu.Unlock()
	s.ps[i].Announce()
}

func own(s *society, i int, partition int32, epoch int64) {
	s.routes[i].Own(partition, epoch, OwnerPID(s.members[i].Address, partition, epoch))
}

// TestPresence: what one says, the others know, at once when they have met and
// soon when it changes.
func TestPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSociety(t, 3)
		own(s, 0, 3, 7)
		s.set(0, Status{Worker: "worker-1", Stamp: 100})
		start := time.Now()
		s.viewed(0, 0, 1, 2) // a tells b of itself, and b does not see a yet
		synctest.Wait()
		if s.routes[1].Owner(3) != nil {
			t.Error("b believes a stranger")
		}
		s.viewed(1, 0, 1, 2)
		s.viewed(2, 0, 1, 2)
		synctest.Wait()
		for i := 1; i < 3; i++ {
			if want := OwnerPID(s.members[0].Address, 3, 7); !want.Equal(s.routes[i].Owner(3)) {
				t.Errorf("%s: the owner of 3 is %v", s.members[i].Node, s.routes[i].Owner(3))
			}
			peers := s.ps[i].Peers()
			if len(peers) != 2 || peers[0].Node != "a" || peers[0].Worker.GetId() != "worker-1" || peers[0].Stamp != 100 || peers[0].Heard.IsZero() {
				t.Errorf("%s: peers %+v", s.members[i].Node, peers)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
		own(s, 1, 3, 8)
		s.set(0, Status{Worker: "worker-1", Stamp: 200, Draining: true})
		time.Sleep(coalesce)
		synctest.Wait()
		if want := OwnerPID(s.members[1].Address, 3, 8); !want.Equal(s.routes[2].Owner(3)) {
			t.Errorf("the owner of 3 is %v", s.routes[2].Owner(3))
		}
		if p := s.ps[2].Peers()[0]; !p.Draining || p.Stamp != 200 {
			t.Errorf("peer %+v", p)
		}
		s.viewed(2, 0, 2) // b is gone
		synctest.Wait()
		if want := OwnerPID(s.members[0].Address, 3, 7); !want.Equal(s.routes[2].Owner(3)) || len(s.ps[2].Peers()) != 1 {
			t.Errorf("the owner of 3 is %v, of %v", s.routes[2].Owner(3), s.ps[2].Peers())
		}
	})
}

// TestPresenceOfAnotherStore: its partitions have the same numbers and are not
// ours, and its worker knows nothing of our jobs.
func TestPresenceOfAnotherStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSociety(t, 4)
		one, two := uuid.New(), uuid.New()
		for i, store := range []uuid.UUID{one, one, two, uuid.Nil} { // the last is a client
			s.set(i, Status{Worker: "worker", Store: store})
		}
		s.meet()
		own(s, 0, 3, 7)
		own(s, 2, 3, 9)
		own(s, 2, 4, 9)
		time.Sleep(coalesce)
		synctest.Wait()
		if want := OwnerPID(s.members[0].Address, 3, 7); !want.Equal(s.routes[1].Owner(3)) || s.routes[1].Ready() != 1 {
			t.Errorf("the owner of 3 is %v, and %d are known", s.routes[1].Owner(3), s.routes[1].Ready())
		}
		if s.routes[3].Ready() != 2 {
			t.Errorf("the client knows %d owners", s.routes[3].Ready())
		}
		for i, p := range s.ps[1].Peers() { // a, c, d
			if want := []uuid.UUID{one, two, uuid.Nil}[i]; p.Store != want || (p.Worker != nil) != (p.Node != "c") || p.Heard.IsZero() {
				t.Errorf("peer %+v", p)
			}
		}
		s.set(2, Status{Worker: "worker", Store: one}) // it has read the right one
		time.Sleep(coalesce)
		synctest.Wait()
		if want := OwnerPID(s.members[2].Address, 3, 9); !want.Equal(s.routes[1].Owner(3)) || s.ps[1].Peers()[1].Worker == nil {
			t.Errorf("the owner of 3 is %v, among %+v", s.routes[1].Owner(3), s.ps[1].Peers())
		}
	})
}

// TestANumberOfAnotherStore: only ours says how many partitions there are.
func TestANumberOfAnotherStore(t *testing.T) {
	ours, theirs := uuid.New(), uuid.New()
	for _, test := range []struct {
		ours, theirs uuid.UUID
		want         int32
	}{{ours, ours, 16}, {ours, theirs, 0}, {uuid.Nil, theirs, 16}, {ours, uuid.Nil, 16}} {
		m := owns(3, 1)
		if m.Worker = "worker"; test.theirs != uuid.Nil {
			m.Store = test.theirs[:]
		}
		got := ofStore(test.ours, m)
		if got.GetPartitions() != test.want || (len(got.GetOwned()) == 1) != (test.want == 16) || (got.GetWorker() == "worker") != (test.want == 16) {
			t.Errorf("%s to %s: %v", test.theirs, test.ours, got)
		}
	}
}

// TestPresenceThroughLosses: most presences are lost, some come twice, and
// everybody knows within some intervals.
func TestPresenceThroughLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSociety(t, 3)
		var mu sync.Mutex
		n := 0
		s.post.fate = func(string, *actor.PID, proto.Message) int {
			mu.Lock()
			defer mu.Unlock()
			n++
			return []int{0, 0, 2, 0, 1}[n%5]
		}
		s.meet()
		for i := range s.ps {
			own(s, i, int32(i), 1)
		}
		time.Sleep(10 * every)
		synctest.Wait()
		for i, r := range s.routes {
			if r.Ready() != 3 {
				t.Errorf("%s knows %d owners of 3", s.members[i].Node, r.Ready())
			}
		}
	})
}

// TestManyChangesAreOnePresence: announcements within 20 ms go together.
func TestManyChangesAreOnePresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSociety(t, 2)
		s.meet()
		synctest.Wait()
		var mu sync.Mutex
		sent := 0
		s.post.fate = func(from string, _ *actor.PID, _ proto.Message) int {
			mu.Lock()
			defer mu.Unlock()
			if from == s.members[0].Address {
				sent++
			}
			return 1
		}
		for p := range int32(16) {
			own(s, 0, p, 1)
		}
		time.Sleep(coalesce)
		synctest.Wait()
		mu.Lock()
		if sent != 1 || s.routes[1].Ready() != 16 {
			t.Errorf("%d presences, %d routes", sent, s.routes[1].Ready())
		}
		mu.Unlock()
		time.Sleep(4 * every)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if sent != 5 {
			t.Errorf("%d presences after 4 more intervals", sent)
		}
		if s.changed[1] != 2 { // it came into view, and it was heard
			t.Errorf("%d changes were told", s.changed[1])
		}
	})
}

func TestOrdersToANode(t *testing.T) {
	s := newSociety(t, 2)
	root, to := s.ps[0].system.Root, actor.NewPID(s.members[1].Address, NodeActor)
	root.Send(to, &belfryv1.Events{Events: []*belfryv1.Event{{JobId: "x"}}})
	if e := <-s.events; e.GetJobId() != "x" {
		t.Errorf("event %v", e)
	}
	answer, err := root.RequestFuture(to, &belfryv1.DrainNode{}, 10*time.Second).Result()
	if _, ok := answer.(*belfryv1.Draining); !ok || err != nil {
		t.Errorf("answer %v, %v", answer, err)
	}
	if i := <-s.drained; i != 1 {
		t.Errorf("node %d drains", i)
	}
}

func TestPresenceThatPanics(t *testing.T) {
	f := newPost(t).open(here)
	gone := make(chan any, 1)
	p, err := StartPresence(f, PresenceConfig{
		Self: memberAt("self", here), Every: time.Hour, Routes: NewRoutes(f.System(), 16),
		Status: func() Status { panic("no status") },
	}, func(reason any) { gone <- reason })
	if err != nil {
		t.Fatal(err)
	}
	p.Viewed(&View{Members: []Member{memberAt("other", "10.0.0.1:1")}})
	if reason := <-gone; reason != "no status" {
		t.Errorf("gone for %v", reason)
	}
}
