package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"

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
	e.Draining, e.Stored, e.ClockOff = m.GetDraining(), int(m.GetFormat()), m.GetClockOff()
	switch id := m.GetWorker(); {
	case id == "":
		e.Worker = nil
	case e.Worker.GetId() != id:
		e.Worker = actor.NewPID(e.Address, id)
	}
	changed = first || was.Worker != e.Worker || was.Draining != e.Draining || was.Stored != e.Stored || was.ClockOff != e.ClockOff
	return &e.Peer, first, changed
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
