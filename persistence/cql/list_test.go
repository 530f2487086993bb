package cql

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
	"github.com/belfry-scheduler/belfry/persistence/storetest"
)

// listAll reads all pages and returns the ids, and how many pages there were.
func listAll(t *testing.T, s *Store, limit int) (ids []string, pages int) {
	t.Helper()
	var at persistence.Position
	for done := false; !done; pages++ {
		var rows []persistence.Row
		var err error
		rows, at, done, err = s.List(t.Context(), at, limit)
		if err != nil || len(rows) > limit {
			t.Fatalf("a page of %d has %d rows, %v", limit, len(rows), err)
		}
		for _, r := range rows {
			ids = append(ids, r.JobID)
		}
	}
	return ids, pages
}

// scattered writes jobs into three partitions, and many items beside one of
// them. The ids are in the order of a list.
func scattered(t *testing.T, s *Store, items int) (ids []string) {
	t.Helper()
	if _, err := s.Cluster(t.Context(), storetest.Constants()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []int32{1, 2, 15} {
		c := newChain(t, s, p)
		var batch persistence.Batch
		for i := range 30 {
			id := fmt.Sprintf("p%02d-%02d", p, i)
			ids = append(ids, id)
			batch.Rows = append(batch.Rows, persistence.Row{Slice: int16(2 * i), JobID: id, Status: job.Active})
		}
		c.must("commit", c.commit(batch))
		for n := 0; n < items && p == 2; n += 250 {
			batch = persistence.Batch{}
			for i := range 250 {
				batch.Rows = append(batch.Rows, persistence.Row{Slice: 20, JobID: "p02-10", Item: persistence.SpecItem(int64(n + i))})
			}
			c.must("commit", c.commit(batch))
		}
	}
	return ids
}

// TestListPages: pages of any size hold every job once, in order; one that would
// read too many rows is cut short and goes on.
func TestListPages(t *testing.T) {
	s := setup(t).open()
	want := scattered(t, s, listRows+500)
	for _, limit := range []int{1, 7, 30, 90, 1000} {
		got, pages := listAll(t, s, limit)
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %d jobs %v", limit, len(got), got)
		}
		if limit == 1000 && pages < 2 {
			t.Errorf("%d rows were read for one page", listRows+500)
		}
	}
}

// tooManyTombstones is how the database gives a read up.
var tooManyTombstones = &frame.Error{
	Code: 0x1300, Message: "Scanned over 100001 tombstones",
	Details: []byte{0, 6, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0}, // READ_FAILURE: level, received, wanted, failures, no data
}

// TestListPastTombstones: where the database refuses to read so far, since too
// much was deleted in between, the list goes slice by slice.
func TestListPastTombstones(t *testing.T) {
	s, p := setup(t).proxied()
	want := scattered(t, s, 0)
	refusals := 0
	p.Decide(func(r cqlproxy.Request) cqlproxy.Action {
		if r.Op == frame.OpPrepare || !r.Mentions("(slice) < (64)") {
			return cqlproxy.Pass()
		}
		refusals++
		return cqlproxy.Refuse(tooManyTombstones)
	})
	for _, limit := range []int{7, 1000} {
		if got, _ := listAll(t, s, limit); !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %d jobs %v", limit, len(got), got)
		}
	}
	p.Decide(cqlproxy.PassAll)
	if refusals == 0 {
		t.Error("no read was refused")
	}
}

// TestLoadPastTombstones: as TestListPastTombstones, for a load of many slices at
// once.
func TestLoadPastTombstones(t *testing.T) {
	s, p := setup(t).proxied()
	scattered(t, s, 0)
	load := func() (all []string) {
		if err := s.Load(t.Context(), 1, 0, 64, func(r persistence.Row) error {
			all = append(all, r.JobID+"/"+r.Item)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := load()
	var refusals atomic.Int32
	p.Decide(func(r cqlproxy.Request) cqlproxy.Action {
		for from := int16(0); from < 64; from += 64 / loadRanges {
			if r.Mentions("(slice, job_id, item) > ") && r.Carries(boundRange(from, from+64/loadRanges)) {
				refusals.Add(1)
				return cqlproxy.Refuse(tooManyTombstones)
			}
		}
		return cqlproxy.Pass()
	})
	got := load()
	p.Decide(cqlproxy.PassAll)
	if len(want) == 0 || !slices.Equal(got, want) || refusals.Load() != loadRanges {
		t.Errorf("%d ranges were refused, and %v loaded, want %v", refusals.Load(), got, want)
	}
}

// boundRange is the values of a read of slices, as they are in a request: each
// behind its length.
func boundRange(from, to int16) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 2}, uint16(from))
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0) // before the first job, and its items
	return binary.BigEndian.AppendUint16(append(b, 0, 0, 0, 2), uint16(to))
}
