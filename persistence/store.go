package persistence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// Store is one database as Belfry uses it: three small interfaces over one
// connection. Every method may also answer job.ErrUnavailable, which promises
// that nothing was written, unless the method says otherwise or the error is
// ErrInDoubt as well. A context that has ended before the call is
// job.ErrUnavailable, too, and wraps the context's own error.
type Store interface {
	Fences
	Jobs
	History

	// Cluster returns the constants of the cluster: as the node wants them when
	// it creates the store, else the stored ones. *Mismatch when they do not
	// admit the node. It may be called again to learn of a raised format.
	Cluster(ctx context.Context, want Cluster) (Cluster, error)
	// RaiseFormat raises the stored format. Afterwards no node that does not
	// know it may start, so first every node has to. It may be repeated: after
	// ErrInDoubt, too, until it answers. ErrFormatMoved.
	RaiseFormat(ctx context.Context, from, to int) error
	// Healthy is nil while writes can be acknowledged, as far as is known. A
	// store on a server becomes healthy again when the server is back; one on
	// the local disk never, in this process, once a sync has failed.
	Healthy() error
	Close() error
}

// Fence is the state that guards a partition: who owns it, under which number,
// and the name of the last batch. Whoever holds a Fence may commit exactly
// after it; a commit that finds another one has lost the partition.
type Fence struct {
	Partition   int32
	Epoch       int64     // grows with each ownership
	Seq         int64     // grows with each batch
	OpID        uuid.UUID // unique name of the batch that made this state
	Owner       string    // node name; "" when released
	Incarnation uuid.UUID // of the owner's process
	LastNumber  int64     // the highest generation, revision or decision drawn
}

// Owner names a process that owns partitions.
type Owner struct {
	Node        string
	Incarnation uuid.UUID
}

// Fences is the protocol of ownership: read, acquire, commit, settle, release.
// A Fence names epoch, seq and op id, and every conditional write names all
// three, so that a refusal tells who won.
type Fences interface {
	// ReadFence returns the fence of a partition, creating it with epoch 0 when
	// it has never existed. The creation may be repeated freely.
	ReadFence(ctx context.Context, partition int32) (Fence, error)
	// Acquire takes the partition exactly after seen, under epoch seen.Epoch+1.
	// A *Fenced error tells who was faster; ErrInDoubt is settled by calling it
	// again with the same op.
	Acquire(ctx context.Context, seen Fence, by Owner, op uuid.UUID) (Fence, error)
	// Commit writes a batch all or nothing, exactly after held, and returns the
	// fence to commit after next. Errors: *Fenced (held is stale: stop),
	// *RowRefused (the batch's content; nothing was written, held still
	// holds), ErrInDoubt (it may be applied now, later or never: Settle).
	Commit(ctx context.Context, held Fence, b Batch) (Fence, error)
	// Settle ends the doubt about a batch that was sent after held: it raises
	// the epoch under the name op unless the batch has been applied. It is
	// repeated with the same op until it answers. applied tells whether the
	// batch is in the store; if not it is dead for ever and its rows may be sent
	// again after the returned fence.
	Settle(ctx context.Context, held Fence, batch, op uuid.UUID) (now Fence, applied bool, err error)
	// Release gives the partition up at once: whoever comes next need not wait.
	// It may be repeated with the same op.
	Release(ctx context.Context, held Fence, op uuid.UUID) error
}

// Beats is what a store on a server has besides: the signs of life of the
// nodes that share it. A store of one process has none, and needs none.
type Beats interface {
	// Beat moves a node's beat from n-1 to n; n = 1 makes its row. It may be
	// repeated with the same n. Errors: ErrBeatLost when the row has another
	// beat, or is gone; job.ErrUnavailable, after which the beat may have moved.
	Beat(ctx context.Context, b Beat) error
	// Beats returns the rows of all nodes, stopped ones included until they are
	// forgotten, or have not moved for a day. While a part of the database is
	// silent these may be only those of the nodes named, and of those found
	// before: a caller names all nodes that it knows.
	Beats(ctx context.Context, names ...string) ([]Beat, error)
	// Forget removes the row of a node that has stopped for good.
	Forget(ctx context.Context, o Owner) error
}

// Beat is the sign of life of one process: whoever sees N stand still, on a
// clock of its own, knows that the process is dead or cannot reach the store.
type Beat struct {
	Owner
	N       int64
	Address string // host:port of its actors
	Roles   []string
}

// ErrBeatLost is the answer to a beat that does not follow the stored one.
var ErrBeatLost = errors.New("another beat is stored for this node")

// Batch is what one group commit writes: at most MaxBatchRows rows or
// MaxBatchBytes bytes (one job with its items always fits).
type Batch struct {
	OpID       uuid.UUID
	LastNumber int64
	Rows       []Row        // absolute values, as if written one after another: the last row for a key wins
	History    []HistoryRow // in the history, whatever dies, once Commit has returned nil
}

const (
	MaxBatchRows  = 256
	MaxBatchBytes = 128 << 10
)

// Row is one row of a partition. A nil Spec, Labels or State keeps what is
// stored: a job's spec is written when it is registered, its state whenever
// something happens to it.
type Row struct {
	Slice  int16
	JobID  string
	Item   string // "" the job; "dead/…", "spec/…", "cmd/…": see the item helpers
	Delete bool   // remove the row; the other fields below are ignored

	Revision int64
	Status   job.Status
	NextRun  int64 // ms since 1970; 0: none
	Labels   map[string]string
	Spec     []byte // protobuf
	State    []byte // protobuf
}

