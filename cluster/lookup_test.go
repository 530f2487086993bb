package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pa "github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

func newProtoactor(t *testing.T, s *asking, services *Services) *Protoactor {
	system := s.f.System()
	c, err := NewProtoactor(system, remote.NewRemote(system, remote.Configure("127.0.0.1", 0)), s.routes, services)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestProtoactorReachesOwners: through the library's own API, by partition, by
// job and by identity.
func TestProtoactorReachesOwners(t *testing.T) {
	s := setupAsk(t)
	services := NewServices(s.f.System())
	c := newProtoactor(t, s, services)
	p := job.PartitionOf("a-job", 16)
	_, got := owner(s.atA, p, 1)
	serve(got, "a")
	s.routes.Heard(s.a, owns(p, 1))
	var made atomic.Int32
	if _, err := startKinds(s.atB, echoes(&made, 0, 0)(""), nil); err != nil {
		t.Fatal(err)
	}
	s.b.Kinds = []string{"echo"}
	services.Viewed(&View{Members: []Member{s.b}})
	for _, test := range []struct{ kind, identity, want string }{
		{PartitionKind, fmt.Sprint(p), "a"}, {JobKind, "a-job", "a"}, {"echo", "x", "x 1"},
	} {
		answer, err := c.Request(test.identity, test.kind, &belfryv1.Describe{}, pa.WithTimeout(5*time.Second))
		if got := who(t, answer, err); got != test.want {
			t.Errorf("%s %s: %q answers, not %q", test.kind, test.identity, got, test.want)
		}
		if pid := c.Get(test.identity, test.kind); pid == nil {
			t.Errorf("%s %s is not found", test.kind, test.identity)
		}
	}
	for _, test := range []struct{ kind, identity string }{{PartitionKind, "x"}, {PartitionKind, "99"}, {"unknown", "x"}} {
		if answer, err := c.Request(test.identity, test.kind, &belfryv1.Describe{}); err == nil || answer != nil {
			t.Errorf("%s %s: %v, %v", test.kind, test.identity, answer, err)
		}
		if pid := c.Get(test.identity, test.kind); pid != nil {
			t.Errorf("%s %s is %v", test.kind, test.identity, pid)
		}
	}
	if answer, err := c.Request("a-job", JobKind, "no protobuf"); err == nil || answer != nil {
		t.Errorf("%v, %v", answer, err)
	}
	if _, err := c.RequestFuture("a-job", JobKind, &belfryv1.Describe{}); err == nil {
		t.Error("a future was had")
	}
	if _, runs := s.f.System().ProcessRegistry.GetLocal("gossip"); runs {
		t.Error("protoactor's gossip runs")
	}
}

// TestNoOwnerIsWaitedFor: protoactor's own context tries three times, 50, 200
// and 450 nanoseconds apart, while a partition changes its owner; ours waits.
func TestNoOwnerIsWaitedFor(t *testing.T) {
	for name, ours := range map[string]bool{"ours": true, "protoactor's": false} {
		t.Run(name, func(t *testing.T) {
			timed(t, func(t *testing.T, s *asking) {
				services := NewServices(s.f.System())
				request := newProtoactor(t, s, services).Request
				if !ours {
					c := pa.New(s.f.System(), pa.Configure("library", newProvider(), nil, nil))
					c.IdentityLookup = &identityLookup{s.routes, services}
					request = c.Request
				}
				_, got := owner(s.atA, 3, 1)
				go func() {
					answer, err := request("3", PartitionKind, &belfryv1.Describe{})
					m, _ := answer.(*belfryv1.Description)
					s.results <- result{answer: m, err: err}
				}()
				time.Sleep(time.Second)
				if !ours {
					if r := <-s.results; r.err == nil || !strings.Contains(r.err.Error(), "max retries") {
						t.Errorf("%v, %v: the library waits now, and its context may do", r.answer, r.err)
					}
					return
				}
				s.routes.Heard(s.a, owns(3, 1))
				(<-got).reply(&belfryv1.Description{Waiting: "a"})
				if r := <-s.results; who(t, r.answer, r.err) != "a" {
					t.Errorf("answer %v", r.answer)
				}
			})
		})
	}
}

// TestOptionsOfACallStayWithIt: in protoactor's RequestFuture they stay for ever.
func TestOptionsOfACallStayWithIt(t *testing.T) {
	timed(t, func(t *testing.T, s *asking) {
		c := newProtoactor(t, s, NewServices(s.f.System()))
		for _, want := range []time.Duration{time.Second, defaultAsk} {
			start := time.Now()
			var opts []pa.GrainCallOption
			if want != defaultAsk {
				opts = append(opts, pa.WithTimeout(want))
			}
			if _, err := c.Request("3", PartitionKind, &belfryv1.Describe{}, opts...); !errors.Is(err, job.ErrNoOwner) || time.Since(start) != want {
				t.Errorf("after %s: %v", time.Since(start), err)
			}
		}
	})
}

// TestAMemberThatComesBack: protoactor blocks the id of one that has left for
// ever, so it must have another.
func TestAMemberThatComesBack(t *testing.T) {
	s := setupAsk(t)
	c := newProtoactor(t, s, NewServices(s.f.System()))
	told := make(chan *pa.ClusterTopology, 10)
	s.f.System().EventStream.Subscribe(func(e any) {
		if topology, ok := e.(*pa.ClusterTopology); ok {
			told <- topology
		}
	})
	for i, v := range []*View{{Members: []Member{s.a, s.b}}, {Members: []Member{s.a}}, {Members: []Member{s.a, s.b}}} {
		c.Viewed(v)
		select {
		case got := <-told:
			if len(got.Members) != len(v.Members) {
				t.Errorf("step %d: %d members of %d", i, len(got.Members), len(v.Members))
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("step %d changed nothing", i)
		}
	}
}

func TestTopology(t *testing.T) {
	seen := arrivals{at: map[persistence.Owner]int{}}
	a := Member{Node: "a", Incarnation: uuid.New(), Address: "[::1]:70", Kinds: []string{"mail"}}
	nowhere := Member{Node: "b", Incarnation: uuid.New()}
	for i, want := range []string{"#1", "#1", "", "#3"} {
		v := &View{Members: []Member{a, nowhere}}
		if want == "" {
			v = &View{Members: []Member{nowhere}}
		}
		got := seen.topology(v)
		switch {
		case want == "" && len(got) == 0:
		case len(got) != 1 || got[0].GetId() != a.Incarnation.String()+want || got[0].GetHost() != "::1" || got[0].GetPort() != 70 || fmt.Sprint(got[0].GetKinds()) != "[mail]":
			t.Errorf("step %d: %v", i, got)
		}
	}
	for range 100 {
		seen.topology(&View{Members: []Member{{Node: "c", Incarnation: uuid.New(), Address: "[::1]:70"}}})
	}
	if len(seen.at) != 1 {
		t.Errorf("of 101 processes that came and went %d are remembered", len(seen.at))
	}
}

// TestViewsAreNotWaitedFor: the newest is applied, and none blocks gossip.
func TestViewsAreNotWaitedFor(t *testing.T) {
	p := newProvider()
	for range 100 {
		p.viewed(&View{})
	}
	last := &View{Members: []Member{memberAt("a", "10.0.0.1:1")}}
	p.viewed(last)
	if got := <-p.views; got != last {
		t.Errorf("view %v", got)
	}
}
