package partition

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cespare/xxhash/v2"

	"github.com/belfry-scheduler/belfry/cluster"
)

// showWorkers finds out who the workers are now, and tells the owners when that
// has changed. A worker that gossip has lost is one as long as it beats; one that
// has said nothing for a TTL is none, since nothing that is sent to it arrives.
func (h *Host) showWorkers(ctx actor.Context) {
	h.workers, h.partial = nil, false
	for _, m := range h.seen.View.With(cluster.Worker) {
		p, known := h.says(m)
		if known && p.Worker != nil {
			h.heard[m.Owner()] = p
		}
		// It is there, may hold what is looked for, and cannot be asked yet.
		h.partial = h.partial || m.Owner() != h.Owner && (!known || !h.watch.Knows(m.Owner()))
	}
	for o, p := range h.heard {
		if own := o == h.Owner; own || h.watch.Live(o, h.seen.View) && time.Since(p.Heard) < h.Settings.Silence() {
			h.workers = append(h.workers, Worker{ID: WorkerIDOf(p.Worker), Remote: !own, Draining: p.Draining})
			continue
		}
		if _, known := h.seen.View.Find(o); !known {
			delete(h.heard, o)
		}
	}
	for partition, o := range h.owners {
		h.tellWorkers(ctx, partition, o)
	}
}

// tellWorkers tells one owner, in the order in which it should use them: its own
// node's first, since that is nearest and dies with it, then the others in an
// order of its own, so that partitions do not all prefer the same one.
func (h *Host) tellWorkers(ctx actor.Context, partition int32, o *ownership) {
	list := slices.Clone(h.workers)
	slices.SortFunc(list, func(a, b Worker) int {
		if a.Remote != b.Remote {
			if b.Remote {
				return -1
			}
			return 1
		}
		return cmp.Compare(weight(partition, a.ID), weight(partition, b.ID))
	})
	if o.list == nil || o.partial != h.partial || !slices.Equal(list, o.list) {
		o.list, o.partial = list, h.partial
		ctx.Send(o.pid, workersChanged{list, h.partial})
	}
}

// stamp is the newest stamp of a worker; 0 for the one of this node.
func (h *Host) stamp(id WorkerID) int64 {
	for _, p := range h.Peers() {
		if p.Worker != nil && WorkerIDOf(p.Worker) == id {
			return p.Stamp
		}
	}
	return 0
}

// weight orders workers for one partition.
func weight(partition int32, id WorkerID) uint64 {
	return xxhash.Sum64String(strconv.Itoa(int(partition)) + " " + string(id))
}
