package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// patience is how long a test waits for what must happen; pace is how often it
// looks.
const (
	patience = 30 * time.Second
	pace     = 10 * time.Millisecond
)

var discard = slog.New(slog.DiscardHandler)

// quietSystem is an actor system that does not log.
func quietSystem() *actor.ActorSystem {
	return actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return discard }),
		actor.WithDeadLetterThrottleInterval(100*time.Millisecond)) // a goroutine waits for its end
}

// process is a node that runs.
type process struct {
	t       testing.TB
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	address string
	ended   sync.Once
	killed  bool
	err     error // that it ended with
}

func (c nodeConfig) with(change func(*nodeConfig)) nodeConfig {
	change(&c)
	return c
}

// plain is a node on loopback without TLS.
var plain = nodeConfig{Listen: "127.0.0.1:0", Cluster: "test"}

// unguarded is a node as the library makes it.
var unguarded = plain.with(func(c *nodeConfig) { c.OffSending, c.OffReceiving = true, true })

func start(t testing.TB, c nodeConfig) *process {
	t.Helper()
	p, r := launch(t, c)
	if r.Error != "" {
		t.Fatalf("start node: %s", r.Error)
	}
	p.address = r.Address
	return p
}

// launch starts a node and returns the first thing that it says.
func launch(t testing.TB, c nodeConfig) (*process, report) {
	t.Helper()
	self, selfErr := os.Executable()
	text, textErr := json.Marshal(c)
	cmd := exec.Command(self)
	// A race makes a node fail; it need not linger for it at its end.
	cmd.Env = append(os.Environ(), nodeVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	log := &tail{}
	cmd.Stderr = log
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(selfErr, textErr, inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, in: in, out: json.NewDecoder(bufio.NewReader(out))}
	t.Cleanup(func() {
		p.end()
		if guarded := !c.OffSending && !c.OffReceiving; p.err != nil && guarded && !p.killed {
			t.Errorf("node %s: %v", p.address, p.err)
		}
		if t.Failed() {
			t.Logf("node %s said:\n%s", p.address, log)
		}
	})
	return p, p.answer()
}

// tail keeps what a node logs.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (l *tail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	l.text = l.text[max(0, len(l.text)-8<<10):]
	return len(b), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func (p *process) answer() report {
	p.t.Helper()
	var r report
	if err := p.out.Decode(&r); err != nil {
		p.end()
		p.t.Fatalf("node %s is gone: %v, %v", p.address, err, p.err)
	}
	return r
}

// tell has a node do something and returns its answer.
func (p *process) tell(o order) report {
	p.t.Helper()
	if err := json.NewEncoder(p.in).Encode(o); err != nil {
		p.t.Fatalf("node %s: %v", p.address, err)
	}
	return p.answer()
}

func (p *process) stats() report {
	p.t.Helper()
	return p.tell(order{Op: "stats"})
}

func (p *process) request(to *process, n, size int) report {
	p.t.Helper()
	return p.tell(order{Op: "request", Address: to.address, ID: "echo", N: n, Size: size, Timeout: patience})
}

// end closes the node's input, which it ends by, and waits.
func (p *process) end() {
	p.ended.Do(func() {
		_ = p.in.Close()
		p.err = p.wait()
	})
}

// kill ends the node with SIGKILL.
func (p *process) kill() {
	p.ended.Do(func() {
		p.killed = true
		_ = p.cmd.Process.Kill()
		p.err = p.wait()
	})
}

// wait kills a node that does not end.
func (p *process) wait() error {
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	return p.cmd.Wait()
}

// dies waits until a node has ended by itself.
func (p *process) dies() {
	p.t.Helper()
	p.ended.Do(func() {
		p.err = p.wait()
		_ = p.in.Close()
	})
	if p.err == nil || p.cmd.ProcessState.ExitCode() < 1 {
		p.t.Errorf("the node ended with %v, it should have crashed", p.err)
	}
}

// until asks a node until it is so.
func (p *process) until(what string, so func(report) bool) report {
	p.t.Helper()
	ticker, late := time.NewTicker(pace), time.After(patience)
	defer ticker.Stop()
	for {
		r := p.stats()
		if so(r) {
			return r
		}
		select {
		case <-ticker.C:
		case <-late:
			p.t.Fatalf("%s: not in %s: %+v", what, patience, r)
		}
	}
}

// raw is a peer that keeps no rules.
type raw struct {
	t      testing.TB
	conn   *grpc.ClientConn
	stream remote.Remoting_ReceiveClient
	to     string
}

// connect opens a stream to a node, as a process of the cluster "test".
func connect(t testing.TB, to *process) *raw {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+to.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	stream, err := remote.NewRemotingClient(conn).Receive(metadata.AppendToOutgoingContext(ctx, labelKey, "test"))
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t, conn: conn, stream: stream, to: to.address}
	r.send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
		ConnectionType: &remote.ConnectRequest_ServerConnection{ServerConnection: &remote.ServerConnection{SystemId: "raw", Address: "127.0.0.1:1"}},
	}}})
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *raw) send(m *remote.RemoteMessage) {
	r.t.Helper()
	if err := r.stream.Send(m); err != nil {
		_, err = r.stream.Recv()
		r.t.Fatalf("send: %v", err)
	}
}

// batch sends envelopes.
func (r *raw) batch(envelopes ...envelope) {
	r.t.Helper()
	b := &remote.MessageBatch{}
	for i, e := range envelopes {
		b.TypeNames = append(b.TypeNames, e.kind)
		b.Targets = append(b.Targets, &actor.PID{Address: r.to, Id: e.to})
		w := &remote.MessageEnvelope{TypeId: int32(i), Target: int32(i), MessageData: e.data}
		if e.change != nil {
			e.change(w, b)
		}
		b.Envelopes = append(b.Envelopes, w)
	}
	r.send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: b}})
}

// over waits until the node has cut the stream, and returns why.
func (r *raw) over() error {
	for {
		if _, err := r.stream.Recv(); err != nil {
			return err
		}
	}
}

type envelope struct {
	to, kind string
	data     []byte
	change   func(*remote.MessageEnvelope, *remote.MessageBatch)
}

// enclose puts a message into an envelope.
func enclose(t testing.TB, to string, m proto.Message) envelope {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return envelope{to: to, kind: typeName(m), data: data}
}

// door is a listener that counts who comes, and has them talk to another
// address: a node that is reached through it can be watched, and can be away.
type door struct {
	listener net.Listener
	address  string
	to       func() string // "": nobody answers

	mu    sync.Mutex
	came  int
	conns []net.Conn
	wg    sync.WaitGroup
}

func openDoor(t testing.TB, to func() string) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{listener: l, address: l.Addr().String(), to: to}
	d.wg.Go(d.serve)
	t.Cleanup(func() {
		_ = l.Close()
		d.mu.Lock()
		for _, c := range d.conns {
			_ = c.Close()
		}
		d.mu.Unlock()
		d.wg.Wait()
	})
	return d
}

func (d *door) serve() {
	for {
		c, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		d.came++
		d.conns = append(d.conns, c)
		d.mu.Unlock()
		d.wg.Go(func() { d.pass(c) })
	}
}

func (d *door) pass(c net.Conn) {
	to := d.to()
	if to == "" {
		return
	}
	inner, err := net.Dial("tcp", to)
	if err != nil {
		_ = c.Close()
		return
	}
	d.mu.Lock()
	d.conns = append(d.conns, inner)
	d.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, inner}, {inner, c}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	both.Wait()
}

func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.came
}
