// Package cql is the store of several processes: Belfry's partitions in a
// ScyllaDB or Apache Cassandra keyspace. It promises what package persistence
// says, against servers and networks that fail in the middle of an answer.
//
// # Fence
//
// A condition guards only its own CQL partition, so a partition's fence is
// static columns beside the rows that it protects, and each write is one request
// that changes the fence and the rows together, or nothing:
//
//	acquire   epoch+1, seq+1, op      IF epoch, seq and op_id are those seen
//	commit             seq+1, op      IF they are those held; rows, history ring
//	release            seq+1, op      IF …; no owner
//	barrier   epoch+1, seq+1, op      IF …
//
// A refusal tells the three that stand there. Our own op among them: it was
// ours, sent before. Anything else: somebody was faster, *persistence.Fenced.
//
// The sentinel, slice −1, is the first row of every partition and is never
// deleted: the database reads up to the first living row to judge a condition,
// and would read past every deleted job. That of the system partition holds the
// constants of the cluster.
//
// # Doubt
//
//	            ┌─ applied ───────────────▶ nil
//	Commit ─────┼─ refused ──┬─ our op ───▶ nil
//	 one request│            └─ else ─────▶ Fenced (who: one more serial read)
//	            ├─ invalid ──┬─ a write without content passes ▶ RowRefused
//	            │            └─ it does not ──▶ ErrUnavailable
//	            ├─ not sent, or refused before the Paxos round ▶ ErrUnavailable
//	            └─ anything else, or nothing in time ▶ ErrInDoubt ──▶ Settle
//
//	Settle ─────┬─ applied, or refused with the barrier's op: the batch is dead
//	 the barrier├─ refused with the batch's op: the batch is applied
//	            ├─ refused with another: Fenced
//	            └─ no answer: call it again, with the same op
//
// A write that timed out may be applied by the next Paxos round, whenever that
// comes, so reading is not enough to settle a doubt. The barrier is a write of
// the same partition under the same condition: of the two at most one is ever
// applied. It may be sent at any moment and however often, so a commit is given
// up early: after max(500 ms, 5 × the median of the last ones).
//
// Requests are sent once. The driver's retries and speculative executions are
// off; reads are tried again here, since reading twice does no harm. A server
// that left a request without an answer is asked last for a while (detour.go),
// so the barrier goes through another one when there is one. An answer that
// cannot be read, or contradicts itself, is a doubt and never a refusal.
//
// Conditional writes agree among the replicas of one data centre (LOCAL_SERIAL,
// LOCAL_QUORUM), which is one of the constants: a node that names another is
// refused. Times are the database's own; none is sent along.
//
// # History
//
// A line of history belongs to another CQL partition than the batch that decides
// it, so it is copied there afterwards. That the copy is made, whoever dies, is
// the promise of Batch.History. It is kept by an outbox inside the fence: a batch
// with history also writes one row of a ring,
//
//	slice 192, job_id '/history', item 'ring/<seq mod 32>':
//	    spec = seq, "copied through seq", time     state = the lines
//
// overwritten in turn and never deleted, so it leaves no tombstones.
//
//	commit ──▶ ring row (same batch) ──applied──▶ copier ──▶ history table
//	   ▲                                             │ done
//	   └── waits while its slot is not copied ◀──────┘
//
// What each crash leaves: before the batch is applied, nothing; after it, the
// ring row, which the next owner finds when it has acquired the partition and
// copies before it overwrites anything. The watermark is that of the newest ring
// row, so a takeover copies the last few batches again. That changes nothing: a
// line's key holds its decision, the bytes are the same, and its time to live
// counts from the commit. A copier that wakes up after its process lost the
// partition repeats what was decided, too.
//
// This replaces keeping uncopied facts in the jobs' own state: no second batch
// is needed to drop a fact, and a database that does not take history holds up
// the commits that have some, not the jobs' rows.
//
// Readers look into the ring first and then into the table, in whatever process
// they are, so a line is seen when its commit returns: one that has left the ring
// in between is in the table. Lines expire by themselves, so Expire does nothing.
//
// # Beats
//
// A node's sign of life is a row of its own in the table nodes, moved by one with
// each conditional write:
//
//	beat 1    INSERT beat = 1        IF NOT EXISTS   the row lives a day
//	beat n    UPDATE beat = n        IF beat = n-1   and a day from now on
//	forget    DELETE                 IF EXISTS
//
// A beat that is refused with n is ours, sent before, so a doubt is settled by
// sending it again; no barrier is needed. A server that leaves one unanswered for
// 250 ms is asked last from then on, also by the next attempt that goes out while
// the first is under way. All rows are read at LOCAL_QUORUM; when that takes 250 ms,
// those of known nodes are asked for by name, through one server after another.
//
// # Schema
//
// The files in schema/ are applied in order under a lock, a row of the table
// bootstrap that only conditional statements touch and that expires with its
// holder. The keyspace and that table cannot be made under it: every node sends
// them to one coordinator, the server with the least host id. A node that finds
// the version it knows, or a later one (files only add), sends no statement of
// the schema at all: with a server down each of them waits for an agreement that
// does not come.
//
// What is true of ScyllaDB alone (its answers with a row for each statement,
// tablets, which carry conditional writes from 2025.4 on) is tested with answers
// in its documented form and has not been tried on a server.
package cql
