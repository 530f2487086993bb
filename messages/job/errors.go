package job

import (
	"errors"
	"fmt"
)

// The errors a caller decides on. Each names one decision:
//
//	ErrFenced       stop: another owner has the partition; a new actor loads
//	ErrNoOwner      retry: the owner is unreachable or not ready
//	ErrExists       tell the client: the id is taken
//	ErrNotFound     tell the client: no such job or execution
//	ErrConflict     tell the client: the precondition does not hold
//	ErrUnavailable  retry later: the store does not answer; nothing is promised
//	ErrNotSent      try another way or later: what was to be sent was not, not even in part
//
// Input that is refused is an *Invalid, which carries every problem found.
var (
	ErrFenced      = errors.New("another owner holds the partition")
	ErrNoOwner     = errors.New("the owner of the partition is not ready")
	ErrExists      = errors.New("already exists")
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("precondition does not hold")
	ErrUnavailable = errors.New("the store is unavailable")
	ErrNotSent     = errors.New("nothing was sent")
)

// Problem is one thing wrong with an input: where, what and what to do.
type Problem struct {
	Field   string // path in the request body, such as "retry.max_attempts"
	Message string // what is wrong, why, and what to write instead
}

// Invalid is input that is refused as a whole; nothing of it is stored.
type Invalid struct {
	Problems []Problem
}

func (e *Invalid) Error() string {
	if len(e.Problems) == 0 {
		return "invalid"
	}
	first := e.Problems[0]
	msg := first.Message
	if first.Field != "" {
		msg = first.Field + ": " + msg
	}
	if n := len(e.Problems) - 1; n > 0 {
		msg = fmt.Sprintf("%s (and %d more)", msg, n)
	}
	return msg
}

// Refuse makes an Invalid of one problem.
func Refuse(field, format string, args ...any) *Invalid {
	return &Invalid{Problems: []Problem{{Field: field, Message: fmt.Sprintf(format, args...)}}}
}
