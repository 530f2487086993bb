// Package clock is where a node gets the machine's wall clock from. Nothing else
// in it reads that clock for what time it is; how long something takes is
// measured on clocks that nobody sets.
//
// A program cannot be given a wrong clock from outside, as its runtime asks no
// library for the time. So that tests can see what becomes of a node whose clock
// is wrong, a build with the tag belfry_test_clock has one that can be moved:
//
//	BELFRY_TEST_CLOCK_OFFSET  how far it is ahead from the start: "1h", "-5s"
//	BELFRY_TEST_CLOCK_FILE    a file with such a time, read at each SIGUSR1: a
//	                          step. A second word is how much faster it runs
//	                          from then on: "300ms 0.01" is 1 %
//
// The program without that tag has nothing of it.
package clock
