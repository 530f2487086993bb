// Package embedded is the store of a single process: Belfry's partitions on
// the local disk, in a pebble database. It needs no server, and it promises
// what the database stores promise.
//
// # Protocol
//
// One process has the data directory. Open takes its lock file and keeps it
// until Close, so a second process is told ErrInUse and nothing else. Beside
// that the fence works as everywhere: each commit names the epoch, seq and op
// id that it follows, and a stale one is refused.
//
//	lock the partition ─▶ compare the fence ─▶ fence + rows + history
//	      (own lock)        (kept in memory)      in one pebble batch
//	                                                    │ write-ahead log, fsync
//	   answer ◀─ remember the new fence ◀─ is the store whole? ◀─┘
//
// Commits of one partition follow one another. Commits of different partitions
// run side by side, and pebble lets all of them that wait share one fsync.
//
// The fence in memory is a copy: it is read from the store when a partition is
// first touched, and it changes only after the batch that changes it is on
// disk. Reads of rows do not wait for the fsync of a commit in flight, so a
// list may show a row a few milliseconds before its commit is acknowledged. An
// owner cannot see one: it loads after Acquire, which waits its turn.
//
// # A disk that fails
//
// After a failed write or fsync nobody knows what is on disk (a second fsync
// may well succeed without the lost pages). So the first failure is taken for
// a power cut: from that instant no write, rename or removal reaches the
// directory any more (guard.go), every call answers job.ErrUnavailable with
// the cause, Healthy tells the cause, and pebble is shut down. Nothing after
// that is acknowledged in this process. What the directory holds is what a
// crash at that instant leaves, and the next Open recovers from that: every
// acknowledged batch, and of the others each as a whole or not at all.
//
// A commit that was under way when the store broke is job.ErrUnavailable and
// persistence.ErrInDoubt: the next process may find it on disk. A call that
// came later wrote nothing and is job.ErrUnavailable alone.
//
// A disk that is merely full does not get that far: below Config.ReserveBytes
// of free space a write is refused with job.ErrUnavailable before it is begun,
// and it goes through again as soon as there is room.
//
// # Keys
//
// All numbers are big-endian, signed ones with the sign bit flipped, so that
// the order of the bytes is the order of the numbers. Texts hold no NUL byte;
// they end with one, so "a" comes before "a.b" and no text is another's prefix.
// A tilde marks a part whose bits are inverted: it sorts newest first.
//
//	c                                                        cluster constants
//	f partition:4                                            fence
//	r partition:4 slice:2 job 00 item 00 part:1              rows
//	h partition:4 day:4 job 00 00 ~at:8 ~execution FF ~decision:8            summaries
//	h partition:4 day:4 job 00 01 ~at:8 ~execution FF attempt:4 ~decision:8  attempts
//
// A row has up to three parts under neighbouring keys: 01, its state with
// revision, status and next run, which every change writes and whose presence
// means that the row is there; 02, its spec; 03, its labels. So a change of
// state rewrites no spec, and Load, Get and List read all of a row in one pass.
// A row without a State is the one write that has to read first; the others
// only add to the log.
//
// In history the first key of an execution's attempt is its newest decision.
// Summaries lie apart from attempts, so a page of executions reads no attempt,
// and all days before a given one are one range of keys, which Expire drops
// with a single range tombstone.
//
// Every value begins with a format number (values.go).
//
// # Memory
//
// The block cache takes Config.CacheBytes; the memtables take up to
// memTableCount times Config.MemTableBytes while writes come faster than they
// are flushed, and one or two of them in calm; filters and indexes of open
// files live in the block cache. Nothing is kept per job.
package embedded
