// Package actors holds what all actors of a node share: one factory for their
// Props, one mailbox, one supervision policy. An actor made any other way has
// none of the guards below, so none is.
//
// # Supervision policy
//
// A panic in a message handler is a bug, or input that nobody thought of. It
// must cost what it touched and nothing else, be seen, and never be tried again
// for ever. What it touched depends on the kind of actor (kinds.go):
//
//	partition   Stop. Its memory may be wrong, and only the store knows better:
//	            whoever started it takes the fence again, under a new epoch, and
//	            a new actor loads. It is never restarted in place, because a
//	            restart would keep the old fence and lose the queue of batches.
//	host        Stop. It holds the fences of all partitions of the node, so the
//	            node ends with it and another takes over.
//	worker      Restart, with a growing pause. What it holds (running calls and
//	            results that nobody acknowledged) lives outside of the actor, so
//	            a restart loses one message; calls that were running end as
//	            unknown. At the limit it is stopped, which the node reports.
//	execution   Stop. The worker is told and reports a failed attempt. The retry
//	            policy of the job decides about the next one; a restart here
//	            would be a second delivery that no history shows.
//
// A restarted actor waits min(Backoff × 2^(n−1), MaxBackoff), spread by Jitter,
// where n is how often it failed within the window. More than Restarts failures
// in the window stop it. Whoever supervises is told of each stop, with the
// reason.
//
// Every panic is logged with its stack, counted by kind, and goes on to the
// supervisor. Panics while an actor stops end there: protoactor restarts an
// actor that panics in Stopping, and one that panics in Stopped becomes a
// zombie whose parent can never stop. For the same reason a Restart that
// arrives after a Stop is dropped.
//
// # Mailbox
//
// A mailbox is bounded. When it is full a message is turned away at once, in
// the sender's goroutine: counted, handed to the actor's OnFull hook, or else
// to the dead letters, which answers a request immediately with an error. It
// never blocks, spins or drops in silence. Every command between actors is
// repeated until answered, so a message turned away is late and not lost.
//
// What an actor sends to itself, and what its children report, must arrive:
// those messages say so (Reserved) and pass a full mailbox. Their number is
// bounded by what the actor started. System messages pass too, and go first.
//
// A message that comes while an actor is being spawned waits for it. With
// protoactor's own mailboxes it panics in the sender and leaves the actor deaf.
//
// What waits in a mailbox when its actor stops is discarded, as with every
// crash: the repeat of the sender covers it.
package actors
