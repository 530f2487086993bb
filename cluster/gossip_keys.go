package cluster

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/memberlist"
)

// ParseKeys reads a file of gossip keys: base64, one a line, of 16, 24 or 32
// bytes (AES-128, -192, -256). Gossip is encrypted with the first; all of them
// are understood. Empty lines and lines with # are skipped. Errors name the
// line, never what stands there.
//
// Rotation: add the new key as the last line on every node, then make it the
// first line on every node, then remove the old one on every node.
func ParseKeys(text string) ([][]byte, error) {
	var keys [][]byte
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, fmt.Errorf("gossip keys: line %d is not base64", number)
		}
		if err := memberlist.ValidateKey(key); err != nil {
			return nil, fmt.Errorf("gossip keys: line %d has a key of %d bytes: use 16, 24 or 32", number, len(key))
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("gossip keys: there is no key")
	}
	return keys, nil
}

// checkKeys refuses a list that has a key of a wrong length.
func checkKeys(keys [][]byte) error {
	for i, key := range keys {
		if memberlist.ValidateKey(key) != nil {
			return fmt.Errorf("gossip key %d has %d bytes: use 16, 24 or 32", i+1, len(key))
		}
	}
	return nil
}

// SetKeys replaces the keys of the running node, first the one to encrypt with.
// Errors: no key, a wrong length, or a node that was started without keys;
// nothing is changed then.
func (m *Members) SetKeys(keys [][]byte) error {
	if m.keys == nil {
		return errors.New("set gossip keys: this node was started without encryption")
	}
	if len(keys) == 0 {
		return errors.New("set gossip keys: there is no key")
	}
	if err := checkKeys(keys); err != nil {
		return err
	}
	m.keysMu.Lock()
	defer m.keysMu.Unlock()
	return replaceKeys(m.keys, keys)
}

// replaceKeys leaves exactly these keys on a ring that is in use. UseKey puts a
// key in front, so the reverse order brings ours to the front and what is to go
// to the end. There it must be when RemoveKey drops it: from the middle it would
// shift the array that packets are being decrypted with. For an instant another
// of the new keys may be the first: a packet that its receiver cannot read is
// one lost packet.
func replaceKeys(ring *memberlist.Keyring, keys [][]byte) error {
	for _, key := range keys {
		if err := ring.AddKey(slices.Clone(key)); err != nil {
			return err
		}
	}
	for _, key := range slices.Backward(keys) {
		if err := ring.UseKey(key); err != nil {
			return err
		}
	}
	for _, old := range slices.Backward(ring.GetKeys()) {
		if slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, old) }) {
			return nil
		}
		if err := ring.RemoveKey(old); err != nil {
			return err
		}
	}
	return nil
}
