package job

import (
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// The number of partitions is a power of two in these bounds, chosen when a
// cluster is created and fixed for its life.
const (
	MinPartitions     = 16
	MaxPartitions     = 4096
	DefaultPartitions = 256

	// HashName is stored with the cluster: a node with another hash refuses to start.
	HashName = "xxh64"
)

// SystemPartition holds what belongs to no job. Same table, same fence.
const SystemPartition int32 = -1

// Slices divide the rows of a partition so that jobs, dead letters and the
// rest are each read on their own, a bounded piece at a time.
const (
	SlicesPerKind   = 64
	DeadSliceOffset = 64  // dead letters: 64–127
	SideSliceOffset = 128 // commands, older specs and the like: 128–191
)

// PartitionOf maps a job id to one of n partitions: contiguous ranges of the
// 64-bit hash, n a power of two. Ids with a '/' in front, which no job has, are
// rows of the system partition.
func PartitionOf(jobID string, n int) int32 {
	if strings.HasPrefix(jobID, "/") {
		return SystemPartition
	}
	return int32(xxhash.Sum64String(jobID) / (^uint64(0)/uint64(n) + 1))
}

// SliceOf is the slice of a job's own row: the six bits of the hash after the
// partition's.
func SliceOf(jobID string, n int) int16 {
	rest := xxhash.Sum64String(jobID) % (^uint64(0)/uint64(n) + 1)
	return int16(rest / ((^uint64(0)/uint64(n) + 1) / SlicesPerKind))
}

// ValidPartitions reports whether n can be a cluster's partition count.
func ValidPartitions(n int) bool {
	return n >= MinPartitions && n <= MaxPartitions && n&(n-1) == 0
}

// Day is the bucket of history an instant falls in: days since 1970-01-01 UTC.
type Day int32

// DayOf returns the bucket of t.
func DayOf(t time.Time) Day { return DayOfMillis(t.UnixMilli()) }

// DayOfMillis returns the bucket of an instant in milliseconds since 1970.
func DayOfMillis(ms int64) Day {
	const perDay = 24 * 60 * 60 * 1000
	d := ms / perDay
	if ms%perDay < 0 {
		d--
	}
	return Day(d)
}

// Time is the first instant of the day.
func (d Day) Time() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

// String is the day as a date, "2026-01-31".
func (d Day) String() string { return d.Time().Format(time.DateOnly) }
