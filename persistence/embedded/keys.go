package embedded

import (
	"encoding/binary"
	"math"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// The first byte of a key.
const (
	kindCluster = 'c'
	kindFence   = 'f'
	kindHistory = 'h'
	kindRow     = 'r'
)

// The last byte of a row's key.
const (
	partState  = 1 // always there
	partSpec   = 2
	partLabels = 3
)

// The byte between the job and the instant in a history key.
const (
	classSummary = 0
	classAttempt = 1
)

// past follows the last digit of a text's terminator: appended to a text it is
// greater than every key that holds just this text, and not greater than any
// key of the texts that come after it.
const past = 1

func appendInt16(b []byte, v int16) []byte {
	return binary.BigEndian.AppendUint16(b, uint16(v)^(1<<15))
}

func appendInt32(b []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(v)^(1<<31))
}

// appendDescending is appendInt64 with all bits inverted.
func appendDescending(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(b, ^(uint64(v) ^ (1 << 63)))
}

func appendText(b []byte, s string) []byte {
	return append(append(b, s...), 0)
}

// appendTextDescending writes a text whose order is that of the texts reversed.
func appendTextDescending(b []byte, s string) []byte {
	for i := range len(s) {
		b = append(b, ^s[i])
	}
	return append(b, 0xff)
}

func appendFenceKey(b []byte, partition int32) []byte {
	return appendInt32(append(b, kindFence), partition)
}

// appendSlice is the beginning of all keys of a slice.
func appendSlice(b []byte, partition int32, slice int16) []byte {
	return appendInt16(appendInt32(append(b, kindRow), partition), slice)
}

// appendRow is the beginning of all keys of a row.
func appendRow(b []byte, partition int32, slice int16, jobID, item string) []byte {
	return appendText(appendText(appendSlice(b, partition, slice), jobID), item)
}

// rowKey is a row's key, split. Its texts point into the key.
type rowKey struct {
	partition int32
	slice     int16
	job, item []byte
	part      byte
}

const rowTextAt = 1 + 4 + 2

// splitRow takes a row's key apart; ok is false when it is none.
func splitRow(key []byte) (k rowKey, ok bool) {
	if len(key) < rowTextAt+3 || key[0] != kindRow {
		return k, false
	}
	k.partition = int32(binary.BigEndian.Uint32(key[1:]) ^ (1 << 31))
	k.slice = int16(binary.BigEndian.Uint16(key[5:]) ^ (1 << 15))
	k.part = key[len(key)-1]
	var rest []byte
	if k.job, rest, ok = cutText(key[rowTextAt : len(key)-1]); !ok {
		return k, false
	}
	k.item, rest, ok = cutText(rest)
	return k, ok && len(rest) == 0
}

func cutText(b []byte) (text, rest []byte, ok bool) {
	for i, c := range b {
		if c == 0 {
			return b[:i], b[i+1:], true
		}
	}
	return nil, nil, false
}

// appendDay is the beginning of all history keys of a day.
func appendDay(b []byte, partition int32, day job.Day) []byte {
	return appendInt32(appendInt32(append(b, kindHistory), partition), int32(day))
}

func appendClass(b []byte, partition int32, day job.Day, jobID string, class byte) []byte {
	return append(appendText(appendDay(b, partition, day), jobID), class)
}

// appendExecution is the beginning of an execution's keys of one class.
func appendExecution(b []byte, partition int32, day job.Day, jobID string, class byte, c persistence.Cursor) []byte {
	b = appendDescending(appendClass(b, partition, day, jobID, class), c.ScheduledFor)
	return appendTextDescending(b, c.ExecutionID)
}

func appendHistoryKey(b []byte, partition int32, h *persistence.HistoryRow) []byte {
	class := byte(classSummary)
	if h.Attempt != 0 {
		class = classAttempt
	}
	b = appendExecution(b, partition, h.Day, h.JobID, class, persistence.Cursor{ScheduledFor: h.ScheduledFor, ExecutionID: h.ExecutionID})
	if class == classAttempt {
		b = appendInt32(b, h.Attempt)
	}
	return appendDescending(b, h.Decision)
}

// splitHistory reads what follows the class byte: the instant, the execution,
// the attempt and the decision.
func splitHistory(class byte, rest []byte, h *persistence.HistoryRow) bool {
	tail := 8
	if class == classAttempt {
		tail += 4
	}
	if len(rest) < 8+1+tail || rest[len(rest)-tail-1] != 0xff {
		return false
	}
	h.ScheduledFor = descending(rest)
	id := rest[8 : len(rest)-tail-1]
	text := make([]byte, len(id))
	for i, c := range id {
		text[i] = ^c
	}
	h.ExecutionID = string(text)
	end := rest[len(rest)-tail:]
	if class == classAttempt {
		h.Attempt = int32(binary.BigEndian.Uint32(end) ^ (1 << 31))
		end = end[4:]
	}
	h.Decision = descending(end)
	return true
}

func descending(b []byte) int64 {
	return int64(^binary.BigEndian.Uint64(b) ^ (1 << 63))
}

// appendSuccessor turns the beginning of some keys into the least key that is
// greater than all of them.
func appendSuccessor(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < math.MaxUint8 {
			prefix[i]++
			return prefix[:i+1]
		}
	}
	return nil
}
