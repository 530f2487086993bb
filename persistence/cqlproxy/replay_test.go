package cqlproxy_test

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/internal/recorded"
)

// patience bounds every wait of a test for something that must come.
const patience = 20 * time.Second

// replay is a server that knows nothing but a recorded conversation: it gives to
// each request the answer that the real one gave.
type replay struct {
	answers  map[string]frame.Frame // by opcode and body of the request
	requests map[frame.Opcode]frame.Frame
	listener net.Listener
	work     sync.WaitGroup

	mu  sync.Mutex
	got map[frame.Opcode]int
}

func newReplay(t *testing.T) *replay {
	s := &replay{
		answers: map[string]frame.Frame{}, requests: map[frame.Opcode]frame.Frame{}, got: map[frame.Opcode]int{},
	}
	s.load(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.listener = l
	s.work.Go(s.accept)
	t.Cleanup(func() {
		l.Close()
		s.work.Wait()
	})
	return s
}

func (s *replay) load(t *testing.T) {
	var last frame.Frame
	for _, line := range recorded.Read(t, "testdata/session.txt") {
		f, err := frame.Read(bytes.NewReader(line.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		if !f.Answer {
			last = f
			s.requests[f.Opcode] = f
		} else if f.Opcode != frame.OpEvent {
			s.answers[key(last)] = f
		}
	}
}

func key(f frame.Frame) string { return f.Opcode.String() + string(f.Body) }

func (s *replay) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.work.Go(func() { s.serve(c) })
	}
}

func (s *replay) serve(c net.Conn) {
	defer c.Close()
	for {
		f, err := frame.Read(c)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.got[f.Opcode]++
		a, ok := s.answers[key(f)]
		s.mu.Unlock()
		if !ok {
			a = (&frame.Error{Code: frame.CodeServerError, Message: "not in the recording"}).Frame(0)
		}
		a.Stream = f.Stream
		if a.Write(c) != nil {
			return
		}
	}
}

// executed is how many requests of a kind reached the server.
func (s *replay) executed(o frame.Opcode) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got[o]
}

// prepare is the recorded PREPARE of a statement that has this text in it.
func prepare(t *testing.T, text string) frame.Frame {
	t.Helper()
	return find(t, frame.OpPrepare, []byte(text))
}

// find is the first recorded request of a kind that has these bytes in it.
func find(t *testing.T, o frame.Opcode, within []byte) frame.Frame {
	t.Helper()
	for _, line := range recorded.Read(t, "testdata/session.txt") {
		f, err := frame.Read(bytes.NewReader(line.Bytes))
		if err == nil && !f.Answer && f.Opcode == o && bytes.Contains(f.Body, within) {
			return f
		}
	}
	t.Fatalf("no %s with %q was recorded", o, within)
	return frame.Frame{}
}

// wire is a driver's side of a connection, frame by frame.
type wire struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, p *cqlproxy.Proxy) wire {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return wire{t: t, Conn: c}
}

func (w wire) send(f frame.Frame, stream int16) {
	w.t.Helper()
	f.Stream = stream
	if err := f.Write(w); err != nil {
		w.t.Fatal(err)
	}
}

func (w wire) hear() frame.Frame {
	w.t.Helper()
	f, err := frame.Read(w)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// hears checks what comes next.
func (w wire) hears(stream int16, o frame.Opcode) frame.Frame {
	w.t.Helper()
	f := w.hear()
	if f.Stream != stream || f.Opcode != o {
		w.t.Fatalf("heard %s on stream %d, want %s on %d", f.Opcode, f.Stream, o, stream)
	}
	return f
}

// within waits for an event.
func within(t *testing.T, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(patience):
		t.Fatalf("it did not happen in %v", patience)
	}
}
