//go:build !belfry_no_fence && !belfry_no_wait && !belfry_no_clock && !belfry_no_sync

package guards

// The safeguards that are not in this build.
const (
	NoFence = false
	NoWait  = false
	NoClock = false
	NoSync  = false
)
