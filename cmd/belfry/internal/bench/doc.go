// Package bench measures a server from outside. It registers jobs, receives
// what they send in a sink of its own, and judges the receipts against a plan
// that it computed before it asked the server anything: which job is due when.
// What the server says about itself is never part of the judgement.
//
//	plan.go      which deliveries are expected
//	ledger.go    what arrived: early, late, missing, doubled
//	sink.go      the HTTP target in front of the ledger
//	load.go      jobs into the server, one by one or by import
//	raw.go       the same deliveries without a scheduler, for comparison
//	spike.go, steady.go, bulkhead.go, memory.go, register.go   the benchmarks
//	report.go    numbers with their goals, as a table and as JSON
package bench
