package cassandra

import "syscall"

// childAttributes: a group of its own, so that the terminal's signals reach it
// only through us, and death with the thread that starts it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
