package partition

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-scheduler/belfry/actors"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/embedded"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// shell is one owner's actor on a real store in memory, and a worker that
// passes on what it is sent.
type shell struct {
	t      *testing.T
	system *actor.ActorSystem
	store  *embedded.Store
	owner  *owner
	pid    *actor.PID
	sent   chan *belfryv1.Delivery
	events chan *belfryv1.Event
}

func newShell(t *testing.T) *shell {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	st, err := embedded.Open(embedded.Config{Dir: "data", FS: vfs.NewMem(), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, store: st, sent: make(chan *belfryv1.Delivery, 100), events: make(chan *belfryv1.Event, 1000)}
	s.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	worker := s.system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if d, ok := ctx.Message().(*belfryv1.Dispatch); ok {
			for _, x := range d.GetDeliveries() {
				s.sent <- x
			}
		}
	}))
	cfg := DefaultConfig()
	cfg.Partitions, cfg.Partition, cfg.Node = 16, job.PartitionOf("a", 16), "n1"
	sh := Shell{
		Store: st, Publish: func(e *belfryv1.Event) { s.events <- e },
		Metrics: NewMetrics(prometheus.NewRegistry()), Log: log,
	}
	s.owner = newOwner(sh, cfg.Partition, s.acquire(cfg), new(atomic.Pointer[Stats])).(*owner)
	factory := actors.NewFactory(s.system, log, actors.NewMetrics(nil))
	s.pid = s.system.Root.Spawn(factory.Props(actors.Partition, func() actor.Actor { return s.owner }))
	s.system.Root.Send(s.pid, workersChanged{list: []Worker{{ID: WorkerIDOf(worker)}}})
	t.Cleanup(func() {
		for _, pid := range []*actor.PID{s.pid, worker} {
			if err := s.system.Root.StopFuture(pid).Wait(); err != nil {
				t.Error(err)
			}
		}
		s.system.Shutdown()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *shell) acquire(cfg Config) *State {
	ctx := context.Background()
	seen, err := s.store.ReadFence(ctx, cfg.Partition)
	if err == nil {
		seen, err = s.store.Acquire(ctx, seen, persistence.Owner{Node: "n1", Incarnation: uuid.New()}, uuid.New())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return New(cfg, seen, time.Now())
}

func (s *shell) register(sp *belfryv1.JobSpec, past ...bool) {
	s.t.Helper()
	cmd := &belfryv1.Command{Id: uuid.NewString(), JobId: "a", Action: &belfryv1.Command_Register{Register: &belfryv1.Register{Spec: sp, RunPast: len(past) > 0}}}
	answer, err := s.system.Root.RequestFuture(s.pid, cmd, 10*time.Second).Result()
	if a, _ := answer.(*belfryv1.Answer); err != nil || a.GetJob() == nil {
		s.t.Fatalf("register: %v, %v", answer, err)
	}
}

// TestTimerSurvivesABackwardStep: the timer runs on the monotonic clock, so when
// the wall clock is stepped back it fires before anything is due. It is set
// again. Here it is used up without the owner's doing, and the owner is woken.
func TestTimerSurvivesABackwardStep(t *testing.T) {
	s := newShell(t)
	due := time.Now().Add(1500 * time.Millisecond).Truncate(time.Millisecond).UTC()
	s.register(spec(due.Format("2006-01-02T15:04:05.000Z")))
	s.owner.timer.Stop()
	s.system.Root.Send(s.pid, wake{})
	select {
	case d := <-s.sent:
		if early := time.Until(due); early > 0 {
			t.Errorf("%s was sent %s early", d.GetExecutionId(), early)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the job never fires")
	}
}

// TestNumbersAreShownAfterTheLastStep: also when nothing happens any more.
func TestNumbersAreShownAfterTheLastStep(t *testing.T) {
	s := newShell(t)
	s.register(spec("0 0 1 1 *"))
	for end := time.Now().Add(10 * time.Second); ; {
		if st := s.owner.stats.Load(); st != nil && st.Jobs[job.Active] == 1 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the gauge does not show the job")
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestOwnerThatHasYielded tells whoever asks who may know better.
func TestOwnerThatHasYielded(t *testing.T) {
	s := newShell(t)
	s.register(spec("0 0 1 1 *"))
	s.system.Root.Send(s.pid, yield{next: "n2"})
	for _, request := range []any{&belfryv1.Command{JobId: "a"}, &belfryv1.Commands{}, &belfryv1.Describe{JobId: "a"}} {
		answer, err := s.system.Root.RequestFuture(s.pid, request, 10*time.Second).Result()
		if no, ok := answer.(*belfryv1.NotOwner); err != nil || !ok || no.GetNode() != "n2" || no.GetPartition() != s.owner.part {
			t.Errorf("%T: %v, %v", request, answer, err)
		}
	}
}

// TestNothingIsSentInDoubtOfOwnership: the delivery waits until the node is sure
// again.
func TestNothingIsSentInDoubtOfOwnership(t *testing.T) {
	s := newShell(t)
	var asked atomic.Int32
	s.owner.Alive = func() bool { n := asked.Add(1); return n == 1 || n > 4 } // the request is taken
	s.register(spec("2020-01-01T00:00:00Z"), true)
	select {
	case <-s.sent:
	case <-time.After(10 * time.Second):
		t.Fatal("it is never sent")
	}
	if n := asked.Load(); n != 5 {
		t.Errorf("the node was asked %d times whether it is sure", n)
	}
}

// TestNothingIsAnsweredInDoubtOfOwnership: also what would need no write is
// refused, since another owner may have changed it.
func TestNothingIsAnsweredInDoubtOfOwnership(t *testing.T) {
	s := newShell(t)
	var lost atomic.Bool
	s.owner.Alive = func() bool { return !lost.Load() }
	s.register(spec("0 0 1 1 *"))
	ask := func(request any, wait time.Duration) any {
		answer, _ := s.system.Root.RequestFuture(s.pid, request, wait).Result()
		return answer
	}
	resume := &belfryv1.Command{Id: "c1", JobId: "a", Action: &belfryv1.Command_Resume{Resume: &belfryv1.Resume{}}}
	missing := &belfryv1.Command{Id: "c2", JobId: "b", Action: &belfryv1.Command_Delete{Delete: &belfryv1.Delete{}}}
	if a, _ := ask(resume, 10*time.Second).(*belfryv1.Answer); a.GetJob() == nil {
		t.Fatalf("before: %v", a)
	}
	lost.Store(true)
	unavailable := func(a *belfryv1.Answer, id string) {
		t.Helper()
		if a.GetRefusal().GetCode() != belfryv1.Refusal_CODE_UNAVAILABLE || a.GetCommandId() != id {
			t.Errorf("%s is answered %v", id, a)
		}
	}
	one, _ := ask(resume, 10*time.Second).(*belfryv1.Answer)
	unavailable(one, "c1")
	many, _ := ask(&belfryv1.Commands{Commands: []*belfryv1.Command{resume, missing}}, 10*time.Second).(*belfryv1.Answers)
	if len(many.GetAnswers()) != 2 {
		t.Fatalf("two commands are answered %v", many)
	}
	unavailable(many.GetAnswers()[0], "c1")
	unavailable(many.GetAnswers()[1], "c2")
	if a := ask(&belfryv1.Describe{JobId: "a"}, 50*time.Millisecond); a != nil {
		t.Errorf("described as %v", a)
	}
	lost.Store(false)
	if a, _ := ask(resume, 10*time.Second).(*belfryv1.Answer); a.GetJob() == nil {
		t.Errorf("afterwards: %v", a)
	}
}

func TestWorkersAreNamedByTheirActors(t *testing.T) {
	pid := actor.NewPID("127.0.0.1:7947", "some/worker-1")
	if again := WorkerIDOf(pid).pid(); !again.Equal(pid) || WorkerIDOf(nil) != "" {
		t.Errorf("%v", again)
	}
}
