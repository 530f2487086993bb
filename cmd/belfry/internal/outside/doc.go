// Package outside is a worker outside of the cluster: it claims executions of a
// queue and runs a command for each.
//
// # One execution
//
//	claim ──▶ command, with its process group ──exit──▶ complete, until answered
//	            │   ▲
//	            │   └ heartbeats, three a lease
//	            └ killed with all its children: at the job's timeout, when the
//	              lease is lost, or when the worker must end at once
//
// The lease is lost when the server says so, or when it has not been extended for
// as long as it lasts: then another worker may have begun. What a command came to
// under a lost lease is told to nobody. A completion that gets no answer is
// repeated: the server knows a repeat by its lease, also after a change of owners.
//
// # The end of a worker
//
// The first signal ends the claiming: what runs is left to finish. The second
// kills what runs, and each is completed as failed.
package outside
