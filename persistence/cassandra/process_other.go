//go:build !linux

package cassandra

import "syscall"

// childAttributes: a group of its own. Only Linux ends a child with its parent;
// elsewhere a killed test binary leaves it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
