package partition

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-scheduler/belfry/cluster"
	"github.com/belfry-scheduler/belfry/persistence"
)

// takeable is a store of which one partition is taken: it tells of each call, and
// the acquisition ends when the test says so.
type takeable struct {
	persistence.Store
	calls    chan string
	acquired chan error
}

func (s takeable) Acquire(_ context.Context, seen persistence.Fence, by persistence.Owner, op uuid.UUID) (persistence.Fence, error) {
	s.calls <- "acquire"
	seen.Epoch, seen.Seq, seen.OpID, seen.Owner, seen.Incarnation = seen.Epoch+1, seen.Seq+1, op, by.Node, by.Incarnation
	return seen, <-s.acquired
}

func (s takeable) Load(_ context.Context, _ int32, from, _ int16, _ func(persistence.Row) error) error {
	if from == 0 {
		s.calls <- "load"
	}
	return nil
}

// TestTake: what is given is read while it is acquired, and anything else only
// afterwards. Without the acquisition there is no owner, whatever was read.
func TestTake(t *testing.T) {
	refused := errors.New("another was faster")
	for _, c := range []struct {
		name   string
		given  bool
		answer error
		before map[string]bool // calls before the acquisition ends
	}{
		{"given", true, nil, map[string]bool{"acquire": true, "load": true}},
		{"given, and taken by another", true, refused, map[string]bool{"acquire": true, "load": true}},
		{"of one that is gone", false, nil, map[string]bool{"acquire": true}},
		{"of one that is gone, and taken by another", false, refused, map[string]bool{"acquire": true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			system := actor.NewActorSystem()
			defer system.Shutdown()
			store := takeable{calls: make(chan string, 9), acquired: make(chan error)}
			acquiredAt := origin.Add(time.Second)
			h := &Host{HostConfig: HostConfig{
				Shell: Shell{Store: store, Metrics: NewMetrics(prometheus.NewRegistry()), Now: func() time.Time { return acquiredAt }},
				State: DefaultConfig(), Owner: persistence.Owner{Node: "n1", Incarnation: uuid.New()},
				Routes: cluster.NewRoutes(system, 16), Format: func() int { return 1 },
			}, ctx: t.Context(), loads: make(chan struct{}, 1)}
			seen := persistence.Fence{Partition: 3, Epoch: 4, Seq: 70, OpID: uuid.New(), LastNumber: 9}
			var s *State
			var err error
			done, held := make(chan struct{}), false
			go func() {
				defer close(done)
				s, err = h.tryTake(cluster.Take{Partition: 3, Seen: seen, Ended: c.given, Given: c.given}, func() { held = true })
			}()
			for range c.before {
				if call := <-store.calls; !c.before[call] {
					t.Errorf("%s before it is acquired", call)
				}
			}
			select {
			case call := <-store.calls:
				t.Errorf("%s before it is acquired", call)
			default:
			}
			store.acquired <- c.answer
			<-done
			if !errors.Is(err, c.answer) || held != (err == nil) || (s == nil) != (err != nil) {
				t.Fatalf("held %v, state %v, error %v", held, s != nil, err)
			}
			if s == nil {
				return
			}
			want := seen
			want.Epoch, want.Seq, want.Owner, want.Incarnation = 5, 71, "n1", h.Owner.Incarnation
			want.OpID = s.queue.fence.OpID
			if s.queue.fence != want || s.queue.fence.OpID == seen.OpID || s.life != 5 || s.lastNumber != 9 {
				t.Errorf("it goes on from %+v, life %d, number %d", s.queue.fence, s.life, s.lastNumber)
			}
			if till := acquiredAt.Add(h.State.AdoptFor).UnixMilli(); s.adoption.till != till {
				t.Errorf("it waits for workers until %d, not %d", s.adoption.till, till)
			}
			if want := map[bool]int64{true: 4}[c.given]; s.cfg.FormerEnded != want {
				t.Errorf("the owner of epoch %d has ended", s.cfg.FormerEnded)
			}
		})
	}
}
