package frame

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed is the answer for a body that ends early or says nonsense.
var ErrMalformed = errors.New("malformed frame body")

// reader takes values off the front of a body. After the first value that is
// not there it gives zeros, and err is set.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.err = ErrMalformed
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) short() int {
	if v := r.take(2); v != nil {
		return int(binary.BigEndian.Uint16(v))
	}
	return 0
}

func (r *reader) int() int {
	if v := r.take(4); v != nil {
		return int(int32(binary.BigEndian.Uint32(v)))
	}
	return 0
}

func (r *reader) string() string     { return string(r.take(r.short())) }
func (r *reader) longString() string { return string(r.take(r.int())) }
func (r *reader) shortBytes() string { return string(r.take(r.short())) }

// value passes over a [value] or [bytes]: negative lengths are null and unset.
func (r *reader) value() {
	if n := r.int(); n > 0 {
		r.take(n)
	}
}

// customPayload passes over the map that FlagCustomPayload announces.
func (r *reader) customPayload() {
	for range r.short() {
		r.string()
		r.value()
	}
}

// AppendString appends a [string].
func AppendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// AppendLongString appends a [long string].
func AppendLongString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}
