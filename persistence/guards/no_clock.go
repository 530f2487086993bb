//go:build belfry_no_clock

package guards

// The safeguards that are not in this build.
const (
	NoFence = false
	NoWait  = false
	NoClock = true
	NoSync  = false
)
