package embedded

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// FuzzValues: what can be read of a stored value is written and read back as it
// was, whatever bytes are stored.
func FuzzValues(f *testing.F) {
	f.Add(appendState(nil, &persistence.Row{Revision: 3, NextRun: -1, Status: job.Paused}, []byte("state")))
	f.Add(appendSpec(nil, []byte("spec")))
	f.Add(appendLabels(nil, map[string]string{"a": "b", "c": ""}))
	f.Add(appendFence(nil, &persistence.Fence{Epoch: 1 << 40, Seq: -1, Owner: "node"}))
	f.Add(appendHistory(nil, &persistence.HistoryRow{Epoch: 7, Record: []byte("record")}))
	f.Add(appendCluster(nil, &persistence.Cluster{Partitions: 16, Format: 1, Hash: "xxh64"}))
	f.Add([]byte{format, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, value []byte) {
		back(t, value, row(decodeState), func(r persistence.Row) []byte { return appendState(nil, &r, r.State) })
		back(t, value, row(decodeSpec), func(r persistence.Row) []byte { return appendSpec(nil, r.Spec) })
		back(t, value, row(decodeLabels), func(r persistence.Row) []byte { return appendLabels(nil, r.Labels) })
		back(t, value, func(b []byte) (persistence.Fence, error) { return decodeFence(b, 5) }, func(f persistence.Fence) []byte { return appendFence(nil, &f) })
		back(t, value, decodeCluster, func(c persistence.Cluster) []byte { return appendCluster(nil, &c) })
		back(t, value, func(b []byte) (h persistence.HistoryRow, err error) { return h, decodeHistory(b, &h) }, func(h persistence.HistoryRow) []byte { return appendHistory(nil, &h) })
	})
}

func row(decode func([]byte, *persistence.Row) error) func([]byte) (persistence.Row, error) {
	return func(b []byte) (r persistence.Row, err error) {
		err = decode(b, &r)
		return r, err
	}
}

// back wants a value that can be read to be written and read as the same.
func back[T any](t *testing.T, value []byte, decode func([]byte) (T, error), encode func(T) []byte) {
	t.Helper()
	read, err := decode(value)
	if err != nil {
		return
	}
	again, err := decode(encode(read))
	if d := cmp.Diff(read, again); err != nil || d != "" {
		t.Fatalf("%x: %v\n%s", value, err, d)
	}
}

// FuzzRowKeys: a key has one row, and a row one key.
func FuzzRowKeys(f *testing.F) {
	f.Add(append(appendRow(nil, 3, 1, "job", ""), partState))
	f.Add(append(appendRow(nil, -1, -1, "", "item"), partLabels))
	f.Add([]byte("r\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, key []byte) {
		k, ok := splitRow(key)
		if !ok {
			return
		}
		if again := append(appendRow(nil, k.partition, k.slice, string(k.job), string(k.item)), k.part); !bytes.Equal(again, key) {
			t.Fatalf("%x is written %x", key, again)
		}
	})
}
