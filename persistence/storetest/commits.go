package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

var commits = []behaviour{
	{"a commit moves the fence on by one", commitMoves},
	{"a batch is there as a whole", commitWhole},
	{"a full batch fits", commitFull},
	{"a commit is refused after a stale epoch, seq or op", commitStale},
	{"a former owner cannot write", commitFormerOwner},
	{"the rows of a batch are written one after another", commitInOrder},
	{"nil keeps what is stored", commitNilKeeps},
	{"delete removes a row and no other", commitDelete},
	{"a row that no store can take refuses the batch", commitRefused},
}

func commitMoves(b *bundle) {
	before, op := b.held, uuid.New()
	next, err := b.store.Commit(b.ctx, before, persistence.Batch{OpID: op, LastNumber: before.LastNumber + 1})
	b.must("commit", err)
	want := before
	want.Seq++
	want.OpID = op
	want.LastNumber++
	same(b, "fence", next, want)
	same(b, "fence read", b.read(before.Partition), want)
}

func commitWhole(b *bundle) {
	var batch persistence.Batch
	for i := range 50 {
		row := b.row(int16(i%64), fmt.Sprint(i), i)
		batch.Rows = append(batch.Rows, row)
		batch.History = append(batch.History, b.summary(row.JobID, int64(i), "e", 1))
	}
	b.write(batch)
	for i, row := range batch.Rows {
		b.stored(row)
		got := b.executions(row.JobID, nil, 10)
		same(b, "executions", len(got), 1)
		sameHistory(b, got[0], batch.History[i])
	}
}

func commitFull(b *bundle) {
	var rows []persistence.Row
	bytes := 0
	for i := 0; i < persistence.MaxBatchRows; i++ {
		row := b.row(int16(i%64), fmt.Sprintf("full%d", i), i)
		row.Labels = nil
		row.State = []byte(strings.Repeat("s", 150))
		if bytes += row.Bytes(); bytes > persistence.MaxBatchBytes {
			break
		}
		rows = append(rows, row)
	}
	b.commit(rows...)
	same(b, "rows", len(b.load(0, 64)), len(rows))
}

func commitStale(b *bundle) {
	row := b.row(3, "x", 1)
	b.commit(row)
	for what, held := range b.stale() {
		change := b.row(3, "x", 2)
		other := b.row(4, "new", 2)
		_, err := b.store.Commit(b.ctx, held, persistence.Batch{
			OpID: uuid.New(), LastNumber: b.held.LastNumber + 7, Rows: []persistence.Row{change, other},
			History: []persistence.HistoryRow{b.summary(row.JobID, 1, "e", 1)},
		})
		b.fenced("commit after a stale "+what, err, b.held)
		b.stored(row)
		b.absent(other)
		same(b, "history rows", len(b.executions(row.JobID, nil, 10)), 0)
		same(b, "fence", b.read(b.held.Partition), b.held)
	}
	b.commit(b.row(3, "x", 3))
	b.stored(b.row(3, "x", 3))
}

func commitFormerOwner(b *bundle) {
	former := b.held
	b.owner = newOwner("b")
	b.take(former.Partition)
	_, err := b.store.Commit(b.ctx, former, persistence.Batch{OpID: uuid.New(), Rows: []persistence.Row{b.row(1, "x", 1)}})
	b.fenced("commit of the former owner", err, b.held)
	var f *persistence.Fenced
	errors.As(err, &f)
	same(b, "the owner named", f.Holder.Owner, "b")
	same(b, "the incarnation named", f.Holder.Incarnation, b.owner.Incarnation)
	b.absent(b.row(1, "x", 1))
}

