//go:build !unix

package execution

import "syscall"

// silentSocket cannot be told here without reading: a connection that the
// target closed is seen when it is used.
func silentSocket(syscall.RawConn) bool { return true }
