package embedded

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// format is the first byte of every value.
const format = 1

// hasState is a flag of a state value: a state follows, if only an empty one.
const hasState = 1 << 0

var errMalformed = errors.New("a stored value is malformed, or was written by a newer version of Belfry")

// decoder reads a value from the front; the first thing that is not there sets
// bad, and everything after it reads as zero.
type decoder struct {
	rest []byte
	bad  bool
}

func decode(value []byte) *decoder {
	d := &decoder{rest: value}
	if d.byte() != format {
		d.bad = true
	}
	return d
}

func (d *decoder) bytes(n int) []byte {
	if d.bad || n < 0 || n > len(d.rest) {
		d.bad = true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) text() []byte { return d.bytes(int(d.uvarint())) }

func (d *decoder) uuid() (u uuid.UUID) {
	copy(u[:], d.bytes(len(u)))
	return u
}

func (d *decoder) err() error {
	if d.bad {
		return errMalformed
	}
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendState is the value of a row's state part. state is not always r's own:
// a nil State keeps the stored one.
func appendState(b []byte, r *persistence.Row, state []byte) []byte {
	flags := byte(0)
	if state != nil {
		flags = hasState
	}
	b = append(b, format, flags)
	b = binary.AppendVarint(b, r.Revision)
	b = binary.AppendVarint(b, r.NextRun)
	b = appendString(b, string(r.Status))
	return append(b, state...)
}

// decodeState fills a row; its State points into value.
func decodeState(value []byte, r *persistence.Row) error {
	d := decode(value)
	flags := d.byte()
	r.Revision = d.varint()
	r.NextRun = d.varint()
	r.Status = status(d.text())
	r.State = nil
	if flags&hasState != 0 {
		r.State = d.rest[:len(d.rest):len(d.rest)]
	}
	return d.err()
}

// status saves an allocation for each of the known ones.
func status(b []byte) job.Status {
	switch s := job.Status(b); s {
	case job.Active:
		return job.Active
	case job.Paused:
		return job.Paused
	case job.Finished:
		return job.Finished
	case job.Deleted:
		return job.Deleted
	default:
		return s
	}
}

// appendSpec is the value of a row's spec part.
func appendSpec(b []byte, spec []byte) []byte { return append(append(b, format), spec...) }

// decodeSpec fills a row; its Spec points into value.
func decodeSpec(value []byte, r *persistence.Row) error {
	d := decode(value)
	r.Spec = d.rest
	return d.err()
}

// appendLabels is the value of a row's labels part.
func appendLabels(b []byte, labels map[string]string) []byte {
	b = binary.AppendUvarint(append(b, format), uint64(len(labels)))
	for k, v := range labels {
		b = appendString(appendString(b, k), v)
	}
	return b
}

// decodeLabels fills a row.
func decodeLabels(value []byte, r *persistence.Row) error {
	d := decode(value)
	n := d.uvarint()
	if d.bad || n > uint64(len(d.rest)) {
		return errMalformed
	}
	if n == 0 {
		return nil
	}
	r.Labels = make(map[string]string, n)
	for range n {
		k := string(d.text())
		r.Labels[k] = string(d.text())
	}
	return d.err()
}

func appendFence(b []byte, f *persistence.Fence) []byte {
	b = append(b, format)
	b = binary.AppendVarint(b, f.Epoch)
	b = binary.AppendVarint(b, f.Seq)
	b = binary.AppendVarint(b, f.LastNumber)
	b = append(b, f.OpID[:]...)
	b = append(b, f.Incarnation[:]...)
	return append(b, f.Owner...)
}

func decodeFence(value []byte, partition int32) (persistence.Fence, error) {
	d := decode(value)
	f := persistence.Fence{Partition: partition, Epoch: d.varint(), Seq: d.varint(), LastNumber: d.varint()}
	f.OpID, f.Incarnation = d.uuid(), d.uuid()
	f.Owner = string(d.rest)
	return f, d.err()
}

func appendHistory(b []byte, h *persistence.HistoryRow) []byte {
	return append(binary.AppendVarint(append(b, format), h.Epoch), h.Record...)
}

// decodeHistory fills a history row; its Record is a copy.
func decodeHistory(value []byte, h *persistence.HistoryRow) error {
	d := decode(value)
	h.Epoch = d.varint()
	h.Record = slices.Clone(d.rest)
	return d.err()
}

func appendCluster(b []byte, c *persistence.Cluster) []byte {
	b = append(append(b, format), c.ID[:]...)
	b = binary.AppendVarint(b, int64(c.Partitions))
	b = binary.AppendVarint(b, int64(c.Format))
	return append(b, c.Hash...)
}

func decodeCluster(value []byte) (persistence.Cluster, error) {
	d := decode(value)
	c := persistence.Cluster{ID: d.uuid(), Partitions: int(d.varint()), Format: int(d.varint())}
	c.Hash = string(d.rest)
	return c, d.err()
}
