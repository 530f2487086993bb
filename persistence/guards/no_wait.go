//go:build belfry_no_wait

package guards

// The safeguards that are not in this build.
const (
	NoFence = false
	NoWait  = true
	NoClock = false
	NoSync  = false
)
