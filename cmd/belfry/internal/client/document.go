package client

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Doc is one object of an answer: decoded, and as the server wrote it, so that
// fields newer than this client are shown too.
type Doc[T any] struct {
	Value T
	Raw   json.RawMessage
}

// MarshalJSON is the object as the server wrote it.
func (d Doc[T]) MarshalJSON() ([]byte, error) { return d.Raw, nil }

// decode reads one object.
func decode[T any](raw []byte) (Doc[T], error) {
	d := Doc[T]{Raw: bytes.TrimSpace(raw)}
	if err := json.Unmarshal(raw, &d.Value); err != nil {
		return Doc[T]{}, fmt.Errorf("read the server's answer: %w", err)
	}
	return d, nil
}

// one is decode for what do returns.
func one[T any](a answer, err error) (Doc[T], error) {
	if err != nil {
		return Doc[T]{}, err
	}
	return decode[T](a.body)
}
