// Package guards names safeguards that a build can be made without, to show that
// the tests miss each. All are in place unless a build tag takes one away, and
// what stands behind a constant that is false is not in the program.
//
//	belfry_no_fence   on CQL a write is made under any fence
//	belfry_no_wait    a command is answered, and a delivery sent, before its batch is written
//	belfry_no_clock   what is armed is sent when its partition is loaded, due or not
//	belfry_no_sync    the embedded store does not wait for the disk
package guards
