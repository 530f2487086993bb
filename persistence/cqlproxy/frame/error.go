package frame

import (
	"encoding/binary"
	"fmt"
)

// Error is the body of an ERROR frame.
type Error struct {
	Code    int32
	Message string
	Details []byte // what follows the message, by the code
}

// Codes of errors.
const (
	CodeServerError     int32 = 0x0000
	CodeProtocol        int32 = 0x000A
	CodeUnavailable     int32 = 0x1000
	CodeOverloaded      int32 = 0x1001
	CodeWriteTimeout    int32 = 0x1100
	CodeReadTimeout     int32 = 0x1200
	CodeCASWriteUnknown int32 = 0x1700
	CodeUnprepared      int32 = 0x2500
)

func (e *Error) Error() string {
	return fmt.Sprintf("error 0x%04X from the database: %s", e.Code, e.Message)
}

// Frame makes the answer to a request on a stream.
func (e *Error) Frame(stream int16) Frame {
	b := binary.BigEndian.AppendUint32(nil, uint32(e.Code))
	b = AppendString(b, e.Message)
	return Frame{Version: Version, Answer: true, Stream: stream, Opcode: OpError, Body: append(b, e.Details...)}
}

// ParseError reads the error of an answer; nil when the answer is none.
func ParseError(f Frame) *Error {
	if f.Opcode != OpError {
		return nil
	}
	r := answerBody(f)
	e := &Error{Code: int32(r.int()), Message: r.string()}
	if r.err != nil {
		return &Error{Code: CodeProtocol, Message: "an ERROR frame that cannot be read"}
	}
	e.Details = r.b
	return e
}
