// Package wire carries messages between the actor systems of a cluster's
// processes: protoactor's remote with guards around it, because as it comes it
// loses messages in silence, and whoever can connect can end the process.
//
// # Promise
//
// At most once, in order per pair of processes and connection. A message that
// is not handed to the network is answered at once with a
// actor.DeadLetterResponse when it has a sender, and is a DeadLetterEvent when
// it has none; every one is counted (belfry_remote_lost_total). A message that
// was handed to the network may still be lost, without a word, when the peer
// dies before it reads it: a command needs an answer, a deadline and a repeat
// that changes nothing.
//
// # Who may talk to whom
//
//	plaintext   only between loopback addresses, unless Insecure is set; other
//	            addresses are not dialled either
//	TLS         1.3, both sides show a certificate that the one CA signed; names
//	            in it are not looked at. The three files are read at each
//	            handshake, so new ones need no restart; while they cannot be
//	            read, or do not fit each other, the last good ones are used
//	label       each stream names its cluster in its metadata; another name is
//	            refused with FailedPrecondition, so two clusters on one network
//	            never exchange messages, also where addresses were used before
//
// # Sending
//
// protoactor asks resolvers for the process behind a remote PID, in the order
// of their registration; ours is first. So a message goes through a peer, one
// for each address that is written to, and never through the library's endpoint
// writer: that one reconnects in storms (it takes word of the end of an old
// connection for the end of the new one), leaks a connection with each failed
// dial, waits 2 s before it tells senders of a dead address, queues without
// bound, and drops what is queued when it stops, in silence.
//
//	         first message             ConnectResponse
//	(absent) ─────────────▶ connecting ───────────────▶ connected
//	    ▲                       │ 2 s, refused              │ stream over, or a
//	    │                       │                           │ send stuck for 5 s
//	    └── 500 ms after the ───┴────────── over ◀──────────┘
//	        dial began
//
// A message is marshalled in its sender's goroutine, and waits in the peer's
// queue (64 MiB; full: refused). Whatever waits when the connection is over, and
// whatever comes until the peer is absent again, is lost in the sense of the
// promise. So a dead address is dialled at most twice a second, with one
// connection, whatever is sent to it; a new process at it, of which gossip tells
// (Redial), at once. A batch is at most 200 messages, and is
// closed once it has 4 MiB; a message larger than that is refused to its
// sender, with no effect on others.
//
// Refused, too: what is no protobuf message, what the receiver would not take
// (below), and system messages. Watch, Stop and Poison do not reach another
// process; who watches an actor there is told at once that it terminated.
//
// # Receiving
//
// The library serves the gRPC service and answers the handshake; batches do not
// get as far as its reader, which dies of an unknown type and cuts the stream at
// a message that cannot be read. Each envelope is checked and delivered by
// itself, and a panic on the way costs that envelope. One that is not delivered
// is counted by its reason (belfry_remote_dropped_total), and answered with
// actor.DeadLetterResponse when it has a sender:
//
//	serializer  not protobuf
//	index       its type, target or sender is not in the batch
//	type        not one of belfry.v1.*, actor.DeadLetterResponse, Config.Allow
//	target      a process of the library itself: eventstream, activator, …
//	address     for another address: it would be sent on, perhaps in a circle
//	garbled     cannot be read
//	panic       the delivery panicked
//	protocol    no batch and no handshake
//
// With its gossip off protoactor's cluster sends no message of its own: it asks
// the IdentityLookup for a PID and sends the request there. (Grains and its own
// lookups would need cluster.GrainRequest and others by Config.Allow.)
//
// The unary calls of the service, which panic in the library, are refused, and
// a message over 16 MiB ends its stream. Failed handshakes, other labels and
// refused calls are counted (belfry_remote_refused_total).
//
// # Limits
//
// protoactor's Remote.Start switches gRPC's log off for the whole process, with
// an unguarded write: start wire before anything else uses gRPC, once a process.
// What matters of it is logged and counted here.
package wire
