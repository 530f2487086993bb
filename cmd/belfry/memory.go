package main

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the heap of a node grow by half before it is collected: what a
// node holds is jobs, which stay, so Go's default of 100 would double it.
const gcPercent = 50

// spareMemory sets the garbage collector for a process that holds many jobs,
// unless GOGC says otherwise.
func spareMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
