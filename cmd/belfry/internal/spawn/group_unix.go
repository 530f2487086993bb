//go:build unix

package spawn

import "syscall"

// ownGroup keeps signals of the terminal from the child: its parent stops it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
