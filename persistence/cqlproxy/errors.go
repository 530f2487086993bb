package cqlproxy

import (
	"encoding/binary"
	"fmt"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// Kinds of writes in a write timeout.
const (
	WriteCAS    = "CAS"    // the Paxos round of a conditional write
	WriteSimple = "SIMPLE" // a statement, also the commit after the round
	WriteBatch  = "UNLOGGED_BATCH"
)

// WriteTimeout is the server's "I do not know": received of blockFor replicas
// had answered. With WriteCAS it is how a server tells a version 4 client that a
// conditional write may or may not come to be.
func WriteTimeout(c frame.Consistency, received, blockFor int, writeType string) *frame.Error {
	return &frame.Error{
		Code:    frame.CodeWriteTimeout,
		Message: fmt.Sprintf("Operation timed out - received only %d responses.", received),
		Details: frame.AppendString(replicas(c, received, blockFor), writeType),
	}
}

// CASWriteUnknown is the same with a code of its own. Cassandra sends it to
// clients of version 5 only, and WriteTimeout with WriteCAS to others.
func CASWriteUnknown(c frame.Consistency, received, blockFor int) *frame.Error {
	return &frame.Error{
		Code:    frame.CodeCASWriteUnknown,
		Message: "CAS operation result is unknown - proposal accepted by some replicas but not a quorum.",
		Details: replicas(c, received, blockFor),
	}
}

// ReadTimeout is the answer to a read that too few replicas answered.
func ReadTimeout(c frame.Consistency, received, blockFor int) *frame.Error {
	return &frame.Error{
		Code:    frame.CodeReadTimeout,
		Message: fmt.Sprintf("Operation timed out - received only %d responses.", received),
		Details: append(replicas(c, received, blockFor), 0),
	}
}

// Unavailable is the answer of a server that did not try, with too few replicas
// alive. It belongs to Refuse.
func Unavailable(c frame.Consistency, required, alive int) *frame.Error {
	return &frame.Error{
		Code:    frame.CodeUnavailable,
		Message: fmt.Sprintf("Cannot achieve consistency level %s", c),
		Details: replicas(c, required, alive),
	}
}

// Overloaded is the answer of a server that did not try, with too much to do. It
// belongs to Refuse.
func Overloaded() *frame.Error {
	return &frame.Error{Code: frame.CodeOverloaded, Message: "Server is in overloaded state"}
}

func replicas(c frame.Consistency, a, b int) []byte {
	d := binary.BigEndian.AppendUint16(nil, uint16(c))
	d = binary.BigEndian.AppendUint32(d, uint32(a))
	return binary.BigEndian.AppendUint32(d, uint32(b))
}
