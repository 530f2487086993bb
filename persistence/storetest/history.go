package storetest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

var histories = []behaviour{
	{"executions come newest first, page by page", historyPages},
	{"pages are stable while new executions arrive", historyStable},
	{"a day's history is that of one job and one day", historyApart},
	{"of several decisions the highest counts", historyDecisions},
	{"each epoch's sending has its row", historyEpochs},
	{"attempts come in order with the summary first", historyAttempts},
	{"history survives the end of its job", historyOutlives},
	{"expire leaves the days that are kept", historyExpire},
}

// today is the day that histories are written on.
const today = job.Day(20_500)

// midnight is its first instant in milliseconds.
var midnight = today.Time().UnixMilli()

// summary is a history row at an offset in ms from midnight.
func (b *bundle) summary(jobID string, at int64, execution string, decision int64) persistence.HistoryRow {
	return persistence.HistoryRow{
		Day: today, JobID: jobID, ScheduledFor: midnight + at, ExecutionID: execution,
		Decision: decision, Epoch: b.held.Epoch, Record: fmt.Appendf(nil, "%s %d", execution, decision),
	}
}

func (b *bundle) executions(jobID string, before *persistence.Cursor, limit int) []persistence.HistoryRow {
	b.Helper()
	rows, err := b.store.Executions(b.ctx, b.held.Partition, today, jobID, before, limit)
	b.must("executions", err)
	return rows
}

func (b *bundle) attempts(h persistence.HistoryRow) []persistence.HistoryRow {
	b.Helper()
	rows, err := b.store.Attempts(b.ctx, b.held.Partition, h.Day, h.JobID, h.ScheduledFor, h.ExecutionID)
	b.must("attempts", err)
	return rows
}

func sameHistory(b *bundle, got, want persistence.HistoryRow) {
	b.Helper()
	if !bytes.Equal(got.Record, want.Record) {
		b.Fatalf("record: got %q, want %q", got.Record, want.Record)
	}
	line := func(h persistence.HistoryRow) string {
		return fmt.Sprint(h.Day, h.JobID, h.ScheduledFor, h.ExecutionID, h.Attempt, h.Decision, h.Epoch)
	}
	same(b, "history row", line(got), line(want))
}

func sameHistories(b *bundle, got, want []persistence.HistoryRow) {
	b.Helper()
	same(b, "history rows", len(got), len(want))
	for i := range got {
		sameHistory(b, got[i], want[i])
	}
}

// record writes history in batches of a hundred rows.
func (b *bundle) record(rows []persistence.HistoryRow) {
	b.Helper()
	for part := range slices.Chunk(rows, 100) {
		b.write(persistence.Batch{History: part})
	}
}

func newestFirst(x, y persistence.HistoryRow) int {
	if x.ScheduledFor != y.ScheduledFor {
		return int(y.ScheduledFor - x.ScheduledFor)
	}
	return bytes.Compare([]byte(y.ExecutionID), []byte(x.ExecutionID))
}

// some makes n executions of a job, three of them at one instant, each with
// two attempts that must not count as executions; newest first.
func (b *bundle) some(jobID string, n int) (summaries []persistence.HistoryRow) {
	var all []persistence.HistoryRow
	for i := range n {
		at := int64(i) * 1000
		if i >= 40 && i < 43 {
			at = 40_000
		}
		s := b.summary(jobID, at, fmt.Sprintf("%s~%d", jobID, i), 1)
		summaries = append(summaries, s)
		all = append(all, s)
		for a := range int32(2) {
			s.Attempt = a + 1
			all = append(all, s)
		}
	}
	b.record(all)
	slices.SortFunc(summaries, newestFirst)
	return summaries
}

// pages reads all executions, in pages, and calls between after each.
func (b *bundle) pages(jobID string, limit int, between func()) (all []persistence.HistoryRow) {
	b.Helper()
	var before *persistence.Cursor
	for {
		page := b.executions(jobID, before, limit)
		if len(page) > limit {
			b.Fatalf("a page of %d has %d rows", limit, len(page))
		}
		all = append(all, page...)
		if len(page) < limit {
			return all
		}
		last := page[len(page)-1]
		if before != nil && newestFirst(last, persistence.HistoryRow{ScheduledFor: before.ScheduledFor, ExecutionID: before.ExecutionID}) <= 0 {
			b.Fatalf("the page before %v ends at %d %s", *before, last.ScheduledFor, last.ExecutionID)
		}
		before = &persistence.Cursor{ScheduledFor: last.ScheduledFor, ExecutionID: last.ExecutionID}
		between()
	}
}

func historyPages(b *bundle) {
	for _, n := range []int{100, 101} {
		id := b.id(fmt.Sprint(n))
		want := b.some(id, n)
		sameHistories(b, b.executions(id, nil, 100), want[:100])
		for _, limit := range []int{100, 50, 7, 1} {
			sameHistories(b, b.pages(id, limit, func() {}), want)
		}
		oldest := want[n-1]
		rest := b.executions(id, &persistence.Cursor{ScheduledFor: oldest.ScheduledFor, ExecutionID: oldest.ExecutionID}, 100)
		same(b, "executions before the oldest", len(rest), 0)
	}
	same(b, "executions of nobody", len(b.executions(b.id("nobody"), nil, 100)), 0)
	same(b, "executions of a page of none", len(b.executions(b.id("100"), nil, 0)), 0)
}

