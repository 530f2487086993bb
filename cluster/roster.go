package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// roster is the other members of the view, with the newest that each has said.
// It is pure.
type roster map[persistence.Owner]*entry

type entry struct {
	Peer
	number int64 // of its newest presence
}

// viewed takes a view: who is new in it, and whether anything changed.
func (r roster) viewed(v *View, self Member) (joined []Member, changed bool) {
	for _, m := range v.Members {
		if m.Owner() == self.Owner() {
			continue
		}
		if r[m.Owner()] == nil {
			r[m.Owner()] = &entry{Peer: Peer{Member: m}}
			joined = append(joined, m)
		}
	}
	for owner := range r {
		if _, here := v.Find(owner); !here {
			delete(r, owner)
			changed = true
		}
	}
	return joined, changed || joined != nil
}

// heard takes a presence: whose it is, whether it is the first one of it, and
// whether more than a stamp has changed. nil: it is older than one that is
// known, or of a process that is not in the view.
func (r roster) heard(m *belfryv1.Presence, now time.Time) (peer *Peer, first, changed bool) {
	incarnation, err := uuid.FromBytes(m.GetIncarnation())
	if err != nil {
		return nil, false, false
	}
	e := r[persistence.Owner{Node: m.GetNode(), Incarnation: incarnation}]
	if e == nil || m.GetNumber() <= e.number {
		return nil, false, false
	}
	was, first := e.Peer, e.number == 0
	e.number, e.Heard = m.GetNumber(), now
	e.Stamp = max(e.Stamp, m.GetStamp())
	e.Draining, e.Stored, e.ClockOff, e.Store = m.GetDraining(), int(m.GetFormat()), m.GetClockOff(), storeOf(m)
	switch id := m.GetWorker(); {
	case id == "":
		e.Worker = nil
	case e.Worker.GetId() != id:
		e.Worker = actor.NewPID(e.Address, id)
	}
	changed = first || was.Worker != e.Worker || was.Draining != e.Draining || was.Stored != e.Stored || was.ClockOff != e.ClockOff || was.Store != e.Store
	return &e.Peer, first, changed
}

// ofStore is what a presence means to a process with a store. What another store's
// process owns and does is of other jobs, under the same numbers. A process
// without a store believes all.
func ofStore(store uuid.UUID, m *belfryv1.Presence) *belfryv1.Presence {
	if theirs := storeOf(m); store == uuid.Nil || theirs == uuid.Nil || theirs == store {
		return m
	}
	m = proto.Clone(m).(*belfryv1.Presence)
	m.Owned, m.Partitions, m.Worker = nil, 0, ""
	return m
}

// storeOf is the store of whoever sent a presence; zero: none, or none that
// can be read.
func storeOf(m *belfryv1.Presence) uuid.UUID {
	id, _ := uuid.FromBytes(m.GetStore())
	return id
}

// others are all its members, in no order.
func (r roster) others() []Member {
	out := make([]Member, 0, len(r))
	for _, e := range r {
		out = append(out, e.Member)
	}
	return out
}

// peers is a copy of it, by node name.
func (r roster) peers() []Peer {
	out := make([]Peer, 0, len(r))
	for _, e := range r {
		out = append(out, e.Peer)
	}
	slices.SortFunc(out, func(a, b Peer) int { return strings.Compare(a.Node, b.Node) })
	return out
}
