// Package execution makes deliveries: a Worker takes them from the owners of
// partitions, runs each in an actor of its own, and reports what came of it.
//
// # Who is authoritative
//
// The owner of a partition decides which attempts exist. The worker decides
// only whether it begins one, and it is the only one that knows what became of
// it. So a worker remembers, and owners ask: every delivery that it has begun
// is held, with its result, until an owner, whoever that is by then,
// acknowledges it. A delivery is known by (execution, attempt).
//
// # A delivery's way
//
//	            Dispatch
//	owner ──────────────────▶ worker: held already?
//	  ▲                         │ running: nothing; ended: the result again
//	  │        no slot          │ no
//	  ├◀──────── Busy ──────────┤
//	  │        later: Offer     │ slot: begun
//	  │                         ▼
//	  │                      execution actor ── HTTP ──▶ target
//	  │                         │ result
//	  ├◀─────── Results ────────┤ held until
//	  └──────── Acks ──────────▶  acknowledged; the slot is free
//
// Messages may be lost or repeated. A Dispatch is repeated by its owner until
// it hears of it, a Results by the worker every Resend until it is
// acknowledged. An unacknowledged result keeps its slot: a worker whose owners
// cannot record takes no more work than they can.
//
// # Slots
//
// The worker has no queue. What finds no slot goes back at once as Busy, and
// waits where it can still be deleted or paused. The partition then stands in
// a line. When slots are free its owner gets an Offer, and the slots are kept
// for it until a Dispatch names the offer: it uses them, some of them, or
// none. An offer that nobody answers lapses after OfferFor, and the partition
// stands in line again, now for one slot at a time, so that an owner that has
// gone costs little. A Dispatch that used all that was offered may have more
// behind it: its partition stays in line.
//
// # What a crash leaves
//
//	a panic in a call           that attempt ends failed, "internal: panic …"
//	a panic in the worker       one message is lost; running calls end unknown;
//	                            held results are still reported
//	the process                 nothing: owners send unanswered deliveries again,
//	                            the same attempt under the same key
//
// # What an outcome says
//
//	succeeded   the target answered 2xx
//	failed      the target answered otherwise, or nothing was sent at all (name
//	            not found, connection refused, TLS failed)
//	timeout     the attempt's time ended, from dial to the last byte
//	unknown     something was sent and no whole answer came: the target may have
//	            done the work
//
// 408, 425, 429 and 5xx are worth another attempt; other answers are final. 410
// also says that the target wants no more of the job. Redirects are not
// followed: 3xx is a final failure that names the new place. An answer's body
// is read to 64 KiB; a longer one costs its connection and not its outcome.
//
// # One delivery, one request
//
// Every request is an attempt that the history shows. Go's http.Transport sends
// a request again by itself when a kept connection breaks, if it believes that
// to be safe, and an Idempotency-Key makes it believe so. It also hands every
// request and answer through two goroutines more, which costs as much as the
// rest of a delivery. So a call writes its request and reads its answer itself,
// in its own goroutine (conn.go), on a connection that nobody else touches: what
// was written is known to the byte. Answers are read by http.ReadResponse.
//
// Connections are kept (pool.go). One on which anything can be read before a
// request, an end included, is not used again. Only where not one byte was
// written another one is tried. HTTP/1.1 alone is spoken: one call on a
// connection, so that a lost connection is the loss of one call.
package execution
