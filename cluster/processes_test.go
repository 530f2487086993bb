package cluster

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	pa "github.com/asynkron/protoactor-go/cluster"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/actors"
	"github.com/belfry-scheduler/belfry/cluster/wire"
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Each node of a test is this test binary again: there can be one transport a
// process. It does what it is told on its standard input, a line of JSON each,
// answers on its standard output, and ends when its input does: with its test,
// however that ends.

const nodeVariable = "BELFRY_CLUSTER_TEST_NODE"

func TestMain(m *testing.M) {
	if cfg := os.Getenv(nodeVariable); cfg != "" {
		if err := runNode(cfg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

type nodeConfig struct {
	Node   string
	Join   []string
	Gossip string // "": a free port
}

type order struct {
	Op        string
	Partition int32
	Epoch     int64
	Kind      string
	Identity  string
	Timeout   time.Duration
	Members   int
}

type report struct {
	Gossip  string
	Who     string // answered
	NotSent bool
	Err     string
}

// testNode is a process that owns what it is told to.
type testNode struct {
	*Process
	name string
	root *actor.RootContext
	gone map[int32]*atomic.Bool // owners that have given up
}

func runNode(text string) error {
	var cfg nodeConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("node", cfg.Node)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }), actor.WithDeadLetterRequestLogging(false))
	p, err := Join(context.Background(), ProcessConfig{
		Self:     Member{Node: cfg.Node, Incarnation: uuid.New(), Started: time.Now().UnixMilli(), Roles: Roles{Scheduler}},
		Wire:     wire.Config{Listen: "127.0.0.1:0", Cluster: "test", Log: log},
		Members:  MembersConfig{Listen: cmp.Or(cfg.Gossip, "127.0.0.1:0"), Join: cfg.Join, Label: "test", Log: log, Rejoin: time.Second},
		Presence: PresenceConfig{Every: every, Status: func() Status { return Status{} }},
		Kinds: Kinds{Handlers: map[string]Handler{"where": func(context.Context, Execution) error {
			return errors.New(cfg.Node)
		}}},
		Routes: NewRoutes(system, 16), Props: actors.NewFactory(system, log, actors.NewMetrics(nil)), Log: log,
	})
	out := json.NewEncoder(os.Stdout)
	if err != nil {
		return out.Encode(report{Err: err.Error(), Who: fmt.Sprintf("%v", p)})
	}
	n := &testNode{Process: p, name: cfg.Node, root: system.Root, gone: map[int32]*atomic.Bool{}}
	if err := out.Encode(report{Gossip: p.Members.Gossip()}); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		if err := out.Encode(n.do(o)); err != nil {
			return err
		}
	}
	return nil
}

func (n *testNode) do(o order) report {
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	switch o.Op {
	case "own":
		n.own(o.Partition, o.Epoch)
		return report{}
	case "give up":
		n.gone[o.Partition].Store(true) // others still believe that it owns it
		return report{}
	case "ask":
		return reported(n.Routes.Ask(ctx, o.Partition, &belfryv1.Describe{}))
	case "request":
		answer, err := n.Protoactor.Request(fmt.Sprint(o.Partition), PartitionKind, &belfryv1.Describe{}, pa.WithTimeout(o.Timeout))
		m, _ := answer.(proto.Message)
		return reported(m, err)
	case "perform":
		p, err := n.Services.Perform(ctx, &belfryv1.Perform{ExecutionId: o.Identity, Kind: o.Kind, Identity: o.Identity})
		if err != nil {
			return reported(nil, err)
		}
		return report{Who: p.GetError()}
	case "members":
		return n.await(ctx, o.Members)
	case "leave":
		return reported(nil, n.Leave(ctx))
	}
	return report{Err: "there is no " + o.Op}
}

func reported(answer proto.Message, err error) report {
	if err != nil {
		return report{Err: err.Error(), NotSent: errors.Is(err, job.ErrNotSent)}
	}
	d, _ := answer.(*belfryv1.Description)
	return report{Who: d.GetWaiting()}
}

