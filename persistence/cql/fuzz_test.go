package cql

import (
	"testing"

	"github.com/gocql/gocql"
	"github.com/google/go-cmp/cmp"

	"github.com/belfry-scheduler/belfry/persistence"
)

// FuzzRing: what can be read of a slot of the ring, or of the constants, is written
// and read back as it was.
func FuzzRing(f *testing.F) {
	f.Add(encodeHistory([]persistence.HistoryRow{line(1), line(2)}))
	f.Add((&entry{seq: 5, copied: 4, at: 3}).header())
	f.Add((&constants{persistence.Cluster{Partitions: 16, Format: 1, Hash: "xxh64"}, "dc1"}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		back(t, b, decodeHistory, encodeHistory)
		back(t, b, decodeHeader, (*entry).header)
		back(t, b, decodeConstants, func(c constants) []byte { return c.encode() })
	})
}

// back wants a value that can be read to be written and read as the same.
func back[T any](t *testing.T, value []byte, decode func([]byte) (T, error), encode func(T) []byte) {
	t.Helper()
	read, err := decode(value)
	if err != nil {
		return
	}
	again, err := decode(encode(read))
	if d := cmp.Diff(read, again, cmp.AllowUnexported(entry{}, constants{})); err != nil || d != "" {
		t.Fatalf("%x: %v\n%s", value, err, d)
	}
}

// FuzzAnswers: of the rows of an answer to a conditional write, in any shape, one
// is made that no row contradicts, or none at all. Three bits of a byte are what a
// row says: nothing, yes or no; and which columns of the fence it has.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{1}, int64(0), int64(0))
	f.Add([]byte{2 | 28, 2}, int64(7), int64(1))
	f.Add([]byte{1, 2}, int64(7), int64(1))
	f.Add([]byte{1 | 28, 0}, int64(7), int64(1))
	f.Add([]byte{2, 2 | 12, 2 | 28}, int64(-1), int64(1)<<62)
	f.Fuzz(func(t *testing.T, says []byte, epoch, seq int64) {
		var rows []casRow
		yes, no, silent := 0, 0, 0
		for i, b := range says {
			var r casRow
			applied := b&3 == 1
			switch b & 3 {
			case 1:
				yes++
				r.applied = &applied
			case 2:
				no++
				r.applied = &applied
			default:
				silent++
			}
			e, op := epoch+int64(i), gocql.UUID{byte(i)}
			if b&4 != 0 {
				r.epoch = &e
			}
			if b&8 != 0 {
				r.seq = &seq
			}
			if b&16 != 0 {
				r.op = &op
			}
			rows = append(rows, r)
		}
		a, err := merge(rows)
		if clear := silent == 0 && (yes == 0 || no == 0); clear != (err == nil) {
			t.Fatalf("%v: %+v, %v", says, a, err)
		}
		if err != nil {
			return
		}
		if a.applied != (yes > 0) {
			t.Fatalf("%v: %+v", says, a)
		}
		first := int64(-1)
		for i, b := range says {
			if b&28 == 28 {
				first = int64(i)
				break
			}
		}
		if a.found != (first >= 0) || a.found && (a.fence.Epoch != epoch+first || a.fence.Seq != seq || a.fence.OpID[0] != byte(first)) {
			t.Fatalf("%v: the fence found is %+v, the first whole one is in row %d", says, a, first)
		}
	})
}
