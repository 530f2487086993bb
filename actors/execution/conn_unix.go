//go:build unix

package execution

import (
	"errors"
	"syscall"
)

// quiet reports whether there is nothing to read from a socket: no byte,
// no end, no error.
func quiet(raw syscall.RawConn) bool {
	var err error
	if raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
	}) != nil {
		return false
	}
	return errors.Is(err, syscall.EAGAIN)
}
