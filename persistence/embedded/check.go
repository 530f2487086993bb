package embedded

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/persistence"
)

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

// check refuses what no key can hold, and what no database would take.
func check(b *persistence.Batch) error {
	if err := named(b.OpID); err != nil {
		return err
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Slice < 0 {
			return refused("row %q is in slice %d", r.JobID, r.Slice)
		}
		if r.JobID == "" {
			return refused("a row in slice %d has no job id", r.Slice)
		}
		if err := texts(r.JobID, r.Item); err != nil {
			return err
		}
	}
	for i := range b.History {
		h := &b.History[i]
		if h.JobID == "" || h.ExecutionID == "" || h.Attempt < 0 {
			return refused("a history row names job %q, execution %q, attempt %d", h.JobID, h.ExecutionID, h.Attempt)
		}
		if err := texts(h.JobID, h.ExecutionID); err != nil {
			return err
		}
	}
	return nil
}

func texts(job, other string) error {
	for _, s := range [2]string{job, other} {
		if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
			return refused("job %q: %q is no text", job, s)
		}
	}
	return nil
}
