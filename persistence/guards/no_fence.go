//go:build belfry_no_fence

package guards

// The safeguards that are not in this build.
const (
	NoFence = true
	NoWait  = false
	NoClock = false
	NoSync  = false
)
