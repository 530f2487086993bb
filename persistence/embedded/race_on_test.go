//go:build race

package embedded

// raceSlowdown divides how much the long tests do. The race detector also turns
// on pebble's own checks, which take most of the time.
const raceSlowdown = 4
