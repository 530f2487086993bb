//go:build !unix

package outside

import (
	"os"
	"syscall"
)

// ownGroup has no use where there are no process groups.
func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills the command alone.
func killGroup(p *os.Process) error { return p.Kill() }
