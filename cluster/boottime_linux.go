package cluster

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Boottime is the time since this machine was started, with the time that it
// was suspended: the clock that all trust in signs of life is measured on.
// Setting the wall clock does not move it.
func Boottime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprintf("this system has no CLOCK_BOOTTIME: %v", err)) // in Linux since 2.6.39
	}
	return time.Duration(t.Nano())
}
