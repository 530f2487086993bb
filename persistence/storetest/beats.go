package storetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

var beats = []struct {
	name  string
	check func(*beating)
}{
	{"a beat moves by one and shows its latest values", beatMoves},
	{"a beat repeated with its number is ours", beatRepeated},
	{"a beat that does not follow the stored one is lost", beatLost},
	{"a forgotten node has no row, and may begin again", beatForgotten},
	{"two incarnations of a node beat for themselves", beatIncarnations},
	{"of two that move a beat to different numbers one is lost", beatRaced},
	{"many nodes beat at once", beatsAtOnce},
	{"a call whose context has ended does nothing", beatContextEnded},
}

// RunBeats runs the suite of persistence.Beats, beside Run, for a store that
// has them.
func RunBeats(t *testing.T, open func(t *testing.T) persistence.Beats) {
	for _, c := range beats {
		t.Run(c.name, func(t *testing.T) {
			c.check(&beating{T: t, ctx: t.Context(), Beats: open(t)})
		})
	}
}

// beating is what a case works with.
type beating struct {
	*testing.T
	persistence.Beats
	ctx context.Context
}

func (b *beating) must(what string, err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// beat moves a node's beat to n, however often that must be asked.
func (b *beating) beat(beat persistence.Beat, n int64) error {
	beat.N = n
	err := b.Beat(b.ctx, beat)
	for errors.Is(err, job.ErrUnavailable) && b.ctx.Err() == nil {
		err = b.Beat(b.ctx, beat)
	}
	return err
}

// of returns the rows of some nodes, by node and incarnation.
func (b *beating) of(nodes ...persistence.Beat) (rows []persistence.Beat) {
	b.Helper()
	all, err := b.Beats.Beats(b.ctx)
	b.must("read beats", err)
	for _, row := range all {
		if slices.ContainsFunc(nodes, func(n persistence.Beat) bool { return n.Owner == row.Owner }) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(x, y persistence.Beat) int {
		return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Incarnation.String(), y.Incarnation.String()))
	})
	return rows
}

// stored checks that a node's row is there with a number, or not (0).
func (b *beating) stored(what string, node persistence.Beat, n int64) {
	b.Helper()
	rows := b.of(node)
	switch {
	case n == 0 && len(rows) == 0:
	case n != 0 && len(rows) == 1 && rows[0].N == n:
	default:
		b.Fatalf("%s: the rows are %+v, want beat %d", what, rows, n)
	}
}

func newNode(name string) persistence.Beat {
	return persistence.Beat{Owner: newOwner(name + "-" + uuid.NewString()), Address: "127.0.0.1:7420", Roles: []string{"gateway", "scheduler"}}
}

func beatMoves(b *beating) {
	node := newNode("a")
	b.stored("before the first beat", node, 0)
	b.must("first beat", b.beat(node, 1))
	node.Address, node.Roles = "127.0.0.2:7420", []string{"worker"}
	b.must("second beat", b.beat(node, 2))
	b.stored("after the second beat", node, 2)
	if got := b.of(node)[0]; got.Address != node.Address || !slices.Equal(got.Roles, node.Roles) {
		b.Errorf("the row is %+v, want the address and roles of %+v", got, node)
	}
}

func beatRepeated(b *beating) {
	node := newNode("a")
	for n := range int64(3) {
		for range 3 {
			b.must("beat", b.beat(node, n+1))
		}
		b.stored("after a repeat", node, n+1)
	}
}

func beatLost(b *beating) {
	node := newNode("a")
	if err := b.beat(node, 2); !errors.Is(err, persistence.ErrBeatLost) {
		b.Errorf("a second beat without a first: got error %v, want ErrBeatLost", err)
	}
	b.stored("after a second beat without a first", node, 0)
	for n := range int64(4) {
		b.must("beat", b.beat(node, n+1))
	}
	for _, n := range []int64{1, 3, 6} {
		if err := b.beat(node, n); !errors.Is(err, persistence.ErrBeatLost) {
			b.Errorf("beat %d after beat 4: got error %v, want ErrBeatLost", n, err)
		}
	}
	b.stored("after the lost ones", node, 4)
	b.must("the next beat", b.beat(node, 5))
}

func beatForgotten(b *beating) {
	node, other := newNode("a"), newNode("b")
	b.must("beat", b.beat(node, 1))
	b.must("beat of another", b.beat(other, 1))
	for range 2 {
		b.must("forget", b.Forget(b.ctx, node.Owner))
		b.stored("after it was forgotten", node, 0)
	}
	if err := b.beat(node, 2); !errors.Is(err, persistence.ErrBeatLost) {
		b.Errorf("a beat of a forgotten node: got error %v, want ErrBeatLost", err)
	}
	b.must("a first beat again", b.beat(node, 1))
	b.stored("after it began again", node, 1)
	b.stored("the other node", other, 1)
}

func beatIncarnations(b *beating) {
	first := newNode("a")
	second := first
	second.Incarnation = uuid.New()
	b.must("beat", b.beat(first, 1))
	b.must("beat", b.beat(first, 2))
	b.must("beat of the next incarnation", b.beat(second, 1))
	if rows := b.of(first, second); len(rows) != 2 {
		b.Fatalf("the rows are %+v, want one for each incarnation", rows)
	}
	b.must("forget the first", b.Forget(b.ctx, first.Owner))
	b.stored("the first", first, 0)
	b.stored("the second", second, 1)
}

// beatRaced: two processes with one identity, as a cloned machine makes them,
// one of which is a beat ahead. Each beat is for the first that makes it.
func beatRaced(b *beating) {
	node := newNode("a")
	b.must("beat", b.beat(node, 1))
	var wg sync.WaitGroup
	var errs [2]error
	for i := range errs {
		wg.Go(func() { errs[i] = b.beat(node, int64(2+i)) })
	}
	wg.Wait()
	b.must("the one behind", errs[0])
	switch err := errs[1]; {
	case err == nil:
		b.stored("after both", node, 3)
	case errors.Is(err, persistence.ErrBeatLost):
		b.stored("after one", node, 2)
	default:
		b.Errorf("the one ahead: %v", err)
	}
}

func beatsAtOnce(b *beating) {
	const nodes, count = 5, 10
	var all []persistence.Beat
	for range nodes {
		all = append(all, newNode("n"))
	}
	var wg sync.WaitGroup
	for _, node := range all {
		wg.Go(func() {
			for n := range int64(count) {
				if err := b.beat(node, n+1); err != nil {
					b.Errorf("beat %d of %s: %v", n+1, node.Node, err)
					return
				}
			}
		})
	}
	wg.Wait()
	rows := b.of(all...)
	if len(rows) != nodes {
		b.Fatalf("%d rows, want %d", len(rows), nodes)
	}
	for _, row := range rows {
		if row.N != count {
			b.Errorf("node %s is at beat %d, want %d", row.Node, row.N, count)
		}
	}
}

func beatContextEnded(b *beating) {
	node := newNode("a")
	b.must("beat", b.beat(node, 1))
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	next := node
	next.N = 2
	_, readErr := b.Beats.Beats(ctx)
	for what, err := range map[string]error{"beat": b.Beat(ctx, next), "read": readErr, "forget": b.Forget(ctx, node.Owner)} {
		if !errors.Is(err, context.Canceled) || !errors.Is(err, job.ErrUnavailable) {
			b.Errorf("%s: got error %v, want ErrUnavailable and the context's", what, err)
		}
	}
	b.stored("afterwards", node, 1)
}
