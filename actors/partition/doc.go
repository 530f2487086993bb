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
// sent by the next owner, however late; a sent one goes on at its worker, or is
// sent again under the same key and attempt number, with the new epoch written
// into its row first; a result that was not committed is delivered again by the
// worker, or lost with the process, and then the attempt is repeated.
//
// Slots are derived from the schedule and the cursor, never from "now", so an
// owner that was away finds every slot it missed. Those are judged by the job's
// catch-up policy; each slot is covered by exactly one record, and consecutive
// slots of one fate share one.
//
// # What runs after its time
//
// The slots of a catch-up and those of backfills are extra: there may be very
// many at once, and none of them is urgent. They are kept as ranges (from, to,
// next), and armed a few at a time: of a partition at most Config.Extra are in
// their first attempt, jobs take turns (see extra.go), and workers get what the
// schedule asks for before them. A catch-up takes half of a job's places
// (max_outstanding) at most, the other half is for live slots.
//
// A backfill runs exactly the slots that the job's schedule had in a range when
// it was asked for, with the definition of that moment: an edit does not touch it,
// a pause and the end of the schedule do not stop it, a delete or a cancel runs no
// more of it. Its executions have ids of their own, made from the command, and the
// keys of their slots. They do not count for max_outstanding: it has a bound of
// its own, by default one at a time. What overlap makes of it is in overlap.go.
//
// # Workers
//
// Deliveries go to the first worker of the list that is neither busy nor
// draining: the node's own, then the others in an order of the partition's. One
// that has no slot gives them back (Busied) and offers slots later (Offered).
// Waiting happens here, where delete, pause and update reach it.
//
// What waits stands in a lane for its host (lanes). A worker may also take
// nothing for one host for a while: it gives that back with the host and the
// reason, the lane is held up as far as that worker goes, and it offers for the
// host when it can. Other lanes go on. Of few slots each host gets some in turn,
// and of a host's each job, and what is of one job goes in due order. All calls
// to a host with a limit that nodes share are made by one worker: the first of
// all by rendezvous on the host. While owners do not agree yet who the workers
// are, for a TTL at most, there may be two, and twice as many calls. What waits
// for max_elapsed ends as expired; but what was due while nobody could send it is
// sent however late it is.
//
// A job's own rate limit is exact: its bucket is here (pace), a token is taken when
// a delivery is sent, and given back when the worker did not begin it.
//
//	            Dispatch 1, 2, …          confirmed
//	queued ────────────────────▶ sent ───────────────▶ sent ──result──▶ decided
//	   ▲                          │ │ silent: again,     │
//	   │◀────────── Busy ─────────┘ │ to the same one    │ worker lost
//	   │◀── worker lost, ───────────┘                    ▼
//	   │    same number                       the attempt ends unknown,
//	   └──────────────── next number ◀──────  durably, and is retried
//
// Only a remote worker is asked to confirm: what it is sent may be lost. What it
// has not confirmed is sent again to it, and to nobody else while it is live, so
// that nothing runs twice; after the third try what is new goes to others. Each
// Dispatch has a number. A worker drops one that comes after a later one, and a
// Busy counts only for the newest Dispatch of a delivery: so neither a late
// Dispatch nor a late Busy makes it run twice.
//
// A success decides an execution whatever attempt and epoch it is of; where
// executions must not overlap, once no other worker is at it any more. A failure
// counts for the current attempt, and not when another worker is at that by now.
// A success that finds its execution a dead letter makes it a success, late. Any
// other result that nothing waits for is acknowledged when all that was decided of
// its job before is durable; one that was sent under a later epoch, never: that
// owner waits for it.
//
// # Outside workers
//
// An execution whose target is a queue is delivered to nobody: it waits on a
// shelf until a worker outside of the cluster claims it (package queue brings
// both together). A lease says who has it, and it is in the row before the worker
// hears of it:
//
//	due ──▶ unclaimed ──Claim──▶ row with lease durable ──▶ leased ──Complete──▶ decided
//	          ▲    │                                         │ │ │
//	          │    │ max_elapsed: dead letter                │ │ └─ Heartbeat: longer
//	          │◀───┼──────────── Release, same number ───────┘ │
//	          └────┼── next number ◀── ends unknown, durably ◀─┘ expired
//
// So nothing has to be found out after a takeover: what has no lease is with
// nobody, and a lease holds. Its token is (epoch, number), and no other lease has
// it; whoever comes with one that is over changes nothing, save a success under
// the last lease of a dead letter, if that expired (see late.go). Heartbeats stay in
// memory. Therefore a new owner gives every lease its full time again, and so does
// an owner that stood still or whose clock was stepped. An attempt ends at the
// job's timeout, however often its lease was extended. What is claimed is as good
// as sent: delete leaves it to finish, and it keeps its revision.
//
// # Overlap and cancel
//
// Whether an execution may run beside others of its job is decided when it
// would be sent for the first time: overlap.go has the rule, and cancel.go what
// becomes of one that is not wanted any more. Neither needs a lock: who has a
// job's place, and who is being cancelled, is in the entries of its row.
//
// # After a takeover
//
// An entry names every epoch under which its attempt may have been sent. A new
// owner sends nothing again that a former one may have sent, until it has asked
// the live workers what they hold (Inquire, Holds), but for no longer than the
// TTL after it acquired the partition:
//
//	loaded, due ──▶ adopting ──held──▶ sent, confirmed, under the former epoch
//	                   │ no worker holds it, or there is no time left
//	                   ▼
//	                own epoch durable ──▶ queued
//
// So does what comes due within the difference that clocks may have. Anything
// else, armed or not, is sent at its instant meanwhile; the own epoch is made
// durable the arm-ahead before that. Every live worker is
// asked, also one that comes later: from its answer on it begins nothing of a
// former owner, who may be paused and not know yet that it is one. For the same
// reason an entry that is not due keeps naming each former owner but one that
// has ended (Config.FormerEnded). When an attempt is decided each epoch under which
// it may have been sent has its line in the history: the one that is known its
// outcome, the others unknown.
//
// The workers answer within milliseconds, and a batch takes tens of them. So the
// first batch of an owner waits a moment (50 ms at most) for what they hold, while
// something due waits for that: what nobody holds is written with it then, and
// sent after one batch instead of two.
//
// # Dependencies
//
// A job with upstreams has no schedule: their success triggers it. The owners of
// the jobs' partitions tell each other by commands (Tell, Told), over a transport
// that may lose, repeat and delay them. Each is sent until it is answered.
//
// A change of a job's upstreams is driven by the owner of that job, from the row
// "wiring" that it writes first, so that whoever owns the partition next goes on
// with it. There need not be a job yet.
//
//	                 the system partition: SetEdges, all that it has and wants
//	wiring durable ─▶ each new upstream:   Attach, it keeps outcomes from here on
//	                         │
//	      one refuses        │ all agree
//	          ▼              ▼
//	     refusal durable   the job's new spec, its rows up/<upstream>   (one batch,
//	          │              │                                          then the answer)
//	          └─────┬────────┘
//	                ▼
//	settling ─▶ the system partition: SetEdges, what holds now
//	            each upstream that lost it: Detach
//	                ▼
//	            the row is removed
//
// The system partition holds the rows /edges/<job> and decides one after another,
// so of two changes that would close a cycle together at most one is agreed to.
// A job that has a dependent, in its row down/<job>, cannot be deleted. All these
// commands are keyed, and owners remember those of them that they refused, too:
// one that comes again late has no effect. What else is asked of a job whose
// upstreams change waits until that has settled.
//
// Each edge is a numbered stream of outcomes:
//
//	upstream                                  dependent
//	an execution is decided:
//	  row out/<n>, in that batch ──Notify──▶  takes those after its last n, in order,
//	  sent again until it is answered         as far as it has places; the last n, in
//	  ◀──────────────Taken n────────────────  row up/<upstream>, and what it does, in
//	  row down/<job>: n                       one batch
//	  out/<n> goes when all have it
//
// So nothing is taken twice, and a death on either side repeats at most what
// changes nothing. n is a number of the upstream's partition: it grows across
// owners and registrations. "No such edge" is answered behind a write, so that no
// owner that has lost its partition can give it.
//
// A run is what begins with an execution that no upstream triggered; its id is
// that execution's, and executions that follow carry it along. Upstreams whose
// runs begin in the same job are joined by run: the dependent runs once in each
// in which all succeeded, as d<hash of run id>; one in which any did not is
// skipped, under the same id, which it passes on. What waits, and what was skipped,
// has the row join/<hash>: when an upstream is replayed and succeeds after all
// (Outcome.again) the dependent runs. An outcome that comes again for a run without
// such a row changes nothing. What waits when the job's upstreams change is skipped
// (see rewired). Upstreams whose runs begin in different jobs are
// joined by the newest success of each, which that uses up, and that begins a run
// of the dependent's own.
//
// # Giving up
//
// After a Yield nothing is taken, armed or sent any more. What was decided before
// is committed to its end, doubt and all, and its answers and acknowledgements
// still go out. Then Yielded names the fence exactly after which the next owner
// may acquire, and the state does nothing any more. Results that come in between
// are the next owner's: workers repeat them until they are acknowledged.
//
// The next owner is told the fence, and loads. It is not sent the state: a State
// is then made in one way only, from rows, after a crash as after a hand-over. A
// load costs tens of milliseconds, and runs while the partition is acquired: all
// that was ever to be written is there, and where the acquisition finds that very
// fence nothing was added. After a crash it must not: a write may be half done.
package partition