// Bytes is the size that counts against MaxBatchBytes.
func (r *Row) Bytes() int {
	n := len(r.JobID) + len(r.Item) + len(r.Spec) + len(r.State) + 48
	for k, v := range r.Labels {
		n += len(k) + len(v) + 2
	}
	return n
}

// Position is a place in the order (partition, slice, job id, item), for paging:
// the row after it is next.
type Position struct {
	Partition int32
	Slice     int16
	JobID     string
	Item      string // of dead letters; jobs' own rows have none
}

// Jobs reads the rows of partitions.
type Jobs interface {
	// Load calls each for every row of the slices [from, to) of a partition, in
	// the order (slice, job id, item). The row is the callee's to keep. An error
	// of each ends the load and is returned.
	Load(ctx context.Context, partition int32, from, to int16, each func(Row) error) error
	// Get returns a job's own row, item "" or another. job.ErrNotFound.
	Get(ctx context.Context, partition int32, slice int16, jobID, item string) (Row, error)
	// List returns the jobs' own rows (item "", slices 0–63) after a position,
	// in the order of Position, through all partitions: at most limit rows. next
	// is where to go on; done tells that nothing follows.
	List(ctx context.Context, after Position, limit int) (rows []Row, next Position, done bool, err error)
	// Dead is List for dead letters: the rows of slices 64–127.
	Dead(ctx context.Context, after Position, limit int) (rows []Row, next Position, done bool, err error)
}

// HistoryRow is one line of a job's history: an attempt, or with Attempt 0 the
// summary of an execution or of a range of slots.
type HistoryRow struct {
	Day          job.Day // of ScheduledFor
	JobID        string
	ScheduledFor int64 // ms since 1970
	ExecutionID  string
	Attempt      int32
	Decision     int64 // grows in a partition: of two rows for one attempt, the higher counts
	Epoch        int64
	Record       []byte // protobuf
}

// Cursor is a place in a day's history, newest first.
type Cursor struct {
	ScheduledFor int64
	ExecutionID  string
}

// History reads and expires history. Rows enter it by Commit.
type History interface {
	// Executions returns the summaries (attempt 0) of one job on one day, newest
	// first by (scheduled_for, execution id), strictly older than before when it
	// is not nil, at most limit; of several decisions the highest.
	Executions(ctx context.Context, partition int32, day job.Day, jobID string, before *Cursor, limit int) ([]HistoryRow, error)
	// Attempts returns all rows of one execution, by attempt, the summary first.
	// An attempt has a row for each epoch that may have sent it, the newest
	// decision first; of several decisions for one of them the highest counts.
	Attempts(ctx context.Context, partition int32, day job.Day, jobID string, scheduledFor int64, executionID string) ([]HistoryRow, error)
	// Expire drops every history row of a partition on the days before the given
	// one. A database that expires by itself does nothing.
	Expire(ctx context.Context, partition int32, before job.Day) error
}

// Decided keeps of the rows of one execution, sorted by attempt and then by
// decision, the highest first, those that count: one summary, and of each
// attempt the newest decision under each epoch. A late copy of a former owner
// thereby covers nothing.
func Decided(rows []HistoryRow) []HistoryRow {
	type sending struct {
		attempt int32
		epoch   int64
	}
	seen := map[sending]bool{}
	return slices.DeleteFunc(rows, func(h HistoryRow) bool {
		key := sending{h.Attempt, h.Epoch}
		if h.Attempt == 0 {
			key.epoch = 0
		}
		again := seen[key]
		seen[key] = true
		return again
	})
}

// ErrInDoubt is the answer to a write that may be applied now, later or never.
// Nobody may be told anything about it before Settle has ended the doubt.
var ErrInDoubt = errors.New("the write is in doubt")

// Fenced is the answer to a write under a stale fence: Holder is who owns the
// partition now. It is job.ErrFenced to errors.Is.
type Fenced struct {
	Holder Fence
}

func (e *Fenced) Error() string {
	return fmt.Sprintf("partition %d is held by %q under epoch %d", e.Holder.Partition, e.Holder.Owner, e.Holder.Epoch)
}

// Is makes a Fenced error job.ErrFenced.
func (e *Fenced) Is(target error) bool { return target == job.ErrFenced }

// RowRefused is the answer to a batch whose content the store cannot take:
// ids and items are UTF-8 without NUL, job ids are not empty, slices not below
// 0, op ids not zero; a database may have limits of its own. A caller halves the
// batch until the one row is found.
type RowRefused struct {
	Why string
}

func (e *RowRefused) Error() string { return "the store refuses the content of a row: " + e.Why }

// Items of a partition beside a job's own row.
func DeadItem(executionID string) string { return "dead/" + executionID }
func SpecItem(revision int64) string     { return fmt.Sprintf("spec/%d", revision) }
func CommandItem(id string) string       { return "cmd/" + id }

// Items of a job's dependencies: what its upstreams sent and whom it sends to,
// outcomes on their way, runs that wait, and the change of its upstreams.
func UpstreamItem(jobID string) string   { return "up/" + jobID }
func DownstreamItem(jobID string) string { return "down/" + jobID }
func OutcomeItem(n int64) string         { return fmt.Sprintf("out/%020d", n) }
func JoinItem(hash string) string        { return "join/" + hash }

const WiringItem = "wiring"
