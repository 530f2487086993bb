package embedded

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// text draws texts that are often each other's prefix.
func text() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune("aAb.-_~/0\x01ÿ\U0010ffff")), 0, 5, -1)
}

func TestRowKeysKeepTheOrder(t *testing.T) {
	type name struct {
		partition int32
		slice     int16
		job, item string
	}
	draw := func(t *rapid.T, label string) (n name, key []byte) {
		n = name{
			rapid.SampledFrom([]int32{-1, 0, 1, 255, 256, 4095}).Draw(t, label),
			rapid.SampledFrom([]int16{0, 1, 63, 64, 191}).Draw(t, label),
			text().Draw(t, label), text().Draw(t, label),
		}
		return n, append(appendRow(nil, n.partition, n.slice, n.job, n.item), partState)
	}
	rapid.Check(t, func(t *rapid.T) {
		x, xKey := draw(t, "x")
		y, yKey := draw(t, "y")
		want := cmp.Or(cmp.Compare(x.partition, y.partition), cmp.Compare(x.slice, y.slice), strings.Compare(x.job, y.job), strings.Compare(x.item, y.item))
		if got := bytes.Compare(xKey, yKey); got != want {
			t.Fatalf("%v against %v: keys compare as %d, names as %d", x, y, got, want)
		}
		k, ok := splitRow(xKey)
		if back := (name{k.partition, k.slice, string(k.job), string(k.item)}); !ok || back != x || k.part != partState {
			t.Fatalf("%v reads back as %v", x, back)
		}
	})
}

func TestHistoryKeysKeepTheOrder(t *testing.T) {
	numbers := rapid.SampledFrom([]int64{-1 << 63, -5, -1, 0, 1, 255, 256, 1 << 40, 1<<63 - 1})
	draw := func(t *rapid.T, label string) (h persistence.HistoryRow, key []byte) {
		h = persistence.HistoryRow{
			Day: job.Day(rapid.Int32Range(-2, 2).Draw(t, label)), JobID: text().Draw(t, label),
			ScheduledFor: numbers.Draw(t, label), ExecutionID: text().Draw(t, label),
			Attempt: rapid.SampledFrom([]int32{0, 1, 2, 300}).Draw(t, label), Decision: numbers.Draw(t, label),
		}
		return h, appendHistoryKey(nil, 3, &h)
	}
	rapid.Check(t, func(t *rapid.T) {
		x, xKey := draw(t, "x")
		y, yKey := draw(t, "y")
		want := cmp.Or(cmp.Compare(x.Day, y.Day), strings.Compare(x.JobID, y.JobID),
			cmp.Compare(min(x.Attempt, 1), min(y.Attempt, 1)),
			cmp.Compare(y.ScheduledFor, x.ScheduledFor), strings.Compare(y.ExecutionID, x.ExecutionID),
			cmp.Compare(x.Attempt, y.Attempt), cmp.Compare(y.Decision, x.Decision))
		if got := bytes.Compare(xKey, yKey); got != want {
			t.Fatalf("%+v against %+v: keys compare as %d, rows as %d", x, y, got, want)
		}
		class := byte(min(x.Attempt, 1))
		back := persistence.HistoryRow{Day: x.Day, JobID: x.JobID}
		prefix := appendClass(nil, 3, x.Day, x.JobID, class)
		if !bytes.HasPrefix(xKey, prefix) || !splitHistory(class, xKey[len(prefix):], &back) || !equalHistory(back, x) {
			t.Fatalf("%+v reads back as %+v", x, back)
		}
	})
}

func equalHistory(x, y persistence.HistoryRow) bool {
	return x.Day == y.Day && x.JobID == y.JobID && x.ScheduledFor == y.ScheduledFor &&
		x.ExecutionID == y.ExecutionID && x.Attempt == y.Attempt && x.Decision == y.Decision
}

func TestSuccessorFollowsThePrefixAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := append(rapid.SliceOfN(rapid.Byte(), 1, 6).Draw(t, "prefix"), 'x')
		inside := slices.Concat(prefix, rapid.SliceOf(rapid.Byte()).Draw(t, "rest"))
		successor := appendSuccessor(slices.Clone(prefix))
		if bytes.Compare(inside, successor) >= 0 {
			t.Fatalf("%x is not before %x", inside, successor)
		}
		if below := slices.Clone(successor); len(below) == len(prefix) {
			below[len(below)-1]--
			if !bytes.Equal(below, prefix) {
				t.Fatalf("%x is not next to %x", successor, prefix)
			}
		}
	})
}

// TestValuesThatAreCutShort decodes every beginning of a value: an error or
// less, and never a panic.
func TestValuesThatAreCutShort(t *testing.T) {
	row := persistence.Row{Revision: 300, NextRun: 1 << 40, Status: job.Faulty, Labels: map[string]string{"key": "value", "k": ""}}
	fence := persistence.Fence{Epoch: 7, Seq: 300, LastNumber: 9, Owner: "node"}
	cluster := persistence.Cluster{Partitions: 256, Hash: job.HashName, Format: 1}
	for name, c := range map[string]struct {
		value  []byte
		decode func([]byte) error
	}{
		"state":   {appendState(nil, &row, []byte("s")), func(b []byte) error { return decodeState(b, new(persistence.Row)) }},
		"spec":    {appendSpec(nil, []byte("spec")), func(b []byte) error { return decodeSpec(b, new(persistence.Row)) }},
		"labels":  {appendLabels(nil, row.Labels), func(b []byte) error { return decodeLabels(b, new(persistence.Row)) }},
		"fence":   {appendFence(nil, &fence), func(b []byte) error { _, err := decodeFence(b, 0); return err }},
		"cluster": {appendCluster(nil, &cluster), func(b []byte) error { _, err := decodeCluster(b); return err }},
	} {
		if err := c.decode(c.value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range c.value {
			_ = c.decode(c.value[:n])
		}
		newer := slices.Clone(c.value)
		newer[0]++
		for _, bad := range [][]byte{nil, newer} {
			if err := c.decode(bad); err == nil {
				t.Errorf("%s: %x is taken", name, bad)
			}
		}
	}
}
