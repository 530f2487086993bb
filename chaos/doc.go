// Package chaos proves what the README promises: it runs real processes of
// Belfry, kills them under load, and compares three accounts of what happened:
// what was asked for, what a target received, and what the history says.
//
// It shares no code with the product. It computes when a job is due by itself
// (walking the interval), takes execution ids apart by itself, and reads the
// history over HTTP as any client does.
//
//	ledger.go   the target: notes every delivery, stamped on arrival
//	process.go  a node as a process: start, kill, pause, wait until it is ready; built with
//	            the tag belfry_test_clock it has a wall clock that can be moved
//	nodes.go    a cluster of them on one database, each at an address of its own
//	broken_*.go builds without a guard, each of which must be found out
//	client.go   the API as the harness uses it
//	loopback.go addresses that nobody else uses, for all that is started
//	growth_test.go  whether a process has more and more of something
//	check/      the rules, each with its number (C1, C2, …); what is excused
//	netns_*.go  a network whose hosts can be cut off from each other; Linux, as root
//
// One scenario a file, named by what happens: owner_killed_test.go. The rules
// know what a fault excuses, and nothing else is excused:
//
//	kill, pause      what was in flight comes again, under its own key; from the
//	                 same owner only when another node's worker was hit
//	pause            a node that lost a partition meanwhile finishes the sends
//	                 that it had begun
//	cut, split       what was in flight then, or within a TTL, comes again; a node
//	                 that the database does not hear sends nothing after a TTL
//	planned restart  nothing comes again
//	wrong clock      nothing comes again, nothing is early; what a clock sends that is
//	                 not yet wrong (0.5 s) is early by that
//	any of them      what is due meanwhile is late by at most the recovery bound
package chaos
