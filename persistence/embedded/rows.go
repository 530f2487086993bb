package embedded

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// rowReader reads rows one after another, all parts of each.
type rowReader struct {
	row       persistence.Row // the one that next has found
	partition int32           // its partition
	onlyJobs  bool            // pass over items, and over slices that hold none but these
	onlyDead  bool            // pass over the slices that hold no dead letters

	ctx   context.Context
	store *Store
	it    *pebble.Iterator
	live  bool // it stands on a key that has not been read
	stem  []byte
	seen  int
	err   error
}

func (s *Store) rows(ctx context.Context, from, to []byte) (*rowReader, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return nil, unreadable(err)
	}
	return &rowReader{ctx: ctx, store: s, it: it, live: it.First()}, nil
}

// next goes to the next row. It is false at the end and at the first error.
func (r *rowReader) next() bool {
	for r.live && r.err == nil && r.look() {
		k, ok := splitRow(r.it.Key())
		if !ok {
			r.err = errMalformed
			return false
		}
		if r.onlyJobs && r.skip(k) || r.onlyDead && r.skipToDead(k) {
			continue
		}
		if k.part != partState {
			// A spec without its state: the row was never written as a whole.
			r.err = errMalformed
			return false
		}
		return r.read(k)
	}
	return false
}

// look is false when the read has to end.
func (r *rowReader) look() bool {
	if r.seen++; r.seen%lookEvery != 0 {
		return true
	}
	if r.err = ended(r.ctx); r.err == nil {
		r.err = r.store.fault.refusal()
	}
	return r.err == nil
}

// skip jumps over what is no job's own row.
func (r *rowReader) skip(k rowKey) bool {
	switch {
	case k.slice >= job.SlicesPerKind:
		r.live = r.it.SeekGE(appendSuccessor(appendInt32([]byte{kindRow}, k.partition)))
	case len(k.item) > 0:
		jobEnd := append(append(appendSlice(nil, k.partition, k.slice), k.job...), past)
		r.live = r.it.SeekGE(jobEnd)
	default:
		return false
	}
	return true
}

// skipToDead jumps to the next slice of dead letters.
func (r *rowReader) skipToDead(k rowKey) bool {
	switch {
	case k.slice < job.DeadSliceOffset:
		r.live = r.it.SeekGE(appendSlice(nil, k.partition, job.DeadSliceOffset))
	case k.slice >= job.SideSliceOffset:
		r.live = r.it.SeekGE(appendSuccessor(appendInt32([]byte{kindRow}, k.partition)))
	default:
		return false
	}
	return true
}

// read takes the state part that the iterator stands on, and the parts that
// follow.
func (r *rowReader) read(k rowKey) bool {
	r.partition = k.partition
	id := r.row.JobID // the items of a job share its text
	if string(k.job) != id {
		id = string(k.job)
	}
	r.row = persistence.Row{Slice: k.slice, JobID: id, Item: string(k.item)}
	key := r.it.Key()
	r.stem = append(r.stem[:0], key[:len(key)-1]...)
	decode := decodeState
	for decode != nil {
		if !r.value(decode) {
			return false
		}
		if r.live = r.it.Next(); !r.live {
			break
		}
		decode = partOf(r.it.Key(), r.stem)
	}
	return true
}

// partOf is how a key's value is read when it is another part of the row.
func partOf(key, stem []byte) func([]byte, *persistence.Row) error {
	if len(key) != len(stem)+1 || !bytes.HasPrefix(key, stem) {
		return nil
	}
	switch key[len(stem)] {
	case partSpec:
		return decodeSpec
	case partLabels:
		return decodeLabels
	}
	return nil
}

func (r *rowReader) value(decode func([]byte, *persistence.Row) error) bool {
	value, err := r.it.ValueAndErr()
	if err != nil {
		r.err = unreadable(err)
		return false
	}
	r.err = decode(bytes.Clone(value), &r.row)
	return r.err == nil
}

// close ends the read and tells how it went.
func (r *rowReader) close() error {
	if err := r.it.Close(); err != nil {
		return errors.Join(r.err, unreadable(err))
	}
	return r.err
}
