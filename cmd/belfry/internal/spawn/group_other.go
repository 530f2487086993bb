//go:build !unix

package spawn

import "syscall"

// ownGroup has no use where there are no process groups.
func ownGroup() *syscall.SysProcAttr { return nil }
