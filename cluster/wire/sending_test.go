package wire

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus/testutil"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// sendingOff is the same scenario with the library's endpoint writer, to see
// what the guard is for.
var sendingOff = plain.with(func(c *nodeConfig) { c.OffSending = true })

// ownHost is an address that no connection comes from: a port of it stays free
// until a test takes it.
const ownHost = "127.23.0.1"

func TestBothWays(t *testing.T) {
	a, b := start(t, plain), start(t, plain)
	const each, callers = 4000, 32
	answers := make(chan report, 2)
	for _, way := range [][2]*process{{a, b}, {b, a}} {
		go func() {
			answers <- way[0].tell(order{Op: "request", Address: way[1].address, ID: "echo", N: each, Callers: callers, Size: 200, Timeout: patience})
		}()
	}
	for range 2 {
		if r := <-answers; r.OK != each {
			t.Errorf("of %d requests: %+v", each, r)
		}
	}
	for _, p := range []*process{a, b} {
		r := p.stats()
		if r.Got != each || r.Metrics["connects_total{ok}"] != 1 || r.Metrics["connected"] != 1 {
			t.Errorf("stats %+v", r)
		}
	}
}

func TestOrder(t *testing.T) {
	a, b := start(t, plain), start(t, plain)
	const n = 20_000
	a.tell(order{Op: "tell", Address: b.address, ID: "echo", N: n, Size: 100})
	r := b.until("all are there", func(r report) bool { return r.Got == n })
	if r.Disordered != 0 || r.Metrics["received_total"] != n {
		t.Errorf("%+v", r)
	}
}

// A request to an address where nobody listens, or nobody answers, ends in a
// dead letter. Without the guard the first one waits 10 s for it.
func TestDeadPeer(t *testing.T) {
	for name, tt := range map[string]struct {
		node    nodeConfig
		silent  bool // the peer accepts, and says nothing
		timeout time.Duration
		within  time.Duration
	}{
		"refused":   {node: plain, timeout: patience, within: time.Second},
		"silent":    {node: plain, silent: true, timeout: patience, within: connectTimeout + time.Second},
		"unguarded": {node: unguarded, timeout: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, tt.node)
			d := openDoor(t, func() string { return "" })
			if !tt.silent {
				_ = d.listener.Close()
			}
			r := a.tell(order{Op: "request", Address: d.address, ID: "echo", N: 20, Callers: 20, Timeout: tt.timeout})
			if tt.within == 0 {
				if r.TimedOut != 20 {
					t.Errorf("the library was faster than known: %+v", r)
				}
				return
			}
			if r.Dead != 20 || r.Slowest > tt.within {
				t.Errorf("%+v", r)
			}
			if m := a.stats().Metrics; m["lost_total{unreachable}"] != 20 || m["connects_total{failed}"] != 1 {
				t.Errorf("metrics %v", m)
			}
		})
	}
}

// A dead address is dialled again and again, and leaves nothing behind. The
// library leaves a connection with its goroutines each time.
func TestDialLeak(t *testing.T) {
	const leak = 12 // goroutines
	traffic := func(p *process, address string, done func(grown int) bool) {
		t.Helper()
		before := p.stats().Goroutines
		p.until("dials", func(r report) bool {
			p.tell(order{Op: "tell", Address: address, ID: "echo", N: 10})
			return done(r.Goroutines - before)
		})
	}
	t.Run("guarded", func(t *testing.T) {
		t.Parallel()
		a := start(t, plain)
		d := openDoor(t, func() string { return "127.0.0.1:1" })
		began := time.Now()
		traffic(a, d.address, func(grown int) bool {
			if grown >= leak {
				t.Fatalf("%d goroutines more after %d dials", grown, d.count())
			}
			return d.count() > 6
		})
		if most := 1 + int(time.Since(began)/redialAfter); d.count() > most {
			t.Errorf("%d dials in %s, want at most %d", d.count(), time.Since(began), most)
		}
		a.until("all are answered", func(r report) bool {
			return r.DeadLetters > 0 && r.Metrics["lost_total{unreachable}"] == float64(r.DeadLetters)
		})
	})
	t.Run("unguarded", func(t *testing.T) {
		t.Parallel()
		a := start(t, unguarded)
		d := openDoor(t, func() string { return "127.0.0.1:1" })
		traffic(a, d.address, func(grown int) bool { return grown >= leak })
	})
}

