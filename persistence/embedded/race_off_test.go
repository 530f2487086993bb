//go:build !race

package embedded

const raceSlowdown = 1
