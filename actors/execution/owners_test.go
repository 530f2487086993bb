package execution

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"pgregory.net/rapid"

	"github.com/belfry-scheduler/belfry/cluster"
)

func TestEpochOfAnOwner(t *testing.T) {
	for id, want := range map[string]int64{
		"host/p17-e42": 42, "p-1-e9": 9, "p0-e0": 0, "worker": 0, "p0-e": 0, "p0-e-3": 0, "p0-e99999999999999999999": 0, "": 0,
	} {
		if got := epochOf(actor.NewPID("here", id)); got != want {
			t.Errorf("%q: %d, want %d", id, got, want)
		}
	}
	if epochOf(nil) != 0 || epochOf(cluster.OwnerPID("there:1", 4095, 1<<40)) != 1<<40 {
		t.Error("nobody has an epoch, or an owner of the cluster has none")
	}
}

func TestWhoOwnsAPartition(t *testing.T) {
	e41, e42, e43, odd := actor.NewPID("a", "host/p0-e41"), actor.NewPID("b", "host/p0-e42"), actor.NewPID("c", "host/p0-e43"), actor.NewPID("d", "odd")
	for name, c := range map[string]struct {
		heard *actor.PID // under 42
		dead  bool
		table *actor.PID
		owner *actor.PID
		epoch int64
	}{
		"nothing is known":           {},
		"the table alone":            {table: e41, owner: e41, epoch: 41},
		"the table alone, odd name":  {table: odd, owner: odd},
		"heard alone":                {heard: e42, owner: e42, epoch: 42},
		"the table is behind":        {heard: e42, table: e41, owner: e42, epoch: 42},
		"the table is ahead":         {heard: e42, table: e43, owner: e43, epoch: 43},
		"the same":                   {heard: e42, table: e42, owner: e42, epoch: 42},
		"gone, nothing in the table": {heard: e42, dead: true, epoch: 42},
		"gone, the table is behind":  {heard: e42, dead: true, table: e41, epoch: 42},
		"gone, the table repeats it": {heard: e42, dead: true, table: e42, owner: e42, epoch: 42},
		"gone, the table is ahead":   {heard: e42, dead: true, table: e43, owner: e43, epoch: 43},
	} {
		o := owners{}
		if c.heard != nil {
			o.hear(0, 42, c.heard)
		}
		if c.dead {
			o.dead(nil)
			o.dead(e43)
			o.dead(c.heard)
		}
		if got := o.newest(0, c.table); got.owner != c.owner || got.epoch != c.epoch {
			t.Errorf("%s: %v under %d", name, got.owner, got.epoch)
		}
	}
}

// Whatever is heard, an epoch never falls, and nobody of a lower one is named.
func TestEpochsOnlyGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, highest := owners{}, int64(-1)
		pid := func(epoch int64) *actor.PID { return actor.NewPID("here", "p0-e"+string(rune('0'+epoch))) }
		epochs := rapid.Int64Range(0, 9)
		t.Repeat(map[string]func(*rapid.T){
			"hear": func(t *rapid.T) {
				epoch := epochs.Draw(t, "epoch")
				if got := o.hear(0, epoch, pid(epoch)); got != (epoch >= highest) {
					t.Fatalf("epoch %d after %d: %v", epoch, highest, got)
				}
				highest = max(highest, epoch)
			},
			"die": func(t *rapid.T) { o.dead(pid(epochs.Draw(t, "epoch"))) },
			"": func(t *rapid.T) {
				var table *actor.PID
				if rapid.Bool().Draw(t, "known") {
					table = pid(epochs.Draw(t, "table"))
				}
				got := o.newest(0, table)
				if got.epoch < highest || got.owner != nil && epochOf(got.owner) != got.epoch || len(o) > 1 {
					t.Fatalf("%v under %d, the highest is %d", got.owner, got.epoch, highest)
				}
			},
		})
	})
}
