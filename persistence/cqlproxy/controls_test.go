package cqlproxy_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// Nothing comes through while it is paused, and everything afterwards.
func TestPause(t *testing.T) {
	f := setup(t)
	before := f.server.executed(frame.OpOptions)
	f.proxy.Pause()
	f.proxy.Pause() // twice is once
	f.wire.send(frame.Options(), 5)
	f.wire.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	var late net.Error
	if _, err := frame.Read(f.wire); !errors.As(err, &late) || !late.Timeout() {
		t.Fatalf("heard something: %v", err)
	}
	if n := f.server.executed(frame.OpOptions); n != before {
		t.Error("the server heard of it")
	}
	f.proxy.Resume()
	f.proxy.Resume()
	f.wire.SetReadDeadline(time.Now().Add(patience))
	f.wire.hears(5, frame.OpSupported)
}

// A paused proxy can be closed.
func TestCloseWhilePaused(t *testing.T) {
	f := setup(t)
	f.proxy.Pause()
	f.wire.send(frame.Options(), 5)
	if err := f.proxy.Close(); err != nil {
		t.Error(err)
	}
	if _, err := frame.Read(f.wire); err == nil {
		t.Error("the connection lives on")
	}
}

func TestCloseAll(t *testing.T) {
	f := setup(t)
	other := dial(t, f.proxy)
	other.send(frame.Options(), 1)
	other.hears(1, frame.OpSupported)
	if n := f.proxy.Conns(); n != 2 {
		t.Errorf("%d connections", n)
	}
	f.proxy.CloseAll()
	for _, w := range []wire{f.wire, other} {
		if _, err := frame.Read(w); err == nil {
			t.Error("a connection lives on")
		}
	}
	dial(t, f.proxy).send(frame.Options(), 1)
}

// What is held back when the proxy closes is not waited for.
func TestCloseWhileDelayed(t *testing.T) {
	f := setup(t)
	f.proxy.Decide(cqlproxy.Always(all, cqlproxy.Delay(time.Hour)))
	f.wire.send(f.lwt, 1)
	f.wire.send(frame.Options(), 2)
	f.wire.hears(2, frame.OpSupported)
	if err := f.proxy.Close(); err != nil {
		t.Error(err)
	}
}

// A driver that begins with a newer version is told which one to speak.
func TestNewerVersion(t *testing.T) {
	f := setup(t)
	newer := frame.Options()
	newer.Version = 5
	f.wire.send(newer, 0)
	e := frame.ParseError(f.wire.hears(0, frame.OpError))
	if e.Code != frame.CodeProtocol || !strings.Contains(e.Message, "greatest is 4") {
		t.Errorf("told %v", e)
	}
}

// What the proxy cannot read is its error, and ends the connection.
func TestUnreadable(t *testing.T) {
	compressed := frame.Query("SELECT 1", frame.One)
	compressed.Flags = frame.FlagCompressed
	cut := frame.Query("SELECT 1", frame.One)
	cut.Body = cut.Body[:6]
	backwards := frame.Options()
	backwards.Answer = true
	for name, c := range map[string]struct {
		frame frame.Frame
		says  string
	}{
		"compressed": {compressed, "compression"},
		"malformed":  {cut, "malformed"},
		"backwards":  {backwards, "wrong way"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newReplay(t)
			p, err := cqlproxy.Open(s.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			w := dial(t, p)
			w.send(c.frame, 1)
			if _, err := frame.Read(w); err == nil {
				t.Error("the connection lives on")
			}
			if err := p.Close(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// A server that is away looks to the driver like a connection that closes.
func TestServerAway(t *testing.T) {
	s := newReplay(t)
	p := cqlproxy.Start(t, s.listener.Addr().String())
	s.listener.Close()
	s.work.Wait()
	if _, err := frame.Read(dial(t, p)); err == nil {
		t.Error("somebody answered")
	}
}

func TestRoutes(t *testing.T) {
	first, second := newReplay(t), newReplay(t)
	a := cqlproxy.Start(t, first.listener.Addr().String())
	b := cqlproxy.Start(t, second.listener.Addr().String())
	tr := cqlproxy.Translate(a, b)
	at := second.listener.Addr().(*net.TCPAddr)
	ip, port := tr.Translate(at.IP, at.Port)
	if got := (&net.TCPAddr{IP: ip, Port: port}).String(); got != b.Addr() {
		t.Errorf("%s leads to %s, not to %s", at, got, b.Addr())
	}
	elsewhere := net.IPv4(10, 0, 0, 1)
	if ip, port := tr.Translate(elsewhere, 9042); !ip.Equal(elsewhere) || port != 9042 {
		t.Errorf("another address leads to %s:%d", ip, port)
	}
	via := cqlproxy.Via(a, b)
	c, err := via.DialContext(t.Context(), "tcp", a.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.RemoteAddr().String() != a.Addr() {
		t.Errorf("dialled %s", c.RemoteAddr())
	}
	if c, err := via.DialContext(t.Context(), "tcp", "10.0.0.1:9042"); err == nil {
		c.Close()
		t.Error("dialled past the proxies")
	}
}
