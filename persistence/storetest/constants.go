package storetest

import (
	"errors"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/persistence"
)

var constants = []behaviour{
	{"constants are made once and then compared", constantsOnce},
	{"a node with another setting is told which", constantsDiffer},
}

func constantsOnce(b *bundle) {
	first, err := b.store.Cluster(b.ctx, Constants())
	b.must("constants", err)
	if first.ID == uuid.Nil {
		b.Fatal("no cluster id was drawn")
	}
	again, err := b.store.Cluster(b.ctx, Constants())
	b.must("constants again", err)
	same(b, "constants", again, first)
	want := Constants()
	want.ID = first.ID
	same(b, "constants", first, want)
}

func constantsDiffer(b *bundle) {
	for setting, change := range map[string]func(*persistence.Cluster){
		"partitions": func(c *persistence.Cluster) { c.Partitions *= 2 },
		"hash":       func(c *persistence.Cluster) { c.Hash = "md5" },
		"format":     func(c *persistence.Cluster) { c.Format-- },
	} {
		c := Constants()
		change(&c)
		_, err := b.store.Cluster(b.ctx, c)
		var m *persistence.Mismatch
		if !errors.As(err, &m) {
			b.Fatalf("%s differs: got error %v, want Mismatch", setting, err)
		}
		same(b, "setting", m.Setting, setting)
		if m.Stored == m.Want || m.Stored == "" {
			b.Fatalf("%s: stored %q, wanted %q", setting, m.Stored, m.Want)
		}
	}
	_, err := b.store.Cluster(b.ctx, Constants())
	b.must("constants after mismatches", err)
}
