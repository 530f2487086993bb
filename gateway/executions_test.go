package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// summary is a line of history for an execution of job "a".
func (b *bundle) summary(id string, at time.Time, rec *belfryv1.Record) persistence.HistoryRow {
	return persistence.HistoryRow{
		Day: job.DayOf(at), JobID: "a", ScheduledFor: at.UnixMilli(), ExecutionID: id, Decision: b.owners.draw(), Epoch: 1, Record: b.owners.encode(rec),
	}
}

// addDays notes in a job's state the days that have history.
func addDays(rows []persistence.HistoryRow) func(*belfryv1.Job) {
	return func(j *belfryv1.Job) {
		for _, r := range rows {
			if !slices.Contains(j.State.Days, int32(r.Day)) {
				j.State.Days = append(j.State.Days, int32(r.Day))
			}
		}
		slices.Sort(j.State.Days)
	}
}

// succeed writes n succeeded executions, one an hour, ending at an instant.
func (b *bundle) succeed(n int, last time.Time) []string {
	var rows []persistence.HistoryRow
	var ids []string
	for i := range n {
		at := last.Add(-time.Duration(i) * time.Hour)
		id := job.ScheduledID("a", 1, at)
		ids = append(ids, id)
		rows = append(rows, b.summary(id, at, &belfryv1.Record{Status: "succeeded", Attempts: 1, Due: at.UnixMilli(), SentAt: at.UnixMilli() + 3, FinishedAt: at.UnixMilli() + 9, Trigger: "schedule", Generation: 1}))
	}
	b.owners.edit("a", addDays(rows), rows...)
	return ids
}

// pages follows a list of executions from a page on.
func (b *bundle) pages(path string) (pages [][]api.Execution) {
	for path != "" {
		r := b.do("GET", path, "").want(http.StatusOK)
		pages = append(pages, read[[]api.Execution](r))
		path = next(r)
	}
	return pages
}

func idsOf(pages ...[]api.Execution) (ids []string) {
	for _, p := range pages {
		for _, e := range p {
			ids = append(ids, e.ExecutionID)
		}
	}
	return ids
}

// C139: 100 means 100, and every row is there once, newest first.
func TestExecutionPages(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][]int{0: {0}, 1: {1}, 99: {99}, 100: {100}, 101: {100, 1}, 250: {100, 100, 50}} {
		b := setup(t)
		b.create(`"job_id":"a"`)
		ids := b.succeed(n, start)
		pages := b.pages("/v1/jobs/a/executions?limit=100")
		var sizes []int
		for _, p := range pages {
			sizes = append(sizes, len(p))
		}
		if !slices.Equal(sizes, want) || !slices.Equal(idsOf(pages...), ids) {
			t.Errorf("%d executions came in pages of %v, want %v", n, sizes, want)
		}
	}
}

// C139: three at the same instant, and 50 more that arrive while pages are read.
func TestPagesWhileMoreArrive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	old := b.succeed(60, start.Add(-time.Hour))
	at := start.Add(-30 * time.Minute)
	var same []persistence.HistoryRow
	for _, id := range []string{"a~1~m3", "a~1~m1", "a~1~m2"} {
		same = append(same, b.summary(id, at, &belfryv1.Record{Status: "succeeded", Trigger: "manual"}))
	}
	b.owners.edit("a", addDays(same), same...)
	want := append([]string{"a~1~m3", "a~1~m2", "a~1~m1"}, old...)
	var got []string
	for path := "/v1/jobs/a/executions?page_size=7"; path != ""; {
		r := b.do("GET", path, "").want(200)
		got = append(got, idsOf(read[[]api.Execution](r))...)
		path = next(r)
		b.succeed(5, start.Add(time.Duration(len(got))*24*time.Hour))
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %v\nwant %v", got, want)
	}
}

