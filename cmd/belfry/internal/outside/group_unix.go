//go:build unix

package outside

import (
	"os"
	"syscall"
)

// ownGroup makes a command the first of a process group: its children are in it,
// and no signal of the terminal is.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a command and what it has started.
func killGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }
