package execution

import (
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// owners is what a worker has heard about who owns partitions: the highest
// epoch of a Dispatch or an Inquire, and whom it came from. It is pure, and has
// at most one entry for each partition that there can be.
type owners map[int32]ownership

type ownership struct {
	epoch  int64
	owner  *actor.PID // nil: what was sent to it was a dead letter
	number int64      // of the newest Dispatch of the epoch
}

// hear notes that a message of an epoch came; false when a later epoch is
// known, so that it is one of an owner that has lost its partition.
func (o owners) hear(partition int32, epoch int64, from *actor.PID) bool {
	known, ok := o[partition]
	if ok && epoch < known.epoch {
		return false
	}
	switch {
	case !ok || epoch > known.epoch:
		o[partition] = ownership{epoch: epoch, owner: from}
	case !from.Equal(known.owner):
		known.owner = from
		o[partition] = known
	}
	return true
}

// inOrder notes the number of a Dispatch of the newest epoch; false when a later
// one came before it, or it came before itself. 0 is no number.
func (o owners) inOrder(partition int32, number int64) bool {
	known := o[partition]
	if number != 0 && number <= known.number {
		return false
	}
	known.number = max(number, known.number)
	o[partition] = known
	return true
}

// dead forgets an owner that is gone. Its epoch stays.
func (o owners) dead(pid *actor.PID) {
	for partition, known := range o {
		if pid != nil && pid.Equal(known.owner) {
			known.owner = nil
			o[partition] = known
		}
	}
}

// newest decides between what was heard and what the routing table says: the
// higher epoch is the owner, and of two equal ones the one that was heard of.
// An owner of a lower epoch than the highest is never named: it does not know
// what was begun since, and would acknowledge results that it cannot record.
func (o owners) newest(partition int32, table *actor.PID) ownership {
	known, ok := o[partition]
	if table == nil {
		return known
	}
	epoch := epochOf(table)
	if !ok || epoch > known.epoch || epoch == known.epoch && known.owner == nil {
		return ownership{epoch: epoch, owner: table}
	}
	return known
}

// epochOf reads the epoch from an owner's name, as cluster.OwnerName makes it; 0
// of an actor with another name.
func epochOf(owner *actor.PID) int64 {
	at := strings.LastIndex(owner.GetId(), "-e")
	if at < 0 {
		return 0
	}
	epoch, err := strconv.ParseInt(owner.GetId()[at+2:], 10, 64)
	if err != nil || epoch < 0 {
		return 0
	}
	return epoch
}
