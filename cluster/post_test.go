package cluster

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/actors"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// post carries messages between the actor systems of a test, in place of the
// transport: what the network does to them is up to the test.
type post struct {
	log  *slog.Logger
	fate func(from string, to *actor.PID, msg proto.Message) int // how often it arrives; nil: once

	mu      sync.Mutex
	systems map[string]*actor.ActorSystem // by address
	opened  []*actor.ActorSystem
}

func newPost(t testing.TB) *post {
	p := &post{log: slog.New(slog.NewTextHandler(t.Output(), nil)), systems: map[string]*actor.ActorSystem{}}
	t.Cleanup(p.close)
	return p
}

func (p *post) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.opened {
		s.Shutdown()
	}
}

// open makes the actor system of a process at an address.
func (p *post) open(address string) *actors.Factory {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return p.log }), actor.WithDeadLetterRequestLogging(false))
	system.ProcessRegistry.Address = address
	system.ProcessRegistry.RegisterAddressResolver(func(*actor.PID) (actor.Process, bool) { return &letterbox{p, system}, true })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.systems[address], p.opened = system, append(p.opened, system)
	return actors.NewFactory(system, p.log, actors.NewMetrics(nil))
}

// kill takes a process off the network. Whoever writes to it gets a dead letter.
func (p *post) kill(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.systems, address)
}

// letterbox is actors of other processes, seen from one.
type letterbox struct {
	post *post
	from *actor.ActorSystem
}

func (l *letterbox) SendUserMessage(pid *actor.PID, message any) {
	_, body, sender := actor.UnwrapEnvelope(message)
	l.post.mu.Lock()
	to := l.post.systems[pid.GetAddress()]
	l.post.mu.Unlock()
	msg, ok := body.(proto.Message)
	if to == nil || !ok {
		l.from.DeadLetter.SendUserMessage(pid, message)
		return
	}
	times := 1
	if l.post.fate != nil {
		times = l.post.fate(l.from.Address(), pid, msg)
	}
	for range times {
		to.Root.RequestWithCustomSender(actor.NewPID(pid.GetAddress(), pid.GetId()), proto.Clone(msg), sender)
	}
}

func (l *letterbox) SendSystemMessage(*actor.PID, any) {}
func (l *letterbox) Stop(*actor.PID)                   {}

// received is a message that an owner of a test got.
type received struct {
	msg   proto.Message
	reply func(proto.Message)
}

// owner spawns an owner of a partition under an epoch, as a host would. What it
// gets goes to the channel.
func owner(f *actors.Factory, partition int32, epoch int64) (*actor.PID, chan received) {
	got := make(chan received, 16)
	root := f.System().Root
	pid, err := root.SpawnNamed(actor.PropsFromFunc(func(ctx actor.Context) {
		msg, ok := ctx.Message().(proto.Message)
		if _, end := ctx.Message().(actor.SystemMessage); !ok || end {
			return
		}
		sender := ctx.Sender()
		got <- received{msg, func(m proto.Message) { root.Send(sender, m) }}
	}), "host/"+OwnerName(partition, epoch))
	if err != nil {
		panic(err)
	}
	return pid, got
}

// serve answers everything with a Description that names who answers.
func serve(got chan received, name string) {
	go func() {
		for r := range got {
			r.reply(&belfryv1.Description{Waiting: name})
		}
	}()
}

func memberAt(node, address string, kinds ...string) Member {
	return Member{Node: node, Incarnation: uuid.NewSHA1(uuid.Nil, []byte(node)), Address: address, Roles: Roles{Scheduler}, Kinds: kinds}
}

func owns(partition int32, epoch int64) *belfryv1.Presence {
	return &belfryv1.Presence{Owned: []*belfryv1.Owned{{Partition: partition, Epoch: epoch}}, Partitions: 16}
}

// within is a context that ends with the test, or after d.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func who(t testing.TB, answer any, err error) string {
	t.Helper()
	if err != nil {
		t.Error(err)
		return ""
	}
	d, ok := answer.(*belfryv1.Description)
	if !ok {
		t.Errorf("answer %T", answer)
	}
	return d.GetWaiting()
}
