//go:build !linux

package cql

import (
	"syscall"
	"time"
)

// unheard would end a connection on which nothing is acknowledged. Only Linux
// has it; elsewhere the driver's heartbeat does it, within a minute or so.
func unheard(time.Duration) func(network, addr string, c syscall.RawConn) error { return nil }
