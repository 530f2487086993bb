package frame

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Version is the one version of the protocol that is spoken here.
const Version = 4

// HeaderLen is the length of a header.
const HeaderLen = 9

// MaxBody is the longest body that is read; the protocol's own limit.
const MaxBody = 256 << 20

// answer is the bit of the version byte that marks frames from the server.
const answer = 0x80

// Opcode says what a frame is.
type Opcode byte

// Opcodes of version 4.
const (
	OpError        Opcode = 0x00
	OpStartup      Opcode = 0x01
	OpReady        Opcode = 0x02
	OpAuthenticate Opcode = 0x03
	OpOptions      Opcode = 0x05
	OpSupported    Opcode = 0x06
	OpQuery        Opcode = 0x07
	OpResult       Opcode = 0x08
	OpPrepare      Opcode = 0x09
	OpExecute      Opcode = 0x0A
	OpRegister     Opcode = 0x0B
	OpEvent        Opcode = 0x0C
	OpBatch        Opcode = 0x0D
	OpAuthResponse Opcode = 0x0F
)

var opcodeNames = map[Opcode]string{
	OpError: "ERROR", OpStartup: "STARTUP", OpReady: "READY", OpAuthenticate: "AUTHENTICATE",
	OpOptions: "OPTIONS", OpSupported: "SUPPORTED", OpQuery: "QUERY", OpResult: "RESULT",
	OpPrepare: "PREPARE", OpExecute: "EXECUTE", OpRegister: "REGISTER", OpEvent: "EVENT",
	OpBatch: "BATCH", OpAuthResponse: "AUTH_RESPONSE",
}

func (o Opcode) String() string {
	if name, ok := opcodeNames[o]; ok {
		return name
	}
	return fmt.Sprintf("opcode 0x%02X", byte(o))
}

// Flags of a header.
const (
	FlagCompressed    = 0x01
	FlagTracing       = 0x02
	FlagCustomPayload = 0x04
	FlagWarning       = 0x08
)

// Frame is one frame.
type Frame struct {
	Version byte // without the bit that marks answers
	Answer  bool // from the server
	Flags   byte
	Stream  int16
	Opcode  Opcode
	Body    []byte
}

// Read reads the next frame. At the end of the stream between two frames the
// error is io.EOF; inside one it is io.ErrUnexpectedEOF.
func Read(r io.Reader) (Frame, error) {
	var h [HeaderLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(h[5:])
	if n > MaxBody {
		return Frame{}, fmt.Errorf("a frame's body of %d bytes is longer than the protocol allows", n)
	}
	f := Frame{
		Version: h[0] &^ answer,
		Answer:  h[0]&answer != 0,
		Flags:   h[1],
		Stream:  int16(binary.BigEndian.Uint16(h[2:])),
		Opcode:  Opcode(h[4]),
		Body:    make([]byte, n),
	}
	if _, err := io.ReadFull(r, f.Body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return f, nil
}

// Append appends the frame's bytes to b.
func (f Frame) Append(b []byte) []byte {
	v := f.Version
	if f.Answer {
		v |= answer
	}
	b = append(b, v, f.Flags)
	b = binary.BigEndian.AppendUint16(b, uint16(f.Stream))
	b = append(b, byte(f.Opcode))
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Body)))
	return append(b, f.Body...)
}

// Write writes the frame with one call of w.
func (f Frame) Write(w io.Writer) error {
	_, err := w.Write(f.Append(make([]byte, 0, HeaderLen+len(f.Body))))
	return err
}