// await waits until so many members, this one included, are seen and heard.
func (n *testNode) await(ctx context.Context, members int) report {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		heard := 1
		for _, p := range n.Presence.Peers() {
			if !p.Heard.IsZero() {
				heard++
			}
		}
		if heard == members && len(n.Members.View().Members) == members {
			return report{}
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return report{Err: fmt.Sprintf("%d members are heard, and the view is %+v", heard, n.Members.View())}
		}
	}
}

func (n *testNode) own(partition int32, epoch int64) {
	gone := new(atomic.Bool)
	pid, err := n.root.SpawnNamed(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *belfryv1.Describe, *belfryv1.GetJob:
			if gone.Load() {
				ctx.Respond(&belfryv1.NotOwner{Partition: partition})
				return
			}
			if g, ok := m.(*belfryv1.GetJob); ok {
				ctx.Respond(&belfryv1.Answer{Outcome: &belfryv1.Answer_Job{Job: &belfryv1.Job{JobId: g.GetJobId(), Status: n.name}}})
				return
			}
			ctx.Respond(&belfryv1.Description{Waiting: n.name})
		}
	}), "host/"+OwnerName(partition, epoch))
	if err != nil {
		panic(err)
	}
	n.gone[partition] = gone
	n.Routes.Own(partition, epoch, pid)
}

// nodeProcess is a node, seen from its test.
type nodeProcess struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	gossip string
}

func startNode(t *testing.T, name string, join ...string) *nodeProcess {
	t.Helper()
	n := startProcess(t, nodeConfig{Node: name, Join: join})
	n.gossip = n.answer().Gossip
	return n
}

func startProcess(t *testing.T, config nodeConfig) *nodeProcess {
	t.Helper()
	cfg, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), nodeVariable+"="+string(cfg)), t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := &nodeProcess{t: t, name: config.Node, cmd: cmd, in: in, out: json.NewDecoder(out)}
	t.Cleanup(n.kill)
	return n
}

// tell gives an order, whose answer must be read later.
func (n *nodeProcess) tell(o order) {
	n.t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	if err := json.NewEncoder(n.in).Encode(o); err != nil {
		n.t.Fatalf("%s: %v", n.name, err)
	}
}

// answer reads what a node says. One that says nothing for much longer than an
// order may take is ended, and shows what its goroutines wait for.
func (n *nodeProcess) answer() report {
	n.t.Helper()
	silent := time.AfterFunc(time.Minute, func() { _ = n.cmd.Process.Signal(syscall.SIGQUIT) })
	defer silent.Stop()
	var r report
	if err := n.out.Decode(&r); err != nil {
		n.t.Fatalf("node %s: %v", n.name, err)
	}
	return r
}

// do gives an order that must succeed.
func (n *nodeProcess) do(o order) report {
	n.t.Helper()
	n.tell(o)
	r := n.answer()
	if r.Err != "" {
		n.t.Fatalf("%s: %+v: %s", n.name, o, r.Err)
	}
	return r
}

func (n *nodeProcess) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

