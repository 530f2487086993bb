package execution

import (
	"bufio"
	"errors"
	"math"
	"net"
	"net/http"
	"syscall"
	"time"
)

// conn is a connection to a target. One call at a time uses it, in the
// goroutine of that call: nothing reads or writes between calls.
type conn struct {
	net.Conn // with TLS, if any
	under    *countedConn
	place    string // where it leads
	in       *bufio.Reader
	left     int64     // bytes that may still be read
	broken   bool      // a read or write failed
	kept     bool      // it has carried a call before
	used     time.Time // when that ended
}

// newConn makes a connection of one that counts and, above it, TLS; or of the
// same twice.
func newConn(top net.Conn, under *countedConn, place string) *conn {
	c := &conn{Conn: top, under: under, place: place}
	c.in = bufio.NewReader(c)
	return c
}

var errHead = errors.New("the head of the answer is longer than 32 KiB")

// Read implements net.Conn, within the limit.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.broken = true
		return 0, errHead
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.broken = c.broken || err != nil
	return n, err
}

// Close implements net.Conn. It does not say goodbye in TLS, which could wait
// for a target that reads nothing.
func (c *conn) Close() error { return c.under.Close() }

// send writes a request.
func (c *conn) send(request []byte) error {
	_, err := c.Write(request)
	c.broken = c.broken || err != nil
	return err
}

// receive reads the head of the answer to a request, past those that only say
// that there will be one.
func (c *conn) receive(method string) (*http.Response, error) {
	c.left = maxHeaders
	for {
		res, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			c.left = math.MaxInt64
			return res, nil
		}
	}
}

// reusable reports whether nothing is wrong after a whole answer.
func (c *conn) reusable() bool { return !c.broken && c.in.Buffered() == 0 }

// alive reports whether a kept connection is open, and has nothing to say that
// nobody asked for.
func (c *conn) alive() bool {
	s, ok := c.under.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := s.SyscallConn()
	return err == nil && quiet(raw)
}

// countedConn counts what is written to a connection, so that it is known
// whether any byte of a request may have reached the target.
type countedConn struct {
	net.Conn
	written int64
	last    int64 // when something was last written, in milliseconds since 1970
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.last = time.Now().UnixMilli()
	n, err := c.Conn.Write(b)
	c.written += int64(n)
	return n, err
}
