package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
)

// maxNodeName keeps the gossip about a member within one packet.
const maxNodeName = 128

// meta is what gossip carries about a member beside its name. Its keys are
// short because memberlist allows 512 bytes; a key that a node does not know is
// ignored, so later versions may add some.
type meta struct {
	Started int64    `json:"s"`
	Address string   `json:"a"`
	Roles   string   `json:"r"`
	Kinds   []string `json:"k,omitempty"`
	Version string   `json:"v,omitempty"`
	Format  int      `json:"f,omitempty"`
}

// memberName is the member's name in memberlist. The incarnation in it makes a
// restarted node another member, so neither the address nor the death of its
// predecessor stands in its way.
func memberName(m Member) string { return m.Node + "/" + m.Incarnation.String() }

// encodeMember checks a member that is to be announced.
func encodeMember(m Member) ([]byte, error) {
	if err := checkMember(m); err != nil {
		return nil, err
	}
	b, err := json.Marshal(meta{m.Started, m.Address, m.Roles.String(), m.Kinds, m.Version, m.Format})
	if err != nil {
		return nil, err
	}
	if len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("what gossip says about this node takes %d bytes, and at most %d fit: host fewer kinds, or kinds with shorter names (%d kinds, %d bytes)",
			len(b), memberlist.MetaMaxSize, len(m.Kinds), len(strings.Join(m.Kinds, "")))
	}
	return b, nil
}

// decodeMember reads what another node announced. Any of it may be forged by
// whoever has the key.
func decodeMember(name string, b []byte) (Member, error) {
	cut := strings.LastIndexByte(name, '/')
	if cut < 0 || len(b) > memberlist.MetaMaxSize {
		return Member{}, errors.New("not a member of this kind of cluster")
	}
	id, err := uuid.Parse(name[cut+1:])
	if err != nil {
		return Member{}, fmt.Errorf("incarnation: %w", err)
	}
	var w meta
	if err := json.Unmarshal(b, &w); err != nil {
		return Member{}, err
	}
	m := Member{Node: name[:cut], Incarnation: id, Started: w.Started, Address: w.Address, Kinds: w.Kinds, Version: w.Version, Format: w.Format}
	for r := range strings.SplitSeq(w.Roles, ",") {
		m.Roles = append(m.Roles, Role(r)) // an unknown one is a later version's
	}
	if memberName(m) != name {
		return Member{}, errors.New("incarnation in another notation")
	}
	return m, checkMember(m)
}

func checkMember(m Member) error {
	if m.Node == "" || len(m.Node) > maxNodeName || strings.ContainsRune(m.Node, '/') || strings.ContainsFunc(m.Node, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fmt.Errorf("%.150q is not a node's name: use 1 to %d printable bytes without '/'", m.Node, maxNodeName)
	}
	if m.Incarnation == uuid.Nil || m.Started <= 0 {
		return fmt.Errorf("node %s has no incarnation, or no time of its start", m.Node)
	}
	if host, port, err := net.SplitHostPort(m.Address); err != nil || host == "" || port == "" {
		return fmt.Errorf("node %s: address %.100q of its actors is not host:port", m.Node, m.Address)
	}
	return nil
}

// later tells which of two incarnations of a node counts. All nodes answer
// alike.
func later(a, b Member) bool {
	if a.Started != b.Started {
		return a.Started > b.Started
	}
	return bytes.Compare(a.Incarnation[:], b.Incarnation[:]) > 0
}

// newest keeps of each node the latest incarnation, sorted by node.
func newest(members []Member) []Member {
	slices.SortFunc(members, func(a, b Member) int {
		if a.Node == b.Node && later(a, b) {
			return -1
		}
		return cmp.Compare(a.Node, b.Node)
	})
	return slices.CompactFunc(members, func(a, b Member) bool { return a.Node == b.Node })
}
