// Package queue brings outside workers to what waits for them: executions whose
// target is a queue.
//
// # Protocol
//
// Executions of one queue belong to jobs of any partition, and a worker that asks
// for one cannot ask every owner. So each queue has a broker, a meeting place:
//
//	owner ──Hint: n wait of k jobs──▶ broker ◀──Poll── gateway ◀── outside worker
//	  ▲                                  │                │ ▲
//	  │                                  └─Referral: ask──┘ │
//	  │                                     partition p     │
//	  └───────────────Claim─────────────────────────────────┤
//	                 Grants, durable ───────────────────────┘
//
// The owner alone decides who gets an execution, and its answer waits for the
// batch that writes the lease. The broker decides nothing: what it refers a
// gateway to may be gone. It keeps no files and is not fenced.
//
// # Placement
//
// Every node that is a scheduler or a gateway has a Desk, the actor of all
// brokers that are placed there: of a queue the one whose name has, by
// rendezvous, the highest weight. While nodes differ about who is alive there are
// two, or one that nobody asks. An owner hints at once when something comes due,
// and again every two seconds as long as anything waits; a gateway asks again as
// often. So whatever is lost, a message, a broker, a node, costs two seconds and
// no execution.
//
// # Turns
//
// The partitions of which a broker has a hint take turns, each for as many
// executions as it has jobs, and an owner gives its jobs turns. So a job with ten
// thousand executions does not keep another's waiting.
package queue
