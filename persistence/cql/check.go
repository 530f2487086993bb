package cql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/persistence"
)

const (
	maxKeyText    = 60 << 10 // the database's limit for one text of a key is 64 KiB
	maxBatchBytes = 4 << 20  // a quarter of what a database with default settings takes as one change
)

// ownSlice holds what the store itself keeps in a partition, apart from every
// slice that a Load or a List reads.
const ownSlice int16 = 192

func refused(format string, args ...any) error {
	return &persistence.RowRefused{Why: fmt.Sprintf(format, args...)}
}

// named refuses a write without a name: the zero op id is that of a fence that
// nobody has moved yet.
func named(op uuid.UUID) error {
	if op == uuid.Nil {
		return refused("the op id is zero")
	}
	return nil
}

// check refuses what the database would not take, before it is sent.
func check(b *persistence.Batch) error {
	if err := named(b.OpID); err != nil {
		return err
	}
	bytes := 0
	for i := range b.Rows {
		r := &b.Rows[i]
		switch {
		case r.Slice < 0 || r.Slice >= ownSlice:
			return refused("row %q is in slice %d", r.JobID, r.Slice)
		case r.JobID == "":
			return refused("a row in slice %d has no job id", r.Slice)
		}
		if err := texts(r.JobID, r.Item); err != nil {
			return err
		}
		bytes += r.Bytes()
	}
	for i := range b.History {
		h := &b.History[i]
		if h.JobID == "" || h.ExecutionID == "" || h.Attempt < 0 {
			return refused("a history row names job %q, execution %q, attempt %d", h.JobID, h.ExecutionID, h.Attempt)
		}
		if err := texts(h.JobID, h.ExecutionID); err != nil {
			return err
		}
		bytes += historyBytes(h)
	}
	if bytes > maxBatchBytes {
		return refused("the batch has %d bytes, and %d are allowed", bytes, maxBatchBytes)
	}
	return nil
}

func texts(key ...string) error {
	for _, s := range key {
		if len(s) > maxKeyText {
			return refused("a key of %d bytes: %.40q", len(s), s)
		}
		if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
			return refused("job %q: %q is no text", key[0], s)
		}
	}
	return nil
}

// historyBytes is about what a row of history takes.
func historyBytes(h *persistence.HistoryRow) int {
	return len(h.JobID) + len(h.ExecutionID) + len(h.Record) + 48
}
