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
// A partition has one owner at a time, on any node, and each has a higher epoch
// than the one before. The worker serves the newest that it knows of: the sender
// of a Dispatch or an Inquire under the highest epoch so far, or whom the
// routing table names, if that epoch is higher. When what it sends there is a
// dead letter it follows the table alone, until it hears of somebody again. It
// never turns to an owner of an epoch before the highest: that one would take
// results that it does not expect for unwanted, and acknowledge what it cannot
// record. Results and offers go to the newest owner, also those of deliveries
// that an earlier one has sent.
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
// Messages may be lost, repeated, late or out of order. A Dispatch is repeated by
// its owner until it hears of it (by a Begun if it asks for one), a Results by
// the worker every Resend until it is acknowledged. An unacknowledged result
// keeps its slot: a worker whose owners cannot record takes no more work than
// they can.
//
// After a takeover the new owner inquires, and is told all that is held of its
// partition, with the results of what has ended. From then on nothing of an
// earlier epoch is begun: what the answer does not list, and the new owner
// therefore sends elsewhere, can never begin here.
//
// # What is not begun
//
// Busy is the answer when nothing was begun, and nothing will be:
//
//	no slot       an Offer follows
//	host          no call to its host may begin now: see below. An Offer follows
//	              that is for this host alone
//	late          the stamp of the Dispatch, this node's own clock at an earlier
//	              moment, is older than the TTL: it sat in buffers while its
//	              owner may have given this worker up. The clock counts suspended
//	              time. From another node a stamp is required
//	stale epoch   it is of an owner that has lost the partition
//	draining      this node begins nothing any more
//	fenced        this node may not send: see below
//
// A Dispatch that comes after a later one of its owner is as good as lost, and is
// not answered. So one that cancels what is not held is answered by Busy: none
// that comes later can begin it. A call that runs is cut, and ends unknown, unless
// nothing was sent yet; a result that is there already is reported again.
//
// # The fence
//
// Other nodes take a node for dead when its beats stand still, and send its
// deliveries again. So each delivery is begun under a lease: that this node has
// counted as alive ever since. It is looked at right before the first byte of
// the request leaves, behind name lookup, dial and handshake, and before an actor
// is asked. If it has ended nothing is sent, the attempt is not used up, and the
// delivery goes back as Busy, also if it was confirmed as Begun. The same
// happens to what is cut by the end of a drain before it was sent.
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
// # Hosts
//
// A host that hangs, fails or is slow must not keep others from being called. So
// calls to one host are limited (limits.go), each for a reason that the owner is
// told and shows:
//
//	concurrency   half of this worker's slots, or what the operator says. Calls
//	              that run count, results that wait for their owner do not
//	rate          the operator's, by a token bucket; or the host has answered 429
//	              with Retry-After: then nothing begins before, for a minute at most
//	circuit       it has opened
//	recovering    it has closed again, and calls begin slowly
//
// Each host has its own line of partitions, which are offered what it takes as
// soon as it takes something: nobody asks again and again.
//
//	        10 calls failed in 10 s, and half of all
//	closed ───────────────────────────────────────▶ open
//	   ▲                                             │ 10 s
//	   │            3 probes succeed                 ▼
//	   └───────────────────────────────────────── half-open
//	  recovers: 10 calls begin in the first        ▲  │
//	  second, twice as many in each of nine more   └──┘ a probe fails: open
//
// No answer, none in time, and 5xx count as failures; 2xx as success. Any other
// answer, and a call that we cut ourselves, says nothing about the host.
//
// What this worker knows of a host is in its memory alone. Where a host is called
// from several workers, each has to find out for itself that it fails.
//
// # What a crash leaves
//
//	a panic in a call           that attempt ends failed, "internal: panic …"
//	a panic in the worker       one message is lost; running calls end unknown;
//	                            held results are still reported
//	an owner, its node          nothing here: calls go on, and results wait for
//	                            the next owner
//	the process                 nothing: once it is not live any more, owners end
//	                            attempts that it had confirmed as unknown, and
//	                            send the others again, same number, same key
//
// # What an outcome says
//
//	succeeded   the target answered 2xx
//	failed      the target answered otherwise, or nothing was sent at all (name
//	            not found, connection refused, TLS failed, no member of the
//	            cluster hosts the kind of actor)
//	timeout     the attempt's time ended, from dial to the last byte
//	unknown     something was sent and no whole answer came: the target may have
//	            done the work
//
// 408, 425, 429 and 5xx are worth another attempt; other answers are final. 410
// also says that the target wants no more of the job. Redirects are not
// followed: 3xx is a final failure that names the new place. An answer's body
// is read to 64 KiB; a longer one costs its connection and not its outcome.
//
// An actor says itself whether it succeeded, whether another attempt can help,
// and when. Once it was asked, silence is a timeout and a lost answer unknown, as
// with HTTP.
//
// # Secrets
//
// A job holds no key or token that it can do without, but says where one is: in a
// variable or a file of the node that sends (vault.go). It is read for each
// request, so that a new one holds at once, and masked wherever an answer or an
// error would show it. What cannot be read fails the attempt before anything is
// sent. A job can only refer to what is meant for jobs: variables of one prefix,
// and files below one directory, out of which no link leads.
//
// A request is signed, where a job asks for it, as Standard Webhooks says
// (signature.go): over id, time and body, with each of the keys that the
// reference names, so that a receiver may know the old one or the new one.
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
