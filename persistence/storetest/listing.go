package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

var listing = []behaviour{
	{"list pages through all partitions in order", listAll},
	{"list shows every old job once while new ones arrive", listStable},
	{"list shows jobs and nothing else", listJobsOnly},
	{"dead letters page through all partitions in order, and are all that is shown", listDead},
}

// placed is a row and where it was listed.
type placed struct {
	persistence.Position
	row persistence.Row
}

func comparePositions(x, y persistence.Position) int {
	if x.Partition != y.Partition {
		return int(x.Partition - y.Partition)
	}
	if x.Slice != y.Slice {
		return int(x.Slice - y.Slice)
	}
	return strings.Compare(x.JobID, y.JobID)
}

// list reads all pages and returns this case's rows. between is called after
// each page. A row's partition is not part of a row: it follows from next,
// which is checked row by row with pages of one.
func (b *bundle) list(limit int, between func()) (rows []persistence.Row) {
	b.Helper()
	var at persistence.Position
	for {
		page, next, done, err := b.store.List(b.ctx, at, limit)
		b.must("list", err)
		if len(page) > limit {
			b.Fatalf("a page of %d has %d rows", limit, len(page))
		}
		for _, r := range page {
			if strings.HasPrefix(r.JobID, b.run) {
				rows = append(rows, r)
			}
		}
		if done {
			return rows
		}
		if comparePositions(next, at) <= 0 {
			b.Fatalf("the page after %v ends at %v", at, next)
		}
		at = next
		between()
	}
}

// spread makes jobs in several partitions and returns them in order.
func (b *bundle) spread(partitions []int32, each int) (all []placed) {
	for _, p := range partitions {
		b.take(p)
		var rows []persistence.Row
		for i := range each {
			row := b.row(int16(i*17%64), fmt.Sprintf("p%d-%d", p, i), i)
			rows = append(rows, row)
			all = append(all, placed{persistence.Position{Partition: p, Slice: row.Slice, JobID: row.JobID}, row})
		}
		b.commit(rows...)
	}
	slices.SortFunc(all, func(x, y placed) int { return comparePositions(x.Position, y.Position) })
	return all
}

func listAll(b *bundle) {
	want := b.spread([]int32{0, 7, 15}, 40)
	for _, limit := range []int{1, 9, 40, 1000} {
		got := b.list(limit, func() {})
		same(b, "jobs", len(got), len(want))
		for i := range got {
			b.sameRow(got[i], want[i].row)
		}
	}
	rows, _, done, err := b.store.List(b.ctx, persistence.Position{}, 0)
	b.must("list nothing", err)
	same(b, "rows of an empty page", len(rows), 0)
	same(b, "done", done, false)
	last := persistence.Position{Partition: Partitions, Slice: 63, JobID: "~"}
	rows, _, done, err = b.store.List(b.ctx, last, 10)
	b.must("list after everything", err)
	same(b, "rows after everything", len(rows), 0)
	same(b, "done", done, true)
}

func listStable(b *bundle) {
	want := b.spread([]int32{2, 3, 4}, 50)
	n := 0
	got := b.list(7, func() {
		if n++; n <= 40 {
			b.commit(b.row(int16(n*29%64), fmt.Sprintf("new-%s", uuid.NewString()), n))
		}
	})
	seen := map[string]int{}
	for _, r := range got {
		seen[r.JobID]++
	}
	for _, w := range want {
		same(b, "times that "+w.JobID+" was listed", seen[w.JobID], 1)
	}
	for id, n := range seen {
		same(b, "times that "+id+" was listed", n, 1)
	}
}

func listJobsOnly(b *bundle) {
	row := b.row(20, "x", 1)
	rows := []persistence.Row{row}
	for i := range 30 {
		spec, dead, cmd := b.row(20, "x", i), b.row(job.DeadSliceOffset+20, "x", i), b.row(job.SideSliceOffset+20, "x", i)
		spec.Item = persistence.SpecItem(int64(i))
		dead.Item = persistence.DeadItem(fmt.Sprint(i))
		cmd.Item = persistence.CommandItem(fmt.Sprint(i))
		rows = append(rows, spec, dead, cmd)
	}
	after := b.row(21, "y", 1)
	b.commit(append(rows, after)...)
	b.sameRows(b.list(1000, func() {}), []persistence.Row{row, after})
}

// listDead: several of a job, jobs and other items between, pages of any size.
func listDead(b *bundle) {
	var want []placed
	for _, p := range []int32{1, 8, 15} {
		b.take(p)
		var rows []persistence.Row
		for i := range 12 {
			slice, id := int16(i*17%64), fmt.Sprintf("d%d-%d", p, i)
			side := b.row(job.SideSliceOffset+slice, id, i)
			side.Item = persistence.CommandItem(fmt.Sprint(i))
			rows = append(rows, b.row(slice, id, i), side)
			for n := range 3 {
				dead := b.row(job.DeadSliceOffset+slice, id, i)
				dead.Item = persistence.DeadItem(fmt.Sprintf("%s~1~%d", dead.JobID, n))
				rows = append(rows, dead)
				want = append(want, placed{persistence.Position{Partition: p, Slice: dead.Slice, JobID: dead.JobID, Item: dead.Item}, dead})
			}
		}
		b.commit(rows...)
	}
	slices.SortFunc(want, func(x, y placed) int {
		return cmp.Or(comparePositions(x.Position, y.Position), strings.Compare(x.Item, y.Item))
	})
	for _, limit := range []int{1, 7, 1000} {
		var got []persistence.Row
		var at persistence.Position
		for done := false; !done; {
			page, next, end, err := b.store.Dead(b.ctx, at, limit)
			b.must("list dead letters", err)
			for _, r := range page {
				if strings.HasPrefix(r.JobID, b.run) {
					got = append(got, r)
				}
			}
			at, done = next, end
		}
		same(b, "dead letters", len(got), len(want))
		for i := range got {
			b.sameRow(got[i], want[i].row)
		}
	}
}