// Late word of the end of an old connection does not end the new one. In the
// library it does, and the end of that one may be the next such word.
func TestReconnectStorm(t *testing.T) {
	for name, c := range map[string]nodeConfig{"guarded": plain, "unguarded": unguarded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, err := freePort(ownHost)
			if err != nil {
				t.Fatal(err)
			}
			listen := net.JoinHostPort(ownHost, strconv.Itoa(port))
			d := openDoor(t, func() string { return listen })
			a := start(t, c)
			start(t, c.with(func(c *nodeConfig) { c.Listen, c.Advertise = listen, d.address }))
			send := order{Op: "request", Address: d.address, ID: "echo", N: 1, Timeout: patience}
			if r := a.tell(send); r.OK != 1 {
				t.Fatalf("%+v", r)
			}
			a.tell(order{Op: "terminated", Address: d.address})
			if c.OffSending {
				a.until("a second connection", func(report) bool {
					a.tell(order{Op: "tell", Address: d.address, ID: "echo", N: 1})
					return d.count() > 1
				})
				return
			}
			if r := a.tell(send); r.OK != 1 || d.count() != 1 {
				t.Errorf("%+v, %d connections", r, d.count())
			}
		})
	}
}

// A peer that is killed and is back at once is found again, with few
// connections.
func TestKilledAndBack(t *testing.T) {
	a, b := start(t, plain), start(t, plain.with(func(c *nodeConfig) { c.Listen = ownHost + ":0" }))
	again := plain.with(func(c *nodeConfig) { c.Listen = b.address })
	const kills = 4
	for range kills {
		if r := a.request(b, 1, 0); r.OK != 1 {
			t.Fatalf("%+v", r)
		}
		a.tell(order{Op: "tell", Address: b.address, ID: "echo", N: 1000, Size: 100})
		b.kill()
		b = start(t, again)
		a.until("found again", func(report) bool {
			return a.tell(order{Op: "request", Address: b.address, ID: "echo", N: 1, Timeout: time.Second}).OK == 1
		})
	}
	m := a.stats().Metrics
	if ok := m["connects_total{ok}"]; ok != kills+1 {
		t.Errorf("%v connections for %d lives of the peer: %v", ok, kills+1, m)
	}
}

// More than the server reads at once, in messages that it does read.
func TestLargeBatch(t *testing.T) {
	const n, size = 400, 100_000 // maxBatch of them are too many
	a, b := start(t, plain), start(t, plain)
	a.tell(order{Op: "tell", Address: b.address, ID: "echo", N: n, Size: size})
	b.until("all are there", func(r report) bool { return r.Got == n && r.Disordered == 0 })
}

// The library loses them, and says nothing.
func TestLargeBatchUnguarded(t *testing.T) {
	const n, size = 2000, 20_000
	a, b := start(t, unguarded), start(t, plain.with(func(c *nodeConfig) { c.OffReceiving = true }))
	a.tell(order{Op: "tell", Address: b.address, ID: "echo", N: n, Size: size})
	r := b.until("a later one is there", func(r report) bool {
		a.tell(order{Op: "tell", Address: b.address, ID: "echo", N: 1})
		return r.Disordered > 0
	})
	if r.Got >= n {
		t.Errorf("the library lost nothing: %+v", r)
	}
}

// A message that is too large is refused to its sender; what was sent before and
// after it arrives.
func TestLargeMessage(t *testing.T) {
	a, b := start(t, plain), start(t, plain)
	if r := a.request(b, 10, 0); r.OK != 10 {
		t.Fatalf("%+v", r)
	}
	for _, size := range []int{maxMessage, 100 << 20} {
		r := a.tell(order{Op: "request", Address: b.address, ID: "echo", N: 1, Size: size, Timeout: patience})
		if r.Dead != 1 {
			t.Errorf("%d bytes: %+v", size, r)
		}
	}
	if r := a.request(b, 1, maxMessage-1000); r.OK != 1 {
		t.Errorf("the largest: %+v", r)
	}
	if r := b.stats(); r.Got != 11 {
		t.Errorf("%+v", r)
	}
	if m := a.stats().Metrics; m["lost_total{too_large}"] != 2 || m["connects_total{ok}"] != 1 {
		t.Errorf("metrics %v", m)
	}
}

