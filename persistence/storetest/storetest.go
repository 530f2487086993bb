// Package storetest is the one suite that every store of Belfry passes, so that
// what is tried on one of them is true of all.
//
//	func TestStore(t *testing.T) { storetest.Run(t, open) }
//
// It uses nothing but the interfaces of package persistence. Each case draws
// its own job ids and takes over a partition of the first 16, so it may run
// against a database that holds other rows, as long as nobody else works on
// those partitions meanwhile.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// Partitions is the partition count of the store that the suite is given.
const Partitions = 16

// Constants are those of the cluster that the suite runs in.
func Constants() persistence.Cluster {
	return persistence.Cluster{Partitions: Partitions, Hash: job.HashName, Format: 1}
}

// Run runs the suite. open returns a store for one case and closes it at the
// end of the case; whether they all are the same database is its affair.
func Run(t *testing.T, open func(t *testing.T) persistence.Store) {
	for _, group := range [][]behaviour{constants, ownership, commits, doubt, reading, listing, histories, contexts, races} {
		for _, b := range group {
			t.Run(b.name, func(t *testing.T) { b.check(setup(t, open)) })
		}
	}
}

// behaviour is one promise of the contract and its check.
type behaviour struct {
	name  string
	check func(*bundle)
}

// bundle is what a case works with: a store, and a partition that it owns.
type bundle struct {
	*testing.T
	ctx   context.Context
	store persistence.Store
	owner persistence.Owner
	held  persistence.Fence // after the last commit
	run   string            // begins every job id of the case
}

func setup(t *testing.T, open func(t *testing.T) persistence.Store) *bundle {
	t.Helper()
	b := &bundle{
		T: t, ctx: t.Context(), store: open(t),
		owner: newOwner("a"), run: "t" + strings.ReplaceAll(uuid.NewString(), "-", ""),
	}
	if _, err := b.store.Cluster(b.ctx, Constants()); err != nil {
		t.Fatalf("constants: %v", err)
	}
	b.take(rand.Int32N(Partitions))
	return b
}

func newOwner(node string) persistence.Owner {
	return persistence.Owner{Node: node, Incarnation: uuid.New()}
}

// take acquires a partition and works on it from then on.
func (b *bundle) take(partition int32) {
	b.Helper()
	b.held = b.acquire(b.read(partition), b.owner)
}

func (b *bundle) read(partition int32) persistence.Fence {
	b.Helper()
	f, err := b.store.ReadFence(b.ctx, partition)
	b.must("read fence", err)
	return f
}

func (b *bundle) acquire(seen persistence.Fence, by persistence.Owner) persistence.Fence {
	b.Helper()
	op := uuid.New()
	f, err := b.store.Acquire(b.ctx, seen, by, op)
	for errors.Is(err, persistence.ErrInDoubt) {
		f, err = b.store.Acquire(b.ctx, seen, by, op)
	}
	b.must("acquire", err)
	return f
}

// commit writes rows, settling a doubt if a database leaves one.
func (b *bundle) commit(rows ...persistence.Row) {
	b.Helper()
	b.write(persistence.Batch{Rows: rows})
}

func (b *bundle) write(batch persistence.Batch) {
	b.Helper()
	for done := false; !done; {
		batch.OpID = uuid.New()
		next, err := b.store.Commit(b.ctx, b.held, batch)
		if done = true; errors.Is(err, persistence.ErrInDoubt) {
			next, done = b.settle(batch.OpID)
			err = nil
		}
		b.must("commit", err)
		b.held = next
	}
}

func (b *bundle) settle(batch uuid.UUID) (persistence.Fence, bool) {
	b.Helper()
	op := uuid.New()
	for {
		now, applied, err := b.store.Settle(b.ctx, b.held, batch, op)
		if !errors.Is(err, job.ErrUnavailable) && !errors.Is(err, persistence.ErrInDoubt) {
			b.must("settle", err)
			return now, applied
		}
	}
}

func (b *bundle) must(what string, err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// fenced checks a refusal: the error, and the fence that it names.
func (b *bundle) fenced(what string, err error, holder persistence.Fence) {
	b.Helper()
	var f *persistence.Fenced
	if !errors.As(err, &f) || !errors.Is(err, job.ErrFenced) {
		b.Fatalf("%s: got error %v, want Fenced", what, err)
	}
	same(b, what+": the holder", key(f.Holder), key(holder))
	same(b, what+": the holder's partition", f.Holder.Partition, holder.Partition)
}

func same[V comparable](b *bundle, what string, got, want V) {
	b.Helper()
	if got != want {
		b.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// point is the part of a fence that a write names.
type point struct {
	epoch, seq int64
	op         uuid.UUID
}

func key(f persistence.Fence) point { return point{f.Epoch, f.Seq, f.OpID} }

func (p point) String() string { return fmt.Sprintf("epoch %d seq %d op %.8s", p.epoch, p.seq, p.op) }

// id is a job id of this case.
func (b *bundle) id(suffix string) string { return b.run + suffix }

// row is a job's row whose every field tells the id and n.
func (b *bundle) row(slice int16, suffix string, n int) persistence.Row {
	return persistence.Row{
		Slice: slice, JobID: b.id(suffix), Revision: int64(n), Status: job.Active, NextRun: int64(n) * 1000,
		Labels: map[string]string{"suffix": suffix, "n": fmt.Sprint(n)},
		Spec:   fmt.Appendf(nil, "spec %s %d", suffix, n),
		State:  fmt.Appendf(nil, "state %s %d", suffix, n),
	}
}

func (b *bundle) get(like persistence.Row) persistence.Row {
	b.Helper()
	r, err := b.store.Get(b.ctx, b.held.Partition, like.Slice, like.JobID, like.Item)
	b.must("get", err)
	return r
}

// stored checks that a row reads as it was written.
func (b *bundle) stored(want persistence.Row) {
	b.Helper()
	b.sameRow(b.get(want), want)
}

func (b *bundle) absent(like persistence.Row) {
	b.Helper()
	r, err := b.store.Get(b.ctx, b.held.Partition, like.Slice, like.JobID, like.Item)
	if !errors.Is(err, job.ErrNotFound) {
		b.Fatalf("get %s %q: got %v, %v, want ErrNotFound", like.JobID, like.Item, r, err)
	}
}

func (b *bundle) sameRow(got, want persistence.Row) {
	b.Helper()
	same(b, "row", text(got), text(want))
}

// text is a row as a line; nil and empty are one.
func text(r persistence.Row) string {
	return fmt.Sprintf("slice %d job %q item %q revision %d status %q next %d labels %v spec %q state %q",
		r.Slice, r.JobID, r.Item, r.Revision, r.Status, r.NextRun, r.Labels, r.Spec, r.State)
}

// load returns this case's rows of some slices, in the order they came.
func (b *bundle) load(from, to int16) (rows []persistence.Row) {
	b.Helper()
	b.must("load", b.store.Load(b.ctx, b.held.Partition, from, to, func(r persistence.Row) error {
		if strings.HasPrefix(r.JobID, b.run) {
			rows = append(rows, r)
		}
		return nil
	}))
	return rows
}
