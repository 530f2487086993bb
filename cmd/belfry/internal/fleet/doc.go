// Package fleet adds up when all jobs of a cluster run: executions a minute, the
// worst minutes, and what would become of them if jobs were spread.
//
// Jobs come one after another and are forgotten: what is kept is a number a
// minute, and schedules that jobs share, counted once for all of them. Who runs
// in the worst minutes is found by going over the jobs a second time.
package fleet
