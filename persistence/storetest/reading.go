package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

var reading = []behaviour{
	{"get finds a row or says that there is none", getRows},
	{"load reads slice by slice in order", loadOrder},
	{"load reads the slices it is asked for", loadBounds},
	{"load ends with the error of its callback", loadStops},
	{"load leaves each row to the callee", loadKeeps},
	{"ids that look alike are different jobs", trickyNames},
}

func getRows(b *bundle) {
	row := b.row(9, "x", 1)
	b.absent(row)
	b.commit(row)
	b.stored(row)
	elsewhere := row
	elsewhere.Slice++
	b.absent(elsewhere)
	item := row
	item.Item = persistence.CommandItem("c1")
	b.absent(item)
	_, err := b.store.Get(b.ctx, (b.held.Partition+1)%Partitions, row.Slice, row.JobID, "")
	if !errors.Is(err, job.ErrNotFound) {
		b.Fatalf("get from another partition: got error %v, want ErrNotFound", err)
	}
}

// mixed writes rows of every kind in no order and returns them in order.
func (b *bundle) mixed() []persistence.Row {
	var rows []persistence.Row
	for _, slice := range []int16{63, 0, 31} {
		for i := range 5 {
			rows = append(rows, b.row(slice, fmt.Sprintf("j%d", i*7%5), i))
		}
		spec := b.row(slice, "j1", 9)
		spec.Item, spec.State, spec.Labels = persistence.SpecItem(9), nil, nil
		rows = append(rows, spec)
	}
	for i := range 3 {
		dead, cmd := b.row(job.DeadSliceOffset+int16(i), "j1", i), b.row(job.SideSliceOffset, "j1", i)
		dead.Item, cmd.Item = persistence.DeadItem(fmt.Sprintf("e~%d", i)), persistence.CommandItem(fmt.Sprint(i))
		rows = append(rows, cmd, dead)
	}
	b.commit(rows...)
	slices.SortFunc(rows, compareRows)
	return rows
}

func compareRows(x, y persistence.Row) int {
	if x.Slice != y.Slice {
		return int(x.Slice) - int(y.Slice)
	}
	if c := strings.Compare(x.JobID, y.JobID); c != 0 {
		return c
	}
	return strings.Compare(x.Item, y.Item)
}

func (b *bundle) sameRows(got, want []persistence.Row) {
	b.Helper()
	same(b, "rows", len(got), len(want))
	for i := range got {
		b.sameRow(got[i], want[i])
	}
}

func loadOrder(b *bundle) {
	rows := b.mixed()
	b.sameRows(b.load(0, 192), rows)
	var piecewise []persistence.Row
	for from := int16(0); from < 192; from++ {
		piecewise = append(piecewise, b.load(from, from+1)...)
	}
	b.sameRows(piecewise, rows)
}

func loadBounds(b *bundle) {
	rows := b.mixed()
	within := func(from, to int16) []persistence.Row {
		return slices.DeleteFunc(slices.Clone(rows), func(r persistence.Row) bool { return r.Slice < from || r.Slice >= to })
	}
	for _, r := range [][2]int16{{0, 64}, {64, 128}, {128, 192}, {31, 32}, {32, 63}, {0, 0}, {5, 2}} {
		b.sameRows(b.load(r[0], r[1]), within(r[0], r[1]))
	}
}

func loadStops(b *bundle) {
	b.mixed()
	enough := errors.New("enough")
	n := 0
	err := b.store.Load(b.ctx, b.held.Partition, 0, 192, func(persistence.Row) error {
		n++
		if n == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 3 {
		b.Fatalf("load: got error %v after %d rows, want the callback's after 3", err, n)
	}
}

func loadKeeps(b *bundle) {
	rows := b.mixed()
	got := b.load(0, 192)
	for i := range got { // scribble over every other one
		if i%2 == 0 {
			for _, blob := range [][]byte{got[i].Spec, got[i].State} {
				for j := range blob {
					blob[j] = '#'
				}
			}
		}
	}
	for i := range got {
		if i%2 == 1 {
			b.sameRow(got[i], rows[i])
		}
	}
	b.sameRows(b.load(0, 192), rows)
}

func trickyNames(b *bundle) {
	names := []string{
		"", "a", "A", "a.b", "a.B", "ab", "a-b", "a_b", "a.", "a-", "a_", "a..", "aa", "a0", "a9", "a.b.c", "Ab", "z", "Z",
		"/sys", "/sys/x", "a/b", "ä", "a~1~20260101T000000.000Z", strings.Repeat("x", 90),
	}
	var rows []persistence.Row
	for i, name := range names {
		rows = append(rows, b.row(11, name, i))
		item := b.row(11, "a", 100+i)
		item.Item = "out/" + name
		rows = append(rows, item)
	}
	b.commit(rows...)
	for _, r := range rows {
		b.stored(r)
	}
	slices.SortFunc(rows, compareRows)
	b.sameRows(b.load(11, 12), rows)
	b.commit(persistence.Row{Slice: 11, JobID: b.id("a"), Delete: true})
	rows = slices.DeleteFunc(rows, func(r persistence.Row) bool { return r.JobID == b.id("a") && r.Item == "" })
	b.sameRows(b.load(11, 12), rows)
}
