package storetest

import (
	"sync"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

var ownership = []behaviour{
	{"a fence may be created by many at once", fenceCreated},
	{"the system partition has a fence like any other", fenceOfSystem},
	{"acquire takes the partition exactly after what was seen", acquireAfterSeen},
	{"acquire is refused after a stale epoch, seq or op", acquireStale},
	{"acquire repeated with its op answers the same", acquireRepeated},
	{"one of many acquires wins and the others learn of it", acquireOneWins},
	{"release lets the next one in", releaseFrees},
	{"release is refused to a former owner", releaseStale},
	{"the last number never falls", lastNumberKept},
}

func fenceCreated(b *bundle) {
	partition := (b.held.Partition + 1) % Partitions
	var all [8]persistence.Fence
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i], _ = b.store.ReadFence(b.ctx, partition) })
	}
	wg.Wait()
	for _, f := range all {
		same(b, "fence", f, all[0])
	}
	f := all[0]
	same(b, "partition", f.Partition, partition)
	if f.Epoch == 0 {
		same(b, "first fence", f, persistence.Fence{Partition: partition})
	}
	same(b, "fence read later", b.read(partition), f)
}

func fenceOfSystem(b *bundle) {
	b.take(job.SystemPartition)
	same(b, "partition", b.held.Partition, job.SystemPartition)
	row := b.row(128, "/edge", 1)
	b.commit(row)
	b.stored(row)
}

func acquireAfterSeen(b *bundle) {
	seen := b.read(b.held.Partition)
	same(b, "fence", seen, b.held)
	by, op := newOwner("b"), uuid.New()
	got, err := b.store.Acquire(b.ctx, seen, by, op)
	b.must("acquire", err)
	same(b, "fence", got, persistence.Fence{
		Partition: seen.Partition, Epoch: seen.Epoch + 1, Seq: seen.Seq + 1, OpID: op,
		Owner: by.Node, Incarnation: by.Incarnation, LastNumber: seen.LastNumber,
	})
	same(b, "fence read", b.read(seen.Partition), got)
}

// stale is the held fence with one of its three parts wrong, each in turn.
func (b *bundle) stale() map[string]persistence.Fence {
	epoch, seq, op := b.held, b.held, b.held
	epoch.Epoch--
	seq.Seq--
	op.OpID = uuid.New()
	ahead := b.held
	ahead.Seq++
	return map[string]persistence.Fence{"epoch": epoch, "seq": seq, "op id": op, "a seq to come": ahead}
}

func acquireStale(b *bundle) {
	b.commit(b.row(0, "x", 1))
	for what, seen := range b.stale() {
		_, err := b.store.Acquire(b.ctx, seen, newOwner("b"), uuid.New())
		b.fenced("acquire after a stale "+what, err, b.held)
	}
	same(b, "fence", b.read(b.held.Partition), b.held)
}

func acquireRepeated(b *bundle) {
	seen, by, op := b.held, newOwner("b"), uuid.New()
	first, err := b.store.Acquire(b.ctx, seen, by, op)
	b.must("acquire", err)
	again, err := b.store.Acquire(b.ctx, seen, by, op)
	b.must("acquire again", err)
	same(b, "fence", again, first)
}

func acquireOneWins(b *bundle) {
	var fences [8]persistence.Fence
	var errs [8]error
	var wg sync.WaitGroup
	for i := range fences {
		wg.Go(func() { fences[i], errs[i] = b.store.Acquire(b.ctx, b.held, newOwner("b"), uuid.New()) })
	}
	wg.Wait()
	now := b.read(b.held.Partition)
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			same(b, "the winner's fence", fences[i], now)
			continue
		}
		b.fenced("a loser's acquire", err, now)
	}
	same(b, "winners", won, 1)
}

func releaseFrees(b *bundle) {
	op := uuid.New()
	b.must("release", b.store.Release(b.ctx, b.held, op))
	free := b.read(b.held.Partition)
	same(b, "owner", free.Owner, "")
	same(b, "incarnation", free.Incarnation, uuid.Nil)
	same(b, "epoch", free.Epoch, b.held.Epoch)
	same(b, "last number", free.LastNumber, b.held.LastNumber)
	b.must("release again", b.store.Release(b.ctx, b.held, op))
	_, err := b.store.Commit(b.ctx, b.held, persistence.Batch{OpID: uuid.New()})
	b.fenced("commit after release", err, free)
	next := b.acquire(free, newOwner("b"))
	same(b, "epoch", next.Epoch, free.Epoch+1)
}

func releaseStale(b *bundle) {
	former := b.held
	b.take(b.held.Partition)
	b.fenced("release", b.store.Release(b.ctx, former, uuid.New()), b.held)
	same(b, "fence", b.read(b.held.Partition), b.held)
}

func lastNumberKept(b *bundle) {
	n := b.held.LastNumber + 10
	b.write(persistence.Batch{LastNumber: n})
	same(b, "after a commit", b.held.LastNumber, n)
	b.write(persistence.Batch{LastNumber: n - 5})
	same(b, "after a lower one", b.held.LastNumber, n)
	b.take(b.held.Partition)
	same(b, "after an acquire", b.held.LastNumber, n)
	b.held, _ = b.settle(uuid.New())
	same(b, "after a settle", b.held.LastNumber, n)
	b.must("release", b.store.Release(b.ctx, b.held, uuid.New()))
	same(b, "after a release", b.read(b.held.Partition).LastNumber, n)
}
