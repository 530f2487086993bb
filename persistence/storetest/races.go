package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

var races = []behaviour{
	{"the fence is linearizable", fenceLinearizable},
	{"a store without the fence is caught", unfencedCaught},
	{"the rows are those of the chain of commits", rowsFollowFence},
}

// HistoriesEnv sets how many histories are recorded and checked.
const HistoriesEnv = "BELFRY_FENCE_HISTORIES"

const defaultHistories = 50

// Histories is how many that is; def: it is not set.
func Histories(def int) int {
	if n, err := strconv.Atoi(os.Getenv(HistoriesEnv)); err == nil && n > 0 {
		return n
	}
	return def
}

// verb is what a fighter asks of the fence.
type verb string

const (
	read    verb = "read"
	acquire verb = "acquire"
	commit  verb = "commit"
	settle  verb = "settle"
	release verb = "release"
)

// call and answer are an operation on the fence as the checker sees it.
type call struct {
	verb
	at    point // the fence that the caller names
	op    uuid.UUID
	batch uuid.UUID // settle: the batch in doubt
}

type answer struct {
	fenced  bool
	unknown bool  // in doubt: it may have happened, or happen until the end
	applied bool  // settle
	fence   point // now, or the holder's when fenced
}

// moved is the fence that a successful call leaves.
func (c call) moved() point {
	to := point{c.at.epoch, c.at.seq + 1, c.op}
	if c.verb == acquire || c.verb == settle {
		to.epoch++
	}
	return to
}

// step is the fence as its contract describes it.
func step(now point, c call, a answer) (bool, point) {
	if c.verb == read {
		return a.unknown || a.fence == now, now
	}
	after, want := now, answer{fenced: true, fence: now}
	switch to := c.moved(); {
	case c.verb == settle && now == point{c.at.epoch, c.at.seq + 1, c.batch}:
		want = answer{applied: true, fence: now}
	case now == c.at:
		after, want = to, answer{fence: to}
	case now == to && c.verb != commit:
		want = answer{fence: now}
	}
	return a.unknown || a == want, after
}

func model(first point) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return first },
		Step: func(state, in, out any) (bool, any) {
			ok, next := step(state.(point), in.(call), out.(answer))
			return ok, next
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
		DescribeState:     func(state any) string { return state.(point).String() },
	}
}

// fight is many owners at one partition, and the history of what they saw.
type fight struct {
	stores    []persistence.Store // a client uses the one of its number
	partition int32
	faults    bool // an unavailable store and repeated doubts belong to it
	ctx       context.Context
	start     time.Time

	mu      sync.Mutex
	history []porcupine.Operation
	failed  error
}

// do calls the store and records the operation.
func (f *fight) do(client int, c call, held persistence.Fence) (persistence.Fence, error) {
	begun := time.Since(f.start).Nanoseconds()
	fence, applied, err := f.ask(client, c, held)
	over := time.Since(f.start).Nanoseconds()
	a := answer{fence: key(fence), applied: applied}
	var fenced *persistence.Fenced
	switch {
	case errors.As(err, &fenced):
		a = answer{fenced: true, fence: key(fenced.Holder)}
	case errors.Is(err, persistence.ErrInDoubt):
		a = answer{unknown: true}
		over = time.Hour.Nanoseconds()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faults && errors.Is(err, job.ErrUnavailable) && !a.unknown {
		return fence, err // nothing was written, nothing was seen
	}
	if err != nil && a.fence == (point{}) && !a.unknown {
		f.failed = errors.Join(f.failed, fmt.Errorf("%s: %w", c.verb, err))
	}
	f.history = append(f.history, porcupine.Operation{ClientId: client, Input: c, Output: a, Call: begun, Return: over})
	return fence, err
}

func (f *fight) ask(client int, c call, held persistence.Fence) (now persistence.Fence, applied bool, err error) {
	store := f.stores[client%len(f.stores)]
	switch c.verb {
	case read:
		now, err = store.ReadFence(f.ctx, f.partition)
	case acquire:
		now, err = store.Acquire(f.ctx, held, newOwner(fmt.Sprint("node", client)), c.op)
	case commit:
		now, err = store.Commit(f.ctx, held, persistence.Batch{OpID: c.op})
	case settle:
		now, applied, err = store.Settle(f.ctx, held, c.batch, c.op)
	case release:
		if err = store.Release(f.ctx, held, c.op); err == nil {
			now = held
			now.Seq++
			now.OpID = c.op
		}
	}
	return now, applied, err
}

// move asks for one thing, and where faults belong to the fight it settles what
// is in doubt as an owner does: a commit by a barrier, anything else by asking
// again.
func (f *fight) move(client int, v verb, held persistence.Fence) (persistence.Fence, error) {
	c := call{verb: v, at: key(held), op: uuid.New(), batch: uuid.New()}
	next, err := f.do(client, c, held)
	if f.faults && v == commit && errors.Is(err, persistence.ErrInDoubt) {
		c = call{verb: settle, at: key(held), op: uuid.New(), batch: c.op}
		next, err = f.do(client, c, held)
	}
	for try := 0; f.faults && c.verb != commit && open(err) && try < 20; try++ {
		next, err = f.do(client, c, held)
	}
	return next, err
}

// open tells that a call may be made again.
func open(err error) bool {
	return errors.Is(err, persistence.ErrInDoubt) || errors.Is(err, job.ErrUnavailable)
}

// reign is one attempt at ownership: read, acquire, and what an owner does.
func (f *fight) reign(client, round int) {
	held, err := f.do(client, call{verb: read}, persistence.Fence{})
	for _, v := range []verb{acquire, commit, commit, settle, commit, release} {
		if err != nil || (v == release && round%2 == 0) {
			return
		}
		runtime.Gosched()
		held, err = f.move(client, v, held)
	}
}

// takeover is the one case that must be in every history: an owner that is
// overtaken between its acquire and its commit.
func (f *fight) takeover() {
	seen, err := f.do(0, call{verb: read}, persistence.Fence{})
	if err != nil {
		return
	}
	former, err := f.move(0, acquire, seen)
	if err != nil {
		return
	}
	if _, err = f.move(1, acquire, former); err == nil {
		_, _ = f.move(0, commit, former)
	}
}

// record plays one fight and returns what was seen of it.
func record(b *bundle, store persistence.Store, partition int32) ([]porcupine.Operation, point) {
	b.Helper()
	f := &fight{stores: []persistence.Store{store}, partition: partition, ctx: b.ctx, start: time.Now()}
	first := key(b.read(partition))
	f.play()
	b.must("a fight", f.failed)
	return f.history, first
}

func (f *fight) play() {
	f.takeover()
	var wg sync.WaitGroup
	for client := range 4 {
		wg.Go(func() {
			for round := range 3 {
				f.reign(client, round)
			}
		})
	}
	wg.Wait()
}

// Fight records a history of four owners who fight for a partition, each through
// one of the stores, while whoever calls it may disturb them: a store that is
// unavailable or leaves a doubt is part of the fight. It tells whether the
// history is linearizable, and how many operations it has.
func Fight(t testing.TB, partition int32, stores ...persistence.Store) (porcupine.CheckResult, int) {
	t.Helper()
	f := &fight{stores: stores, partition: partition, faults: true, ctx: t.Context(), start: time.Now()}
	before, err := stores[0].ReadFence(f.ctx, partition)
	for try := 0; open(err) && try < 20; try++ {
		before, err = stores[0].ReadFence(f.ctx, partition)
	}
	if err != nil {
		t.Fatalf("read fence: %v", err)
	}
	f.play()
	if f.failed != nil {
		t.Fatalf("a fight: %v", f.failed)
	}
	return check(f.history, key(before)), len(f.history)
}

func check(history []porcupine.Operation, first point) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model(first), history, 20*time.Second)
}