// What no process of a cluster sends is refused where it is sent; the actor at
// the other end lives.
func TestNotSent(t *testing.T) {
	a, b := start(t, plain), start(t, plain)
	if r := a.tell(order{Op: "go", Address: b.address, ID: "echo", Timeout: patience}); r.Dead != 1 {
		t.Errorf("no protobuf: %+v", r)
	}
	if r := a.tell(order{Op: "watch", Address: b.address, ID: "echo", Timeout: patience}); r.Dead != 1 {
		t.Errorf("watch: %+v", r)
	}
	a.tell(order{Op: "kill", Address: b.address, ID: "echo"})
	if r := a.request(b, 1, 0); r.OK != 1 {
		t.Errorf("%+v", r)
	}
	m := a.stats().Metrics
	if m["lost_total{type}"] != 2 || m["lost_total{system}"] != 2 { // PoisonPill is a user message
		t.Errorf("metrics %v", m)
	}
}

func TestNotSentUnguarded(t *testing.T) {
	a, b := start(t, sendingOff), start(t, plain)
	if r := a.tell(order{Op: "go", Address: b.address, ID: "echo", Timeout: 100 * time.Millisecond}); r.TimedOut != 1 {
		t.Errorf("no protobuf: %+v", r)
	}
}

// An actor that is not there answers a request at once.
func TestNobody(t *testing.T) {
	a, b := start(t, plain), start(t, plain)
	if r := a.tell(order{Op: "request", Address: b.address, ID: "nobody", N: 1, Timeout: patience}); r.Dead != 1 {
		t.Errorf("%+v", r)
	}
}

// A stopped peer takes nothing: the queue fills and refuses, what waits is
// answered after a while, and the peer is found again when it goes on.
func TestStoppedPeer(t *testing.T) {
	const queue = 1 << 20
	a, b := start(t, plain.with(func(c *nodeConfig) { c.Queue = queue })), start(t, plain)
	if r := a.request(b, 1, 0); r.OK != 1 {
		t.Fatalf("%+v", r)
	}
	if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.tell(order{Op: "tell", Address: b.address, ID: "echo", N: 80, Size: queue / 8})
	if m := a.stats().Metrics; m["lost_total{queue_full}"] < 1 {
		t.Errorf("metrics %v", m)
	}
	a.until("given up", func(r report) bool { return r.Metrics["connected"] == 0 && r.Metrics["lost_total{unreachable}"] > 0 })
	if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.until("found again", func(report) bool {
		return a.tell(order{Op: "request", Address: b.address, ID: "echo", N: 1, Timeout: time.Second}).OK == 1
	})
}

// What waits is sent before the end, and nothing after it.
func TestStop(t *testing.T) {
	a, b := start(t, plain), start(t, plain)
	const n = 5000
	a.tell(order{Op: "tell", Address: b.address, ID: "echo", N: n, Size: 1000})
	a.tell(order{Op: "stop", Timeout: patience})
	if r := b.stats(); r.Metrics["received_total"] != n { // the actor may still be busy with them
		t.Errorf("%+v", r)
	}
	if r := a.request(b, 1, 0); r.Dead != 1 {
		t.Errorf("%+v", r)
	}
	if r := b.request(a, 1, 0); r.Dead != 1 {
		t.Errorf("%+v", r)
	}
}

// A message that cannot be marshalled is told, too.
func TestNotMarshalled(t *testing.T) {
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	system := quietSystem()
	o := newOutbox(system, Config{Log: discard}, m, secrecy{})
	var dead []any
	system.EventStream.Subscribe(func(e any) {
		if d, ok := e.(*actor.DeadLetterEvent); ok {
			dead = append(dead, d.Message)
		}
	})
	bad := &belfryv1.Activate{Kind: "not UTF-8: \xff"}
	o.SendUserMessage(actor.NewPID("127.0.0.1:1", "host"), bad)
	if n := testutil.ToFloat64(m.lost.WithLabelValues(lostEncoding)); n != 1 || len(dead) != 1 || dead[0] != bad {
		t.Errorf("%v counted, dead letters %v", n, dead)
	}
}

// An address that did not answer is dialled again when it is said that another
// process is there, and not only after a while.
func TestRedialEndsTheRest(t *testing.T) {
	p := newPeer(&outbox{}, "127.0.0.1:1")
	if p.redial(); len(p.again) > 0 {
		t.Error("one that is connected is to be dialled")
	}
	p.become(down)
	rested := make(chan struct{})
	go func() {
		p.rest(time.Hour)
		close(rested)
	}()
	p.redial()
	p.redial()
	select {
	case <-rested:
	case <-time.After(patience):
		t.Error("it rests on")
	}
}
