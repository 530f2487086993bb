//go:build !belfry_test_clock

package clock

import "time"

// Now is what the machine's wall clock shows.
func Now() time.Time { return time.Now() }