// What is in flight stands in its place, and moves to history without being
// seen twice or not at all.
func TestInFlightAndHistoryAreOneList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	b.succeed(3, start.Add(-time.Hour))
	slot := func(d time.Duration) int64 { return start.Add(d).UnixMilli() }
	b.owners.edit("a", func(j *belfryv1.Job) {
		j.State.Generation = 1
		j.State.InFlight = []*belfryv1.InFlight{
			{ScheduledFor: slot(-90 * time.Minute), Due: slot(-90 * time.Minute), Attempt: 3, RetryAt: slot(time.Minute), LastError: "connection refused", UnknownAttempts: 1},
			{ScheduledFor: slot(0), Due: slot(0), Attempt: 1, Epochs: []int64{4}},
			{ScheduledFor: slot(time.Second), Due: slot(time.Second), Attempt: 1},
			{ScheduledFor: slot(-30 * time.Minute), Due: slot(-30 * time.Minute), Attempt: 1},
			{ScheduledFor: slot(-2 * time.Hour), Due: slot(-2 * time.Hour), Attempt: 1, Epochs: []int64{4}}, // decided: history has it
		}
	})
	running := job.ScheduledID("a", 1, start)
	b.owners.running = []*belfryv1.Description_Running{{ExecutionId: running, Attempt: 1, SentAt: slot(2 * time.Millisecond)}}
	b.owners.waiting = "the worker is full"
	got := read[[]api.Execution](b.do("GET", "/v1/jobs/a/executions", "").want(200))
	var lines []string
	for _, e := range got {
		lines = append(lines, fmt.Sprintf("%s %s %d %s", e.ScheduledFor.Format("15:04:05"), e.Status, e.AttemptCount, e.Reason+e.Error))
	}
	want := []string{
		"12:00:01 pending 0 ", "12:00:00 running 1 ", "11:30:00 pending 0 the worker is full", "11:00:00 succeeded 1 ",
		"10:30:00 retrying 2 connection refused", "10:00:00 succeeded 1 ", "09:00:00 succeeded 1 ",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q\nwant %q", lines, want)
	}
	for i := range got {
		if got[i].AsOf != nil {
			t.Errorf("%s says as_of although the owner answered", got[i].ExecutionID)
		}
	}
	if paged := idsOf(b.pages("/v1/jobs/a/executions?limit=1")...); !slices.Equal(paged, idsOf(got)) {
		t.Errorf("one by one it is %v\nat once %v", paged, idsOf(got))
	}
	d := read[api.ExecutionDetail](b.do("GET", "/v1/executions/"+running, "").want(200))
	if d.Status != "running" || len(d.Attempts) != 1 || d.Attempts[0].Outcome != "running" || d.Attempts[0].SentAt == nil {
		t.Errorf("detail %+v", d)
	}
}

func TestOwnerThatDoesNotSayWhatRuns(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Limits.Describe = time.Millisecond })
	b.create(`"job_id":"a"`)
	b.do("POST", "/v1/jobs/a/trigger", "").want(202)
	b.owners.before = func(proto.Message) error { return job.ErrNoOwner }
	got := read[[]api.Execution](b.do("GET", "/v1/jobs/a/executions", "").want(200))
	if len(got) != 1 || got[0].AsOf == nil || got[0].Status != "pending" {
		t.Errorf("got %+v", got)
	}
}

// Slots of one fate are one element; while it is not written it is shown from
// the row, and a paused job's grows with the clock.
func TestRanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"0 * * * *","target":"https://example.com"}`).want(201)
	b.succeed(2, start)
	b.do("POST", "/v1/jobs/a/pause", "").want(200)
	list := func() []api.Execution {
		return read[[]api.Execution](b.do("GET", "/v1/jobs/a/executions", "").want(200))
	}
	if n := len(list()); n != 2 {
		t.Fatalf("%d elements", n)
	}
	b.advance(time.Hour)
	if e := list()[0]; e.Range != nil || e.Status != "skipped" || e.Reason != "paused" || !e.ScheduledFor.Equal(start.Add(time.Hour)) {
		t.Errorf("one slot: %+v", e)
	}
	b.advance(49*time.Hour + 30*time.Minute)
	e := list()[0]
	if len(list()) != 3 || e.Range == nil || e.Range.Count != 50 || !e.Range.First.Equal(start.Add(time.Hour)) || !e.Range.Last.Equal(start.Add(50*time.Hour)) || !e.ScheduledFor.Equal(e.Range.Last) {
		t.Errorf("50 slots: %+v", e)
	}
	if d := read[api.ExecutionDetail](b.do("GET", "/v1/executions/"+e.ExecutionID, "").want(200)); d.Range == nil || d.Status != "skipped" {
		t.Errorf("the range alone: %+v", d)
	}
	row := b.summary(e.ExecutionID, e.ScheduledFor, &belfryv1.Record{Status: "skipped", Reason: "paused", Range: &belfryv1.SlotRange{First: e.Range.First.UnixMilli(), Last: e.Range.Last.UnixMilli(), Count: 50}})
	b.owners.edit("a", addDays([]persistence.HistoryRow{row}), row)
	if again := list(); len(again) != 3 || again[0].Range.Count != 50 {
		t.Errorf("a range that is written and still in the row is shown as %+v", again)
	}
}

// A page that is asked for later shows slots that are counted by the clock
// where they stood when the first page was read.
func TestARangeKeepsItsPlaceBetweenPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"0 * * * *","target":"https://example.com"}`).want(201)
	b.succeed(3, start.Add(-time.Hour))
	b.do("POST", "/v1/jobs/a/pause", "").want(200)
	b.advance(3 * time.Hour)
	b.do("POST", "/v1/jobs/a/trigger", "").want(202)
	r := b.do("GET", "/v1/jobs/a/executions?limit=1", "").want(200)
	got := idsOf(read[[]api.Execution](r))
	b.advance(24 * time.Hour)
	pages := b.pages(next(r))
	got = append(got, idsOf(pages...)...)
	if len(got) != 5 || pages[0][0].Range.Count != 3 {
		t.Errorf("read %v", got)
	}
}

func TestCatchUpThatWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"0 * * * *","target":"https://example.com"}`).want(201)
	b.owners.edit("a", func(j *belfryv1.Job) {
		j.State.CatchUp = []*belfryv1.CatchUpRun{{Next: start.Add(-5 * time.Hour).UnixMilli(), To: start.Add(-time.Hour).UnixMilli()}}
		j.State.OpenRange = &belfryv1.SlotRange{First: start.Add(-30 * time.Hour).UnixMilli(), Last: start.Add(-6 * time.Hour).UnixMilli(), Count: 25, Status: "missed", Reason: "catch_up"}
	})
	got := read[[]api.Execution](b.do("GET", "/v1/jobs/a/executions", "").want(200))
	if len(got) != 2 || got[0].Range.Count != 5 || got[0].Status != "pending" || got[1].Range.Count != 25 || got[1].Status != "missed" {
		t.Errorf("got %+v", got)
	}
}

func TestExecutionWithAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	id := job.ScheduledID("a", 1, start)
	ms := start.UnixMilli()
	rows := []persistence.HistoryRow{b.summary(id, start, &belfryv1.Record{Status: "failed", Reason: "attempts exhausted", Attempts: 2, Due: ms, SentAt: ms + 5, FinishedAt: ms + 3000})}
	for i, out := range []string{"timeout", "failed"} {
		row := b.summary(id, start, &belfryv1.Record{Status: out, Due: ms, SentAt: ms + 5, FinishedAt: ms + 900, StatusCode: 500, Error: "boom", Node: "n1", Output: "<html>"})
		row.Attempt = int32(i + 1)
		rows = append(rows, row)
	}
	b.owners.edit("a", addDays(rows), rows...)
	d := read[api.ExecutionDetail](b.do("GET", "/v1/executions/"+id, "").want(200))
	if d.Status != "failed" || *d.LatenessMS != 5 || len(d.Attempts) != 2 || d.Attempts[0].Outcome != "timeout" || d.Attempts[1].StatusCode != 500 || d.Attempts[1].Epoch != 1 || d.Attempts[1].Output != "<html>" {
		t.Errorf("detail %+v", d)
	}
	b.do("DELETE", "/v1/jobs/a", "").want(204)
	b.do("GET", "/v1/executions/"+id, "").want(200)
	b.do("GET", "/v1/executions/"+job.ScheduledID("a", 1, start.Add(time.Hour)), "").problem(api.CodeNoExecution)
	b.do("GET", "/v1/executions/"+job.ScheduledID("none", 1, start), "").problem(api.CodeJobNotFound)
	b.do("GET", "/v1/executions/a~1~20260101T000000Z", "").refused("path.id")
}

func TestPageParametersThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(`"job_id":"a"`)
	b.create(`"job_id":"b"`)
	b.succeed(3, start)
	token := b.do("GET", "/v1/jobs/a/executions?limit=1", "").want(200)
	path := next(token)
	for _, base := range []string{"/v1/jobs/a/executions", "/v1/jobs"} {
		for query, location := range map[string]string{
			"page_size=0": "query.page_size", "page_size=-1": "query.page_size", "limit=1000000000": "query.limit", "limit=501": "query.limit",
			"page_size=x": "query.page_size", "page_size=": "query.page_size", "page_size=1&limit=1": "query.limit", "page_size=1&page_size=2": "query.page_size",
			"page_token=": "query.page_token", "page_token=AAAA": "query.page_token", "page_token=%ff": "query.page_token", "colour=red": "query.colour",
			"a=%zz": "query", "a;b": "query",
		} {
			b.do("GET", base+"?"+query, "").refused(location)
		}
	}
	b.do("GET", path[:len(path)-3]+"AAA", "").refused("query.page_token")
	_, query, _ := cutPath(path)
	b.do("GET", "/v1/jobs/b/executions?"+query, "").refused("query.page_token")
	b.do("GET", "/v1/jobs?"+query, "").refused("query.page_token")
}