func historyStable(b *bundle) {
	id := b.id("x")
	want := b.some(id, 101)
	n := int64(0)
	got := b.pages(id, 10, func() {
		for range 5 {
			n++ // some newer than everything, some among the pages already read
			b.record([]persistence.HistoryRow{b.summary(id, 101_000+n, fmt.Sprintf("new%d", n), 1)})
		}
	})
	sameHistories(b, got, want)
}

func historyApart(b *bundle) {
	mine := b.summary(b.id("a"), 5, "e", 1)
	before, after, twin, prefix := mine, mine, mine, mine
	before.Day, before.ScheduledFor = today-1, midnight-1
	after.Day, after.ScheduledFor = today+1, midnight+24*60*60*1000
	twin.JobID, prefix.JobID = b.id("A"), b.id("a.b")
	b.record([]persistence.HistoryRow{prefix, twin, after, mine, before})
	sameHistories(b, b.executions(mine.JobID, nil, 10), []persistence.HistoryRow{mine})
	sameHistories(b, b.executions(prefix.JobID, nil, 10), []persistence.HistoryRow{prefix})
	for _, h := range []persistence.HistoryRow{before, after} {
		rows, err := b.store.Executions(b.ctx, b.held.Partition, h.Day, h.JobID, nil, 10)
		b.must("executions", err)
		sameHistories(b, rows, []persistence.HistoryRow{h})
	}
}

func historyDecisions(b *bundle) {
	id := b.id("x")
	var rows []persistence.HistoryRow
	for _, decision := range []int64{2, 9, 10, 3} { // also a late copy of an older one
		for at := range int64(3) {
			rows = append(rows, b.summary(id, at, fmt.Sprint("e", at), decision))
		}
	}
	b.record(rows)
	want := []persistence.HistoryRow{b.summary(id, 2, "e2", 10), b.summary(id, 1, "e1", 10), b.summary(id, 0, "e0", 10)}
	sameHistories(b, b.executions(id, nil, 10), want)
	sameHistories(b, b.pages(id, 1, func() {}), want)
	sameHistories(b, b.attempts(want[0]), want[:1])
	b.record(rows[:3]) // the same bytes again
	sameHistories(b, b.executions(id, nil, 10), want)
}

func historyAttempts(b *bundle) {
	id := b.id("x")
	var want, rows []persistence.HistoryRow
	for a := range int32(12) {
		h := b.summary(id, 7, "e", int64(20-a))
		h.Attempt = a
		old := h
		old.Decision, old.Record = 1, []byte("old")
		want = append(want, h)
		rows = append(rows, h, old)
	}
	other, before := b.summary(id, 7, "e2", 1), b.summary(id, 7, "d", 1)
	other.Attempt = 1
	slices.Reverse(rows)
	b.record(append(rows, other, before))
	sameHistories(b, b.attempts(want[0]), want)
	sameHistories(b, b.attempts(other), []persistence.HistoryRow{other})
	same(b, "attempts of nothing", len(b.attempts(b.summary(id, 8, "e", 1))), 0)
}

// historyEpochs: an attempt that two owners may have sent has a row for each; of
// each the newest decision counts, and a summary is one whoever wrote it.
func historyEpochs(b *bundle) {
	id := b.id("x")
	row := func(attempt int32, epoch, decision int64) persistence.HistoryRow {
		h := b.summary(id, 7, "e", decision)
		h.Attempt, h.Epoch = attempt, epoch
		return h
	}
	summary, lost, sent := row(0, 9, 12), row(1, 3, 10), row(1, 9, 11)
	b.record([]persistence.HistoryRow{row(0, 3, 2), row(1, 3, 1), lost, sent, summary, row(1, 9, 4)})
	sameHistories(b, b.attempts(summary), []persistence.HistoryRow{summary, sent, lost})
	sameHistories(b, b.executions(id, nil, 10), []persistence.HistoryRow{summary})
}

func historyOutlives(b *bundle) {
	row := b.row(1, "x", 1)
	h := b.summary(row.JobID, 1, "e", 1)
	b.write(persistence.Batch{Rows: []persistence.Row{row}, History: []persistence.HistoryRow{h}})
	b.commit(persistence.Row{Slice: 1, JobID: row.JobID, Delete: true})
	sameHistories(b, b.executions(row.JobID, nil, 10), []persistence.HistoryRow{h})
}

func historyExpire(b *bundle) {
	row := b.row(1, "x", 1)
	kept, old := b.summary(row.JobID, 1, "kept", 1), b.summary(row.JobID, 0, "old", 1)
	old.Day, old.ScheduledFor = today-1, midnight-1
	b.write(persistence.Batch{Rows: []persistence.Row{row}, History: []persistence.HistoryRow{kept, old}})
	for range 2 {
		b.must("expire", b.store.Expire(b.ctx, b.held.Partition, today))
		sameHistories(b, b.attempts(kept), []persistence.HistoryRow{kept})
		b.stored(row)
		same(b, "fence", b.read(b.held.Partition), b.held)
	}
	if n := len(b.attempts(old)); n > 1 {
		b.Fatalf("an expired row is there %d times", n)
	}
	b.record([]persistence.HistoryRow{old}) // a late copy is no error
}