func fenceLinearizable(b *bundle) {
	for i := range Histories(defaultHistories) {
		history, first := record(b, b.store, int32(i%Partitions))
		if got := check(history, first); got != porcupine.Ok {
			b.Fatalf("history %d of %d operations is %s: %+v", i, len(history), got, history)
		}
	}
}

// unfenced is a store that asks who owns a partition and then writes, as if
// nothing could happen in between.
type unfenced struct{ persistence.Store }

func (s unfenced) Commit(ctx context.Context, held persistence.Fence, batch persistence.Batch) (persistence.Fence, error) {
	for {
		now, err := s.ReadFence(ctx, held.Partition)
		if err != nil {
			return now, err
		}
		next, err := s.Store.Commit(ctx, now, batch)
		if !errors.Is(err, job.ErrFenced) {
			return next, err
		}
	}
}

func unfencedCaught(b *bundle) {
	for i := range 10 {
		history, first := record(b, unfenced{b.store}, int32(i%Partitions))
		if got := check(history, first); got != porcupine.Illegal {
			b.Fatalf("history %d of a store without a fence is %s", i, got)
		}
	}
}

// rowsFollowFence has owners add to one row what they find there. When writes
// without the fence got through, or a commit left only some of its rows, a
// count would be lost or the two rows would differ.
func rowsFollowFence(b *bundle) {
	partition := b.held.Partition
	left, right := b.row(2, "left", 0), b.row(3, "right", 0)
	b.commit(left, right)
	var mu sync.Mutex
	var acknowledged, open int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				a, o := addTwice(b, partition, left, right)
				mu.Lock()
				acknowledged, open = acknowledged+a, open+o
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	l, r := b.get(left), b.get(right)
	same(b, "the right row's count", r.Revision, l.Revision)
	if l.Revision < acknowledged || l.Revision > acknowledged+open {
		b.Fatalf("the count is %d; %d were acknowledged, and %d left open", l.Revision, acknowledged, open)
	}
}

// addTwice takes the partition, reads, and writes one more, twice. It returns
// how often that was acknowledged, and how often nobody can tell: a batch was in
// doubt, and the partition was lost before that could be settled.
func addTwice(b *bundle, partition int32, left, right persistence.Row) (acknowledged, open int64) {
	seen, err := b.store.ReadFence(b.ctx, partition)
	if err != nil {
		return 0, 0
	}
	held, err := b.store.Acquire(b.ctx, seen, newOwner("b"), uuid.New())
	if err != nil {
		return 0, 0
	}
	row, err := b.store.Get(b.ctx, partition, left.Slice, left.JobID, "")
	if err != nil {
		return 0, 0
	}
	for range 2 {
		row.Revision++
		left.Revision, right.Revision = row.Revision, row.Revision
		op := uuid.New()
		next, err := b.store.Commit(b.ctx, held, persistence.Batch{OpID: op, Rows: []persistence.Row{left, right}})
		if errors.Is(err, persistence.ErrInDoubt) {
			now, applied, err := b.store.Settle(b.ctx, held, op, uuid.New())
			if err != nil {
				return acknowledged, open + 1
			}
			if !applied {
				return acknowledged, open
			}
			next = now
		} else if err != nil {
			return acknowledged, open
		}
		held = next
		acknowledged++
	}
	return acknowledged, open
}
