// Package gateway is Belfry's HTTP API. It holds no state of a job: it turns a
// request into a command for the owner of the job's partition, waits for the
// answer, and turns that into a response.
//
// # Protocol
//
//	request ─▶ limits ─▶ strict decoding ─▶ messages/job validates
//	                                              │
//	            command id, made before the first send
//	                                              ▼
//	     owner of the partition ◀── Command ── gateway ──▶ store (reads)
//	              │                               ▲
//	              └── Answer, after its batch is durable ──┘
//
// A command id is the hash of principal, method, path, explicit job id and
// Idempotency-Key when the client sent a key, else random. The owner remembers
// it with its effect, so that a repeat gets the first answer. A POST without
// job_id derives the id of the job from the command id: every repeat reaches
// the same partition.
//
// The response to a command is a function of the owner's answer alone (the job
// in it and the instant it was accepted), never of this process's clock, so a
// repeat is equal byte for byte.
//
// Nothing is answered with success that is not durable. When the owner cannot
// be reached or does not answer in time the response is 503 with Retry-After;
// the command may still have happened, and a repeat under the same
// Idempotency-Key finds out.
//
// # Reads
//
// Jobs and history are read from the store, not from the owner: a read works
// while a partition moves. Only whether an attempt runs at this moment is asked
// of the owner, for at most 500 ms; without an answer the response says as_of.
// Executions are ordered newest first by (scheduled_for, execution_id), merged
// from the job's row (in flight, slots of one fate that are not written yet)
// and from history; the row is read first, so an execution that is decided in
// between is seen at least once, and it is shown once: history wins.
//
// Lists page by position and not by number, so rows that come and go do not
// move the others. A token carries its position and a hash over it and over the
// filter: another filter, or an edited token, is 400.
//
// # What a crash leaves
//
// Of the gateway: nothing. A request without an answer is repeated by its
// client. An import is a series of upserts; the lines that were answered are
// durable, and the others may be sent again.
//
// # Where to look
//
//	gateway.go      Config, New, Handler
//	routes.go       the table of routes, and what each accepts
//	problem.go      every refusal and its HTTP status: no other file knows both
//	request.go      one request: body, query, response
//	decode.go       strict JSON, and what to tell who sent something else
//	register.go     from the API's form of a job to the domain's
//	view.go         and back
//	jobs.go         create, replace, read, delete
//	patch.go        merge patch
//	actions.go      trigger, pause, resume
//	executions.go   the merged list, one execution
//	cancel.go       cancel of an execution
//	dead.go         dead letters: list, replay, purge
//	list.go         lists of jobs; filter.go, paging.go
//	import.go       NDJSON in, NDJSON out: chunk.go, lanes.go, outbox.go
//	bulk.go         one page of a bulk action
//	events.go       server-sent events from a ring
//	limits.go       what one client may take
package gateway
