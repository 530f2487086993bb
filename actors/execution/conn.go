package execution

import (
	"net"
	"sync/atomic"
	"time"
)

// countedConn counts what is written to a connection, so that it is known
// whether any byte of a request may have reached the target.
type countedConn struct {
	net.Conn
	written atomic.Int64
	last    atomic.Int64 // when something was last written, in milliseconds since 1970
}

// Write counts before it writes and takes back what was not written: a reader
// of the count must never see less than what is on its way.
func (c *countedConn) Write(b []byte) (int, error) {
	c.written.Add(int64(len(b)))
	c.last.Store(time.Now().UnixMilli())
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n - len(b)))
	return n, err
}

// counted finds the counter under a connection, through TLS.
func counted(conn net.Conn) *countedConn {
	switch c := conn.(type) {
	case *countedConn:
		return c
	case interface{ NetConn() net.Conn }:
		return counted(c.NetConn())
	}
	return nil
}