// TestThreeProcesses: requests reach the live owner through takeover, kill and
// restart, executions reach services, and a client comes and goes.
func TestThreeProcesses(t *testing.T) {
	a := startNode(t, "a")
	b, c := startNode(t, "b", a.gossip), startNode(t, "c", a.gossip)
	for _, n := range []*nodeProcess{a, b, c} {
		n.do(order{Op: "members", Members: 3})
	}
	is := func(n *nodeProcess, o order, want string) {
		t.Helper()
		o.Partition = 3
		if got := n.do(o); got.Who != want {
			t.Errorf("%s at %s: %q answers, not %q", o.Op, n.name, got.Who, want)
		}
	}
	a.do(order{Op: "own", Partition: 3, Epoch: 1})
	is(b, order{Op: "ask"}, "a")
	is(c, order{Op: "request"}, "a")
	is(a, order{Op: "request"}, "a")

	// It is given up, and b hears that from nobody but the owner itself.
	a.do(order{Op: "give up", Partition: 3})
	b.tell(order{Op: "ask", Partition: 3, Timeout: 20 * time.Second})
	c.do(order{Op: "own", Partition: 3, Epoch: 2})
	if r := b.answer(); r.Who != "c" {
		t.Errorf("after the takeover %+v", r)
	}
	is(a, order{Op: "request"}, "c")

	// Its owner is killed, and somebody asks before anybody has noticed.
	c.kill()
	b.tell(order{Op: "request", Partition: 3, Timeout: 20 * time.Second})
	a.do(order{Op: "own", Partition: 3, Epoch: 3})
	if r := b.answer(); r.Who != "a" {
		t.Errorf("after the kill %+v", r)
	}

	// Executions are placed on whoever lives.
	a.do(order{Op: "members", Members: 2})
	b.do(order{Op: "members", Members: 2})
	places := map[string]int{}
	for i := range 40 {
		at := a.do(order{Op: "perform", Kind: "where", Identity: fmt.Sprint(i)}).Who
		if other := b.do(order{Op: "perform", Kind: "where", Identity: fmt.Sprint(i)}).Who; other != at {
			t.Errorf("identity %d is at %s and at %s", i, at, other)
		}
		places[at]++
	}
	if places["a"] < 5 || places["b"] < 5 || places["a"]+places["b"] != 40 {
		t.Errorf("places: %v", places)
	}

	// The same name again is simply another member.
	c = startNode(t, "c", a.gossip)
	c.do(order{Op: "members", Members: 3})
	is(c, order{Op: "ask"}, "a")

	clientOf(t, a, b)
	a.do(order{Op: "members", Members: 3})
	a.tell(order{Op: "perform", Kind: "echo", Identity: "x"})
	if r := a.answer(); !r.NotSent {
		t.Errorf("the client is gone, and %+v", r)
	}
	c.do(order{Op: "leave"})
	a.do(order{Op: "members", Members: 2})
}

// TestJoinThatFails makes no process, whose parts would not be there.
func TestJoinThatFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := startProcess(t, nodeConfig{Node: "a", Gossip: taken.Addr().String()}).answer()
	if r.Err == "" || r.Who != "<nil>" {
		t.Errorf("error %q, process %s", r.Err, r.Who)
	}
}

func TestGrace(t *testing.T) {
	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if got := grace(ended); got != time.Millisecond {
		t.Errorf("%s after the end", got)
	}
	if got := grace(t.Context()); got != 2*time.Second {
		t.Errorf("%s without an end", got)
	}
}

// clientOf joins as a client beside a node n that owns partition 3, and leaves
// while it runs something for it, and other is told to give it more.
func clientOf(t *testing.T, n, other *nodeProcess) {
	begun, release := make(chan struct{}), make(chan struct{})
	handle := func(_ context.Context, e Execution) error {
		if e.Identity == "slow" {
			close(begun)
			<-release
		}
		return errors.New("echo " + e.Identity)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	client, err := Connect(t.Context(), ClientConfig{
		Name: "client", Cluster: "test", Join: []string{n.gossip}, Log: log,
		Kinds: Kinds{Handlers: map[string]Handler{"echo": handle}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := "a"
	for job.PartitionOf(id, 16) != 3 {
		id += "a"
	}
	if j, err := client.Get(t.Context(), id); err != nil || j.Status != "a" {
		t.Errorf("read: %+v, %v", j, err)
	}
	n.do(order{Op: "members", Members: 4})
	if r := n.do(order{Op: "perform", Kind: "echo", Identity: "x"}); r.Who != "echo x" {
		t.Errorf("performed: %+v", r)
	}
	other.do(order{Op: "members", Members: 4})
	n.tell(order{Op: "perform", Kind: "echo", Identity: "slow"})
	select {
	case <-begun:
	case <-within(t, 20*time.Second).Done():
		t.Fatalf("the client was not asked: %+v", n.answer())
	}
	closed := make(chan error, 1)
	go func() { closed <- client.Close(within(t, time.Minute)) }()
	more, soon := report{Who: "echo x"}, within(t, 20*time.Second)
	for more.Who == "echo x" && soon.Err() == nil {
		other.tell(order{Op: "perform", Kind: "echo", Identity: "x"})
		more = other.answer()
	}
	if !more.NotSent {
		t.Errorf("from a client that leaves: %+v", more)
	}
	other.tell(order{Op: "members", Members: 3, Timeout: time.Second})
	if r := other.answer(); r.Err == "" {
		t.Error("the client has left, and still runs something")
	}
	close(release)
	if r := n.answer(); r.Who != "echo slow" {
		t.Errorf("what ran when the client left: %+v", r)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
