package chaos

import "syscall"

// childAttributes: a group of its own, so that signals of the terminal do not
// reach it, and death with the thread that starts it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
