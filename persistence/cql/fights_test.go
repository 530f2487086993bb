package cql

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
	"github.com/belfry-scheduler/belfry/persistence/storetest"
)

// lossy loses one in ten of the conditional answers, in one way or another.
func lossy(seed uint64) cqlproxy.Rule {
	r := rand.New(rand.NewPCG(seed, 1))
	return cqlproxy.Drawn(r, cqlproxy.Request.Conditional,
		cqlproxy.Weighted{Weight: 36, Action: cqlproxy.Pass()},
		cqlproxy.Weighted{Weight: 1, Action: cqlproxy.Swallow()},
		cqlproxy.Weighted{Weight: 1, Action: cqlproxy.Cut()},
		cqlproxy.Weighted{Weight: 1, Action: cqlproxy.Delay(700 * time.Millisecond)},
		cqlproxy.Weighted{Weight: 1, Action: cqlproxy.Replace(cqlproxy.WriteTimeout(frame.LocalSerial, 0, 1, cqlproxy.WriteCAS))})
}

func fights(t *testing.T, seed uint64, unfenced bool) {
	histories := storetest.Histories(10)
	if unfenced {
		histories = min(storetest.Histories(4), 10) // each must be found out
	}
	b := setup(t).impatient()
	b.cfg.Timeout = time.Second
	b.cfg.seams.unfenced = unfenced
	var stores []persistence.Store
	for i := range uint64(2) {
		s, p := b.proxied()
		warm(t, s)
		p.Decide(lossy(seed + i))
		stores = append(stores, s)
	}
	results := map[porcupine.CheckResult]int{}
	operations := 0
	for i := range histories {
		got, n := storetest.Fight(t, int32(i), stores...)
		results[got]++
		operations += n
	}
	t.Logf("%d operations in %d histories: %v", operations, histories, results)
	want := porcupine.Ok
	if unfenced {
		want = porcupine.Illegal
	}
	if results[want] != histories {
		t.Errorf("of %d histories: %v, want all %s", histories, results, want)
	}
}
