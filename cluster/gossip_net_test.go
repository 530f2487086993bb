package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
)

// testNet carries gossip in memory, in the virtual time of a synctest bubble.
type testNet struct {
	mu   sync.Mutex
	ends map[string]*testEnd
	cut  func(from, to string) bool // what is sent this way is lost
}

const testDelay = time.Millisecond // one way

// testEnd is one address of a testNet.
type testEnd struct {
	net     *testNet
	addr    *net.TCPAddr
	packets chan *memberlist.Packet
	streams chan net.Conn
}

func newTestNet() *testNet { return &testNet{ends: make(map[string]*testEnd)} }

// split loses everything between these addresses and all others; none: nothing.
func (n *testNet) split(half ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = func(from, to string) bool { return slices.Contains(half, from) != slices.Contains(half, to) }
}

func (n *testNet) open(t *testing.T, addr string) *testEnd {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	e := &testEnd{net: n, addr: a, packets: make(chan *memberlist.Packet, 1024), streams: make(chan net.Conn, 64)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends[addr] = e
	return e
}

// find is who hears what one end sends to an address. lost: nobody, and nobody
// says so.
func (e *testEnd) find(to string) (other *testEnd, lost bool) {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	if e.net.cut != nil && e.net.cut(e.addr.String(), to) {
		return nil, true
	}
	return e.net.ends[to], false
}

func (e *testEnd) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	other, _ := e.find(a.Addr)
	if other == nil {
		return time.Now(), nil
	}
	b = slices.Clone(b)
	time.AfterFunc(testDelay, func() {
		select {
		case other.packets <- &memberlist.Packet{Buf: b, From: e.addr, Timestamp: time.Now()}:
		default:
		}
	})
	return time.Now(), nil
}

func (e *testEnd) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	other, lost := e.find(a.Addr)
	if other != nil {
		_, lost = other.find(e.addr.String()) // no connection without answers
	}
	if lost {
		<-time.After(timeout)
		return nil, os.ErrDeadlineExceeded
	}
	if other == nil {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	other.streams <- far
	return near, nil
}

func (e *testEnd) WriteTo(b []byte, addr string) (time.Time, error) {
	return e.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (e *testEnd) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return e.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

func (e *testEnd) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return e.addr.IP, e.addr.Port, nil
}

func (e *testEnd) PacketCh() <-chan *memberlist.Packet { return e.packets }
func (e *testEnd) StreamCh() <-chan net.Conn           { return e.streams }

// Shutdown hangs up on whoever has just called; a later node may have taken the
// address already.
func (e *testEnd) Shutdown() error {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	if e.net.ends[e.addr.String()] == e {
		delete(e.net.ends, e.addr.String())
	}
	return nil
}

// testMember is a member under test.
type testMember struct {
	*Members
	changed chan *View // the newest one
	calls   int        // of Changed; read after synctest.Wait
}

// kill ends a member as SIGKILL does: silently.
func (m *testMember) kill() {
	_ = m.list.Shutdown()
	m.Close()
}

// incarnation makes another process of a node.
func incarnation(node string) Member {
	return Member{
		Node: node, Incarnation: uuid.New(), Started: time.Now().UnixMilli(), Address: "127.0.0.1:7947",
		Roles: Roles{Gateway, Scheduler, Worker}, Kinds: []string{"mail"}, Version: "1.2.3", Format: 1,
	}
}

// start runs a member until the end of the test.
func start(t *testing.T, cfg MembersConfig) *testMember {
	t.Helper()
	m, err := tryStart(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func tryStart(t *testing.T, cfg MembersConfig) (*testMember, error) {
	m := &testMember{changed: make(chan *View, 1)}
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("self", cfg.Self.Node)
	also := cfg.Changed
	cfg.Changed = func(v *View) {
		m.calls++
		if also != nil {
			also(v)
		}
		select {
		case <-m.changed:
		default:
		}
		m.changed <- v
	}
	var err error
	m.Members, err = JoinMembers(t.Context(), cfg)
	if err == nil {
		t.Cleanup(m.Close)
	}
	return m, err
}

// virtual starts a member of a testNet.
func (n *testNet) start(t *testing.T, addr string, self Member, more ...func(*MembersConfig)) *testMember {
	t.Helper()
	began := time.Now()
	cfg := MembersConfig{Self: self, Listen: addr, Insecure: true, transport: n.open(t, addr), resolve: noNames}
	cfg.Boot = func() time.Duration { return time.Since(began) }
	for _, f := range more {
		f(&cfg)
	}
	return start(t, cfg)
}

func noNames(_ context.Context, host string) ([]string, error) {
	return nil, fmt.Errorf("no such name: %s", host)
}

func joining(addrs ...string) func(*MembersConfig) {
	return func(c *MembersConfig) { c.Join = addrs }
}

// await waits until a view is as wanted.
func (m *testMember) await(t *testing.T, what string, ok func(*View) bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !ok(m.View()) {
		select {
		case <-m.changed:
		case <-deadline:
			t.Fatalf("%s: waited in vain for %s; sees %v", m.cfg.Self.Node, what, nodesOf(m.View()))
		}
	}
}

func (m *testMember) awaitNodes(t *testing.T, want ...string) {
	t.Helper()
	m.await(t, fmt.Sprint(want), func(v *View) bool { return slices.Equal(nodesOf(v), want) })
}

func (m *testMember) awaitMember(t *testing.T, other *testMember) {
	t.Helper()
	m.await(t, memberName(other.cfg.Self), func(v *View) bool {
		_, ok := v.Find(other.cfg.Self.Owner())
		return ok
	})
}

func nodesOf(v *View) []string {
	var out []string
	for _, m := range v.Members {
		out = append(out, m.Node)
	}
	return out
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// sees checks what members see.
func sees(t *testing.T, m *testMember, want ...string) {
	t.Helper()
	if got := nodesOf(m.View()); !slices.Equal(got, want) {
		t.Errorf("%s sees %v, want %v", m.cfg.Self.Node, got, want)
	}
}

// bubble runs a test in virtual time. memberlist's last probes end a moment
// after its shutdown.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { pass(10 * time.Second) })
		f(t)
	})
}
