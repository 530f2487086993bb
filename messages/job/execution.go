package job

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"
	"time"
)

// ExecutionStatus is where an execution stands. Pending, running and retrying
// are on the way; the others are ends, each with a reason.
type ExecutionStatus string

const (
	Pending   ExecutionStatus = "pending"
	Running   ExecutionStatus = "running"
	Retrying  ExecutionStatus = "retrying"
	Succeeded ExecutionStatus = "succeeded"
	Failed    ExecutionStatus = "failed" // a dead letter
	Skipped   ExecutionStatus = "skipped"
	Missed    ExecutionStatus = "missed"
	Cancelled ExecutionStatus = "cancelled"
)

// Outcome is how one attempt ended. Timeout and Unknown mean that the target
// may have done the work: the next attempt carries the same key.
type Outcome string

const (
	AttemptSucceeded Outcome = "succeeded"
	AttemptFailed    Outcome = "failed"
	AttemptTimeout   Outcome = "timeout"
	AttemptUnknown   Outcome = "unknown"
)

// Kind says what made an execution; it is the letter in its id.
type Kind byte

const (
	Scheduled  Kind = 0
	Manual     Kind = 'm'
	Replayed   Kind = 'r' // of a dead letter
	Backfilled Kind = 'b'
	Dependent  Kind = 'd'
)

// marked are the kinds whose ids have a mark and a hash.
const marked = string(Manual) + string(Replayed) + string(Backfilled) + string(Dependent)

const (
	idTime = "20060102T150405.000Z"

	// MaxJobID is the longest job id, MaxExecutionID the longest id made from one.
	MaxJobID       = 128
	MaxExecutionID = 200
)

// ExecutionRef is an execution id taken apart. Job, partition and history day
// are read from it without asking anybody.
type ExecutionRef struct {
	JobID      string
	Generation int64
	Kind       Kind
	Hash       string // of what asked for it; "" when scheduled
	At         time.Time
}

// ScheduledID is the id of the execution of a slot: it depends on nothing but
// the registration and the slot, so every node computes the same one.
func ScheduledID(jobID string, generation int64, slot time.Time) string {
	return jobID + "~" + strconv.FormatInt(generation, 36) + "~" + slot.UTC().Format(idTime)
}

// ManualID is the id of the execution that a command asked for, accepted at an
// instant: a repeated command finds the execution of the first.
func ManualID(jobID string, generation int64, commandID string, at time.Time) string {
	return ManualIDOf(jobID, generation, CommandHash(commandID), at)
}

// ManualIDOf is ManualID from the command's hash.
func ManualIDOf(jobID string, generation int64, hash string, at time.Time) string {
	return MarkedID(Manual, jobID, generation, hash, at)
}

// MarkedID is the id of an execution of a kind that has a hash.
func MarkedID(kind Kind, jobID string, generation int64, hash string, at time.Time) string {
	return jobID + "~" + strconv.FormatInt(generation, 36) + "~" + string(byte(kind)) + hash + "~" + at.UTC().Format(idTime)
}

// BackfillHash is the hash in the id of the execution by which a backfill runs a
// slot again. The backfill's own id is CommandHash of the command that asked for
// it, so a repeated command makes the same executions.
func BackfillHash(backfill string, slot time.Time) string {
	return CommandHash(backfill + "~" + slot.UTC().Format(idTime))
}

// DependentID is the id of the execution that a job's upstreams triggered: each
// run has one, under the instant of its root.
func DependentID(jobID string, generation int64, hash string, instant time.Time) string {
	return MarkedID(Dependent, jobID, generation, hash, instant)
}

var idHash = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// CommandHash is the part of an execution's id that stands for the command that
// asked for it, or for the run that it is part of.
func CommandHash(commandID string) string {
	sum := sha256.Sum256([]byte(commandID))
	return idHash.EncodeToString(sum[:16])
}

// ParseExecutionID takes an id apart. Anything that ScheduledID or MarkedID
// would not have made is refused.
func ParseExecutionID(id string) (ExecutionRef, bool) {
	if len(id) > MaxExecutionID {
		return ExecutionRef{}, false
	}
	parts := strings.Split(id, "~")
	if len(parts) != 3 && len(parts) != 4 {
		return ExecutionRef{}, false
	}
	ref := ExecutionRef{JobID: parts[0]}
	if CheckID(ref.JobID) != nil {
		return ExecutionRef{}, false
	}
	gen, err := strconv.ParseInt(parts[1], 36, 64)
	if err != nil || gen <= 0 || strconv.FormatInt(gen, 36) != parts[1] {
		return ExecutionRef{}, false
	}
	ref.Generation = gen
	if len(parts) == 4 {
		mark := parts[2]
		if len(mark) != 27 || strings.IndexByte(marked, mark[0]) < 0 {
			return ExecutionRef{}, false
		}
		ref.Kind, ref.Hash = Kind(mark[0]), mark[1:]
	}
	stamp := parts[len(parts)-1]
	at, err := time.Parse(idTime, stamp)
	if err != nil || at.Format(idTime) != stamp {
		return ExecutionRef{}, false
	}
	ref.At = at
	return ref, true
}

// CheckID says whether a client may use an id for a job: 1 to 128 of
// A–Z a–z 0–9 . _ - and not "." or "..".
func CheckID(id string) *Invalid {
	switch {
	case id == "":
		return Refuse("job_id", "an empty job_id cannot be addressed: leave the field out to get one, or use 1 to %d of A-Z a-z 0-9 . _ -", MaxJobID)
	case len(id) > MaxJobID:
		return Refuse("job_id", "it has %d bytes, and at most %d are allowed", len(id), MaxJobID)
	case id == "." || id == "..":
		return Refuse("job_id", "%q is a path segment with a meaning of its own: use another id", id)
	}
	for i := range len(id) {
		if !idByte(id[i]) {
			return Refuse("job_id", "the character at byte %d is not allowed: use A-Z a-z 0-9 . _ - only, so that the id is the same in URLs, files and logs", i+1)
		}
	}
	return nil
}

func idByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}
