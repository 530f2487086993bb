package storetest

import (
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/persistence"
)

var doubt = []behaviour{
	{"settle tells that a batch was applied", settleApplied},
	{"settle kills a batch that was not applied", settleDead},
	{"settle is refused to a former owner", settleFenced},
}

func settleApplied(b *bundle) {
	held, batch, op := b.held, uuid.New(), uuid.New()
	next, err := b.store.Commit(b.ctx, held, persistence.Batch{OpID: batch, Rows: []persistence.Row{b.row(1, "x", 1)}})
	b.must("commit", err)
	for range 2 { // repeated, it answers the same
		now, applied, err := b.store.Settle(b.ctx, held, batch, op)
		b.must("settle", err)
		same(b, "applied", applied, true)
		same(b, "fence", now, next)
	}
	b.held = next
	b.commit(b.row(1, "x", 2))
	b.stored(b.row(1, "x", 2))
}

func settleDead(b *bundle) {
	held, op := b.held, uuid.New()
	late := persistence.Batch{OpID: uuid.New(), Rows: []persistence.Row{b.row(1, "x", 1)}}
	want := held
	want.Epoch++
	want.Seq++
	want.OpID = op
	for range 2 {
		now, applied, err := b.store.Settle(b.ctx, held, late.OpID, op)
		b.must("settle", err)
		same(b, "applied", applied, false)
		same(b, "fence", now, want)
	}
	_, err := b.store.Commit(b.ctx, held, late) // arrives after all
	b.fenced("commit of the dead batch", err, want)
	b.absent(late.Rows[0])

	b.held = want
	b.write(persistence.Batch{Rows: late.Rows}) // its rows again, under the new epoch
	b.stored(late.Rows[0])
}

func settleFenced(b *bundle) {
	former := b.held
	b.take(former.Partition)
	_, applied, err := b.store.Settle(b.ctx, former, uuid.New(), uuid.New())
	b.fenced("settle", err, b.held)
	same(b, "applied", applied, false)
	same(b, "fence", b.read(former.Partition), b.held)
}
