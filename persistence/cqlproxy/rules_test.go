package cqlproxy_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

func all(cqlproxy.Request) bool { return true }

// heard sends n requests one after another and tells which were refused.
func heard(t *testing.T, n int, rule cqlproxy.Rule) []bool {
	f := setup(t)
	f.proxy.Decide(rule)
	var refused []bool
	for range n {
		f.wire.send(f.lwt, 7)
		refused = append(refused, f.wire.hear().Opcode == frame.OpError)
	}
	return refused
}

func TestTimes(t *testing.T) {
	refuse := cqlproxy.Refuse(cqlproxy.Overloaded())
	for name, c := range map[string]struct {
		rule cqlproxy.Rule
		want []bool
	}{
		"once":     {cqlproxy.Once(all, refuse), []bool{true, false, false}},
		"twice":    {cqlproxy.Times(2, all, refuse), []bool{true, true, false}},
		"always":   {cqlproxy.Always(all, refuse), []bool{true, true, true}},
		"not this": {cqlproxy.Always(cqlproxy.Request.Serial, refuse), []bool{false, false, false}},
		"pass all": {cqlproxy.PassAll, []bool{false, false, false}},
		"no draws": {cqlproxy.Drawn(rand.New(rand.NewPCG(1, 1)), all), []bool{false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, heard(t, 3, c.rule)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// One seed is one story, another is another.
func TestDrawn(t *testing.T) {
	story := func(seed uint64) []bool {
		return heard(t, 64, cqlproxy.Drawn(rand.New(rand.NewPCG(seed, 0)), all,
			cqlproxy.Weighted{Weight: 1, Action: cqlproxy.Refuse(cqlproxy.Overloaded())},
			cqlproxy.Weighted{Weight: 1, Action: cqlproxy.Pass()},
		))
	}
	first := story(7)
	if diff := cmp.Diff(first, story(7)); diff != "" {
		t.Errorf("the same seed tells another story:\n%s", diff)
	}
	if cmp.Equal(first, story(8)) {
		t.Error("another seed tells the same story")
	}
}
