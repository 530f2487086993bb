package execution

import (
	"bufio"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"syscall"
	"time"
)

// errHead is an answer whose headers have no end.
var errHead = errors.New("the headers of the answer are longer than 32 KiB")

// conn is a connection to a target. One call uses it at a time, in its own
// goroutine.
type conn struct {
	net.Conn // with TLS, if any
	place    string
	under    *countedConn
	in       *bufio.Reader
	left     int64 // bytes that may still be read
	kept     bool  // it has carried a call before
	broken   bool  // a read or write failed
	used     time.Time
}

func newConn(under *countedConn, secure *tls.Conn, place string) *conn {
	c := &conn{Conn: under, under: under, place: place}
	if secure != nil {
		c.Conn = secure
	}
	c.in = bufio.NewReader(c)
	return c
}

// Read reads what the limit leaves.
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

// send writes a request. The count of written bytes begins at nothing.
func (c *conn) send(request []byte) error {
	c.under.written = 0
	_, err := c.Write(request)
	c.broken = c.broken || err != nil
	return err
}

// receive reads the head of the final answer to a request.
func (c *conn) receive(method string) (*http.Response, error) {
	of := &get
	if method == http.MethodHead {
		of = &head
	}
	c.left = maxHeaders
	for {
		res, err := http.ReadResponse(c.in, of)
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			c.left = math.MaxInt64
			return res, nil
		}
	}
}

// What the form of an answer depends on: one to HEAD has no body.
var get, head = http.Request{Method: http.MethodGet}, http.Request{Method: http.MethodHead}

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

// idle reports whether a kept connection is open and has nothing to say.
func (c *conn) idle() bool {
	s, ok := c.under.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := s.SyscallConn()
	return err == nil && silentSocket(raw)
}
