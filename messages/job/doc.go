// Package job is the domain of Belfry: what a job is, when it is due, what an
// occurrence is called and what its outcome means. It is pure. It reads no
// clock, no file and no network, and it knows neither actors nor stores, so
// every node computes the same answer from the same input.
//
// # Words
//
// A job has a schedule, a target and policies. An occurrence is one instant at
// which the schedule is due (scheduled_for, UTC, whole milliseconds). An
// execution is the one record of an occurrence, and its id is derived from the
// job id, the generation of the registration and the instant, so two nodes
// that both believe they own a job still produce one id. An attempt is one
// delivery of an execution, numbered 1, 2, … without holes.
//
// Generations and revisions are numbers drawn from the partition and never
// repeat there: a job deleted and registered again under the same id is
// another generation, and an edit is another revision.
//
// # Where to look
//
//	spec.go       the registration as data, its defaults
//	validate.go   what is refused, and the words it is refused with
//	schedule.go   Compile and Next: expression, zone and daylight saving
//	marks.go      L, W and #; spread.go: H; years.go: the year field
//	many.go       several expressions; exclude.go: dates on which nothing is due
//	runs.go       max_runs as the last slot; jitter.go: when a slot is sent
//	dialects.go   what AWS writes, and iso.go: ISO 8601, in our own form
//	catchup.go    which missed slots run
//	backfill.go   which slots a backfill runs
//	execution.go  execution ids, statuses, outcomes
//	retry.go      whether and when the next attempt runs
//	partition.go  job id to partition and slice; history day
//	errors.go     the few errors a caller decides on
package job
