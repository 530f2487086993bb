// Package partition is the owner of a partition: the one actor that may change
// the jobs of a range of job ids, fire them and record what came of it.
//
// # Protocol
//
// All decisions are in State.Step: it is told an Event and the time, changes
// the state in memory and returns Effects. It reads no clock and does no I/O.
// Actor is the thin shell that turns messages into events and carries effects
// out. Host takes a partition (fence, load) and starts its actor.
//
// Memory is what is committed plus a queue of changes. A change is a set of
// absolute rows and the effects that wait for them. At most one batch is in
// flight; what comes in meanwhile goes into the next:
//
//	Step ──▶ change ──▶ queue ──▶ batch in flight ──Applied──▶ effects released
//	                      ▲            │ InDoubt
//	                      │            ▼
//	                      └─dead── Settle ──applied──▶ effects released
//
// A batch ends applied, or dead by our own barrier (then the same rows go out
// again, unchanged, under the next epoch), or fenced (then the actor stops and
// whatever it had not committed was never promised to anybody). Nothing is
// rolled back. A batch refused for its content is halved until one change is
// found, and that marks one job as faulty.
//
// Changes that answer a command stand in a line of their own, so that an answer
// does not wait for all executions of a spike; batches take from both lines
// alike and have as many rows as the store takes in a quarter of a second. The
// changes of one job keep their order (see lines).
//
// # A slot's way
//
//	next_run_at ─arm_ahead before─▶ armed (durable) ─due─▶ ready ─▶ sent
//	     ▲                             │                             │ result
//	     └──── cursor moves to it ─────┘       retrying (durable) ◀──┤
//	                                                                 ▼
//	                                        one batch: attempt row, summary row,
//	                                        and the execution leaves the state
//
// An execution is sent only when its row is durable and never before its
// instant. What a crash leaves: an armed execution is in the job's row and is
// sent by the next owner, however late; a sent one is sent again under the same
// key and attempt number, with the new epoch written into its row first; a
// result that was not committed is delivered again by the worker, or lost with
// the process, and then the attempt is repeated.
//
// Slots are derived from the schedule and the cursor, never from "now", so an
// owner that was away finds every slot it missed. Those are judged by the job's
// catch-up policy; each slot is covered by exactly one record, and consecutive
// slots of one fate share one.
//
// # The worker
//
// Deliveries go to a worker at once; one that has no slot gives them back
// (Busied) and offers slots later (Offered). Waiting happens here, where
// delete, pause and update reach it. An unanswered delivery is sent again after
// its timeout; the worker knows what it holds.
package partition
