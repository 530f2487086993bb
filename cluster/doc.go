// Package cluster makes processes one cluster: who is there, who owns each
// partition, how a message reaches the owner, and how other services take part.
//
// # Who is authoritative
//
//	the fence (store)   who owns a partition: the write that raises its epoch is
//	                    the activation, and there is no other
//	beats (store)       whether a node lives, as each node sees them move on its
//	                    own BOOTTIME clock
//	gossip              who seems to be there: a hint (members.go)
//	presence            what each process says of itself: a hint (presence.go)
//	routes              what was heard of epochs: a hint (routes.go)
//
// A wrong hint costs a repeat or a wait, never a wrong write: whoever acts on
// one is refused by the fence.
//
// # Wall clocks
//
// Wall time says when a job is due, and never who owns it. A node whose clock is
// more than 500 ms from what most of at least three say owns nothing. It judges
// itself every 250 ms, and once before it takes part at all:
//
//	              joined, and 3 clocks, or all, are read
//	(starting) ────────────────────────────────────────▶ judged
//	                                                      │   ▲
//	                                    more than 500 ms  ▼   │ less than 250 ms
//	                                              off: it owns nothing, is not
//	                                              ready, and says so
//
// What happens between two looks is Wall's: after a step of the machine's clock
// it shows what it would without, until the step was judged. While the node is
// off it goes by the median of all clocks. Where fewer than three are compared,
// or no majority agrees, the machine is followed, and only then can a step have
// slots come early, or be taken for missed.
//
// # The parts
//
//	Member, View, Members     gossip over hashicorp/memberlist
//	Watch, Beater, Claims     which partitions this node takes and gives up, and when
//	Assign, Rendezvous        placement
//	JudgeClock                whether this node's wall clock can be trusted
//	Wall                      the wall clock that this node acts by: no step of the
//	                          machine's is believed before it was judged
//	wire                      messages between the actor systems, guarded
//	Presence, Routes          who owns what, told by each to all
//	Services, Kinds           actors of other services, as targets of jobs
//	Protoactor                protoactor's cluster API over all of it
//	Process, Client           all parts of a node, and of a service, in order
//
// # How an owner is found
//
// Every process has an actor named "node" (NodeActor). It sends a Presence to
// that of every other member each TTL/6, and within 20 ms of a change; a member
// that joins is told at once, and a process that is heard for the first time is
// answered at once, so both know all as soon as both have seen each other. A
// presence lists everything that its process owns, so each replaces the one
// before, and it does not matter which are lost, repeated or overtaken: the
// highest number counts.
//
// Of two that claim a partition the higher epoch counts. The owner of partition
// 17 under epoch 42 is the actor "host/p17-e42" at its member's address, so a
// message for one owner reaches no other.
//
//	             presence, host                 NotOwner, a later claim,
//	(nobody) ─────────────────────▶ (p, epoch) ── its member is gone ──▶ (next, or nobody)
//
// A route that the owner itself refused is not believed again, whatever older
// presence still says so.
//
// # A request
//
//	no owner is known        wait for one
//	dead letter              it was not delivered: wait for a change of the route,
//	                         at most 20 ms, then twice as long up to 1 s, less a
//	                         random half; ask again
//	NotOwner                 drop the route, go on to the next owner
//	the route changed        the owner lost the partition while it was asked: ask
//	                         the next one
//	silence                  from another process, for 2 s: the message or its
//	                         answer may be lost; send it again
//	CODE_IN_FLIGHT           to a repeat of ours: it works on the first one; wait
//	the deadline             job.ErrNoOwner (503): what came of it is not known
//	4,096 without an answer  to one process: job.ErrNoOwner at once
//
// After a silence, and when the route changes, the first message may have had
// effect. It is sent again only if that is harmless: questions are, and commands
// whose id is keyed, which owners remember for 24 h and answer as they did the
// first time. All repeats are the same message.
//
// # Actors of other services
//
// A process says in gossip which kinds it hosts. The actor of (kind, identity)
// belongs to the member that rendezvous gives it to, among those that host the
// kind. It is started there by the first message to it, and stopped when nobody
// has used it for ten minutes. While views differ, two members may have one
// each: every execution carries an idempotency key, and that is what makes its
// effect one, here as with every other target.
//
// Perform tells what certainly was not delivered (job.ErrNotSent: no member has
// the kind, or the one that has is dead) from what may have been (it was asked,
// and left or stayed silent).
//
// A process that leaves says first that it drains, which places its identities
// elsewhere, and leaves gossip when its executions have ended: whoever waits for
// a member that has left gives up at once.
//
// # What a crash leaves
//
//	a process           gossip misses it within 1.5 s, its routes and identities
//	                    go with it; its fences wait for beats (Claims)
//	the actor "node"    nobody hears of this process any more: Failed, the process ends
//	an actor of a kind  the answer to what it worked on; the next message starts another
//	a handler           that attempt is failed
package cluster
