package cqlproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// conn is one connection of a driver and its twin to the server.
type conn struct {
	proxy  *Proxy
	number int
	driver net.Conn
	server net.Conn
	live   context.Context // ends when either side does
	end    context.CancelFunc
	late   sync.WaitGroup // answers that are held back

	writing sync.Mutex // of answers: one frame at a time

	mu      sync.Mutex
	pending map[int16]expected // by stream
}

// expected is an answer that is on its way, and what to do with it.
type expected struct {
	action   Action
	prepares string // the text of a PREPARE
}

func newConn(p *Proxy, number int, driver net.Conn) *conn {
	c := &conn{proxy: p, number: number, driver: driver, pending: map[int16]expected{}}
	c.live, c.end = context.WithCancel(p.live)
	return c
}

// run lives as long as the connection.
func (c *conn) run() {
	defer c.driver.Close()
	defer c.end()
	var d net.Dialer
	server, err := d.DialContext(c.live, "tcp", c.proxy.target)
	if err != nil {
		return // the driver sees the connection close
	}
	c.server = server
	defer server.Close()
	unhook := context.AfterFunc(c.live, func() { c.driver.Close(); server.Close() })
	defer unhook()
	var answers sync.WaitGroup
	answers.Go(func() { c.pump(server, true, c.answer) })
	c.pump(c.driver, false, c.request)
	answers.Wait()
	c.late.Wait()
}

// close breaks the connection; run clears up.
func (c *conn) close() { c.end() }

// pump reads one side and hands every frame on until the connection ends.
func (c *conn) pump(from net.Conn, answers bool, handle func(frame.Frame) error) {
	defer c.end()
	in := bufio.NewReader(from)
	for {
		f, err := frame.Read(in)
		if err == nil && f.Answer != answers {
			err = errors.New("a frame that goes the wrong way")
		}
		if err == nil && !c.proxy.gate.wait(c.live.Done()) {
			return
		}
		if err == nil {
			err = handle(f)
		}
		if err != nil {
			c.report(err)
			return
		}
	}
}

// report blames the proxy for what is no end of a connection.
func (c *conn) report(err error) {
	var network net.Error
	if c.live.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) {
		return
	}
	c.proxy.blame(fmt.Errorf("connection %d: %w", c.number, err))
}

// request takes a frame from the driver.
func (c *conn) request(f frame.Frame) error {
	if f.Version > frame.Version {
		return c.give(wrongVersion(f))
	}
	if !hasStatements(f.Opcode) {
		return f.Write(c.server)
	}
	r, err := c.read(f)
	if err != nil {
		return err
	}
	e := expected{action: c.proxy.judge(r)}
	if f.Opcode == frame.OpPrepare {
		e.prepares = r.Statements[0]
	}
	switch {
	case e.action.reaches():
		c.expect(f.Stream, e)
		return f.Write(c.server)
	case e.action.kind == refuse:
		err = c.give(e.action.err.Frame(f.Stream))
	}
	e.action.done()
	return err
}

func hasStatements(o frame.Opcode) bool {
	return o == frame.OpQuery || o == frame.OpPrepare || o == frame.OpExecute || o == frame.OpBatch
}

func (c *conn) read(f frame.Frame) (Request, error) {
	if f.Flags&frame.FlagCompressed != 0 {
		return Request{}, errors.New("a compressed request cannot be read: leave compression off")
	}
	q, err := frame.ParseRequest(f)
	if err != nil {
		return Request{}, fmt.Errorf("%s: %w", f.Opcode, err)
	}
	return Request{
		Conn: c.number, Stream: f.Stream, Op: f.Opcode,
		Statements: c.proxy.prepared.textsOf(q.Statements), Consistency: q.Consistency, Body: f.Body,
	}, nil
}

// answer takes a frame from the server.
func (c *conn) answer(f frame.Frame) error {
	e := c.expected(f.Stream)
	if id, ok := frame.PreparedID(f); ok && e.prepares != "" {
		c.proxy.prepared.learn(id, e.prepares)
	}
	var err error
	switch e.action.kind {
	case pass:
		err = c.give(f)
	case delay:
		c.giveLater(f, e.action)
		return nil
	case replace:
		err = c.give(e.action.err.Frame(f.Stream))
	case cut:
		c.close()
		c.driver.Close() // before anybody hears of it
	case swallow:
	}
	if err == nil {
		e.action.done()
	}
	return err
}

// give sends an answer to the driver.
func (c *conn) give(f frame.Frame) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return f.Write(c.driver)
}

// giveLater sends it when its time has come, if the connection lives so long.
func (c *conn) giveLater(f frame.Frame, a Action) {
	c.late.Go(func() {
		timer := time.NewTimer(a.delay)
		defer timer.Stop()
		select {
		case <-c.live.Done():
			return
		case <-timer.C:
		}
		if c.proxy.gate.wait(c.live.Done()) && c.give(f) == nil {
			a.done()
		}
	})
}

func (c *conn) expect(stream int16, e expected) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[stream] = e
}

// expected takes what waits for an answer; an event and the answer to a request
// without statements pass.
func (c *conn) expected(stream int16) expected {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.pending[stream]
	delete(c.pending, stream)
	return e
}

// wrongVersion sends a driver that begins with a newer version back to ours, in
// the words of a server.
func wrongVersion(f frame.Frame) frame.Frame {
	e := &frame.Error{
		Code:    frame.CodeProtocol,
		Message: fmt.Sprintf("Invalid or unsupported protocol version (%d); the lowest supported version is 3 and the greatest is %d", f.Version, frame.Version),
	}
	return e.Frame(f.Stream)
}
