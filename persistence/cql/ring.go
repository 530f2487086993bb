package cql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/gocql/gocql"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// The ring of a partition: one row for each of the last batches with history,
// in the store's own slice, overwritten in turn and never deleted. ringSlots must
// not change: a new owner would overwrite what it does not know to be copied.
const (
	ringSlots  = 32
	ringJob    = "/history"
	ringFormat = 1

	putRing     = "INSERT INTO partitions (p, slice, job_id, item, revision, spec, state) VALUES (?, ?, ?, ?, ?, ?, ?)"
	selectRing  = "SELECT item, spec FROM partitions WHERE p = ? AND slice = ? AND job_id = ?"
	selectSlots = "SELECT item, spec, state FROM partitions WHERE p = ? AND slice = ? AND job_id = ? AND item IN ?"
)

func ringItem(seq int64) string { return fmt.Sprintf("ring/%02d", seq%ringSlots) }

// entry is the history of one batch.
type entry struct {
	seq    int64 // of the batch: unique in a partition, for it only grows
	copied int64 // every batch up to this seq is in the history table
	at     int64 // when it was sent, in s since 1970: its time to live counts from then
	rows   []persistence.HistoryRow
}

// add adds the ring's statement to the batch.
func (e *entry) add(q *gocql.Batch, partition int32) {
	q.Query(putRing, partition, ownSlice, ringJob, ringItem(e.seq), e.seq, e.header(), encodeHistory(e.rows))
}

// lives is how long from now the history of the entry is to be kept.
func (e *entry) lives(retention time.Duration, now time.Time) time.Duration {
	return retention - max(now.Sub(time.Unix(e.at, 0)), 0)
}

// header is what of a slot is read first, to see whether the rest is needed.
func (e *entry) header() []byte {
	b := []byte{ringFormat}
	for _, v := range []int64{e.seq, e.copied, e.at} {
		b = binary.AppendVarint(b, v)
	}
	return b
}

var errRing = errors.New("a slot of the history ring is malformed, or was written by a newer version of Belfry")

func decodeHeader(b []byte) (*entry, error) {
	d := decoder{rest: b}
	if d.byte() != ringFormat {
		return nil, errRing
	}
	e := &entry{seq: d.varint(), copied: d.varint(), at: d.varint()}
	if d.bad {
		return nil, errRing
	}
	return e, nil
}

// encodeHistory writes rows one after another.
func encodeHistory(rows []persistence.HistoryRow) []byte {
	n := 1
	for i := range rows {
		n += historyBytes(&rows[i])
	}
	b := append(make([]byte, 0, n), ringFormat)
	for i := range rows {
		h := &rows[i]
		b = binary.AppendVarint(b, int64(h.Day))
		b = appendBytes(b, h.JobID)
		b = binary.AppendVarint(b, h.ScheduledFor)
		b = appendBytes(b, h.ExecutionID)
		b = binary.AppendVarint(b, int64(h.Attempt))
		b = binary.AppendVarint(b, h.Decision)
		b = binary.AppendVarint(b, h.Epoch)
		b = appendBytes(b, h.Record)
	}
	return b
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func decodeHistory(b []byte) (rows []persistence.HistoryRow, err error) {
	d := decoder{rest: b}
	if d.byte() != ringFormat {
		return nil, errRing
	}
	for len(d.rest) > 0 && !d.bad {
		rows = append(rows, persistence.HistoryRow{
			Day: job.Day(d.varint()), JobID: string(d.bytes()), ScheduledFor: d.varint(), ExecutionID: string(d.bytes()),
			Attempt: int32(d.varint()), Decision: d.varint(), Epoch: d.varint(), Record: d.bytes(),
		})
	}
	if d.bad {
		return nil, errRing
	}
	return rows, nil
}

// decoder reads from the front; the first thing that is not there sets bad, and
// everything after it reads as zero.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) byte() byte {
	if d.bad || len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte {
	size, n := binary.Uvarint(d.rest)
	if d.bad || n <= 0 || size > uint64(len(d.rest)-n) {
		d.bad = true
		return nil
	}
	b := d.rest[n : n+int(size) : n+int(size)]
	d.rest = d.rest[n+int(size):]
	return b
}
