package cql

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unheard ends a connection on which the other kernel acknowledges nothing for
// so long. Without it, what was sent into a cut is repeated by TCP after pauses
// that double each time: a cut that ends goes on for up to as long again on that
// connection, and the driver keeps to it, for it is open. A database process
// that is slow or stopped does not count: its kernel acknowledges. RFC 5482.
func unheard(limit time.Duration) func(network, addr string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
		})
		if failed != nil {
			return failed
		}
		return err
	}
}
