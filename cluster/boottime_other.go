//go:build !linux

package cluster

import "time"

var began = time.Now()

// Boottime is the time since this process was started. Here it may stand still
// while the machine is suspended, so a node should not run on one that is:
// after it wakes up it trusts its last sign of life for too long. The fence
// makes that harmless to what is stored; calls may be repeated.
func Boottime() time.Duration { return time.Since(began) + 1 }