func commitInOrder(b *bundle) {
	first, last := b.row(5, "x", 1), b.row(5, "x", 2)
	gone := b.row(5, "gone", 1)
	deleteGone := persistence.Row{Slice: 5, JobID: gone.JobID, Delete: true}
	back := persistence.Row{Slice: 5, JobID: b.id("back"), Status: job.Paused, State: []byte("again")}
	b.commit(b.row(5, "back", 1))
	b.commit(first, gone, last, deleteGone,
		persistence.Row{Slice: 5, JobID: back.JobID, Delete: true}, back)
	b.stored(last)
	b.absent(gone)
	b.stored(back) // without the spec and labels that it had before

	bare := persistence.Row{Slice: 5, JobID: b.id("bare"), Status: job.Active}
	emptied := persistence.Row{Slice: 5, JobID: b.id("emptied"), Status: job.Active}
	b.commit(b.row(5, "emptied", 1))
	b.commit(b.row(5, "bare", 1), bare, persistence.Row{Slice: 5, JobID: emptied.JobID, Delete: true}, emptied)
	want := b.row(5, "bare", 1)
	want.Revision, want.NextRun = 0, 0
	b.stored(want)
	b.stored(emptied)

	stateOnly := persistence.Row{Slice: 5, JobID: b.id("two"), Revision: 3, Status: job.Active, State: []byte("second")}
	b.commit(b.row(5, "two", 2), stateOnly)
	want = b.row(5, "two", 2)
	want.Revision, want.NextRun, want.State = 3, 0, stateOnly.State
	b.stored(want)
}

func commitNilKeeps(b *bundle) {
	row := b.row(6, "x", 1)
	b.commit(row)
	for _, change := range []func(r *persistence.Row){
		func(r *persistence.Row) { r.State, r.Revision, r.NextRun = []byte("only state"), 2, 0 },
		func(r *persistence.Row) { r.Spec = []byte("only spec") },
		func(r *persistence.Row) { r.Labels = map[string]string{"only": "labels"} },
		func(r *persistence.Row) { r.Status = job.Finished },
		func(r *persistence.Row) { r.State, r.Spec = []byte("state"), []byte("and spec") },
	} {
		write := persistence.Row{Slice: row.Slice, JobID: row.JobID, Revision: row.Revision, Status: row.Status, NextRun: row.NextRun}
		change(&write)
		change(&row)
		b.commit(write)
		b.stored(row)
	}
	row.Labels = nil
	write := row
	write.Labels, write.Spec, write.State = map[string]string{}, nil, nil
	b.commit(write)
	b.stored(row) // no label is a set of labels, too
}

func commitDelete(b *bundle) {
	row, twin := b.row(7, "x", 1), b.row(7, "xx", 2)
	item := b.row(7, "x", 3)
	item.Item = persistence.SpecItem(3)
	b.commit(row, twin, item)
	b.commit(persistence.Row{Slice: 7, JobID: row.JobID, Delete: true})
	b.absent(row)
	b.stored(twin)
	b.stored(item)
	b.commit(persistence.Row{Slice: 7, JobID: row.JobID, Delete: true}) // what is not there can be deleted
	again := persistence.Row{Slice: 7, JobID: row.JobID, Status: job.Active, State: []byte("new life")}
	b.commit(again)
	b.stored(again)
}

func commitRefused(b *bundle) {
	row := b.row(8, "x", 1)
	b.commit(row)
	for _, bad := range []persistence.Row{
		{Slice: 8, JobID: "nul\x00byte", Status: job.Active},
		{Slice: 8, JobID: b.id("x"), Item: "nul\x00byte", Status: job.Active},
		{Slice: 8, JobID: "broken \xff text", Status: job.Active},
		{Slice: 8, Status: job.Active},
		{Slice: -1, JobID: b.id("x"), Status: job.Active},
	} {
		_, err := b.store.Commit(b.ctx, b.held, persistence.Batch{OpID: uuid.New(), Rows: []persistence.Row{b.row(8, "x", 2), bad}})
		var refused *persistence.RowRefused
		if !errors.As(err, &refused) {
			b.Fatalf("job %q item %q slice %d: got error %v, want RowRefused", bad.JobID, bad.Item, bad.Slice, err)
		}
		b.stored(row)
	}
	b.commit(b.row(8, "x", 3)) // held still holds
}
