package storetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// RunFormats checks what a store promises of formats. There is no way back from
// a raised one, so open returns an empty store for each case.
func RunFormats(t *testing.T, open func(t *testing.T) persistence.Store) {
	for _, b := range formats {
		t.Run(b.name, func(t *testing.T) {
			b.check(&bundle{T: t, ctx: t.Context(), store: open(t), owner: newOwner("a")})
		})
	}
}

var formats = []behaviour{
	{"a store has the format of the node that made it", formatOfTheFirst},
	{"a raised format keeps out who does not know it", formatRaised},
	{"of concurrent raises one is carried out", formatRaces},
}

// knowing is a node that knows formats up to one.
func knowing(format int) persistence.Cluster {
	c := Constants()
	c.Format = format
	return c
}

// join starts a node that has to be admitted, and checks the format it is told.
func (b *bundle) join(knows, format int) persistence.Cluster {
	b.Helper()
	c, err := b.store.Cluster(b.ctx, knowing(knows))
	b.must("constants", err)
	same(b, "format", c.Format, format)
	return c
}

func (b *bundle) keptOut(knows int) {
	b.Helper()
	_, err := b.store.Cluster(b.ctx, knowing(knows))
	var m *persistence.Mismatch
	if !errors.As(err, &m) || m.Setting != "format" {
		b.Fatalf("a node that knows format %d: got error %v, want Mismatch of the format", knows, err)
	}
}

func formatOfTheFirst(b *bundle) {
	if err := b.store.RaiseFormat(b.ctx, 1, 2); !errors.Is(err, job.ErrUnavailable) {
		b.Fatalf("raise on an empty store: got error %v, want ErrUnavailable", err)
	}
	first := b.join(2, 2)
	b.keptOut(1)
	same(b, "constants", b.join(3, 2), first)
}

func formatRaised(b *bundle) {
	b.join(1, 1)
	b.take(job.SystemPartition) // the constants lie beside its fence
	before := b.join(2, 1)
	b.must("raise", b.raise(1, 2))
	b.must("raise again", b.raise(1, 2))
	b.keptOut(1)
	after := b.join(2, 2)
	b.join(3, 2)
	for _, m := range [][2]int{{1, 3}, {3, 4}} {
		if err := b.raise(m[0], m[1]); !errors.Is(err, persistence.ErrFormatMoved) {
			b.Fatalf("raise from %d to %d: got error %v, want ErrFormatMoved", m[0], m[1], err)
		}
	}
	for _, m := range [][2]int{{2, 1}, {2, 2}} {
		if err := b.raise(m[0], m[1]); err == nil || errors.Is(err, persistence.ErrFormatMoved) {
			b.Fatalf("raise from %d to %d: got error %v, want a refusal", m[0], m[1], err)
		}
	}
	b.join(2, 2)
	before.Format = after.Format
	same(b, "the other constants", after, before)
	same(b, "the fence", key(b.read(job.SystemPartition)), key(b.held))
	b.commit()
}

// formatRaces: of each format half of the nodes raise to the next one and half
// to the one after. Whoever is told yes finds the format there, and nobody is
// told two things.
func formatRaces(b *bundle) {
	b.join(1, 1)
	for round, from := 0, 1; round < 5; round++ {
		from = b.raceFrom(from)
	}
}

func (b *bundle) raceFrom(from int) int {
	b.Helper()
	const raisers = 8
	var errs [raisers]error
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range raisers {
		all.Go(func() {
			<-start
			errs[i] = b.raise(from, from+1+i%2)
		})
	}
	close(start)
	all.Wait()
	stored, err := b.store.Cluster(b.ctx, knowing(from+2))
	b.must("constants", err)
	for i, err := range errs {
		to := from + 1 + i%2
		if won := to == stored.Format; won != (err == nil) || !won && !errors.Is(err, persistence.ErrFormatMoved) {
			b.Fatalf("raise from %d to %d: got error %v, and the format is %d", from, to, err, stored.Format)
		}
	}
	return stored.Format
}

// raise raises the format, again while that is in doubt.
func (b *bundle) raise(from, to int) error {
	for {
		err := b.store.RaiseFormat(b.ctx, from, to)
		if b.ctx.Err() != nil || !errors.Is(err, persistence.ErrInDoubt) && !errors.Is(err, job.ErrUnavailable) {
			return err
		}
	}
}
