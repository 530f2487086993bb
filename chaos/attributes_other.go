//go:build !linux

package chaos

import "syscall"

// childAttributes: a group of its own. Only Linux ends a child with its parent.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
