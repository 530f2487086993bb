package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

func (b *bundle) explain(at string) api.Explanation {
	b.t.Helper()
	path := "/v1/jobs/a/explain"
	if at != "" {
		path += "?at=" + at
	}
	return read[api.Explanation](b.do("GET", path, "").want(200))
}

func TestExplain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"0 * * * *","target":"https://example.com"}`).want(201)
	if e := b.explain(""); e.Verdict != "not_due" || !e.At.Equal(start) || !strings.Contains(e.Reason, "2026-03-01T13:00:00Z") || len(e.Executions) != 0 {
		t.Errorf("now: %+v", e)
	}
	if e := b.explain("2026-03-01T15:00:00%2B01:00"); e.Verdict != "not_due" || !e.PreviousSlot.Equal(start.Add(time.Hour)) || !e.NextSlot.Equal(start.Add(3*time.Hour)) {
		t.Errorf("ahead: %+v", e)
	}
	if e := b.explain("2026-03-01T11:00:00Z"); e.Verdict != "before_registration" {
		t.Errorf("before: %+v", e)
	}
	b.do("POST", "/v1/jobs/a/pause", `{"reason":"audit"}`).want(200)
	b.advance(2*time.Hour + time.Minute)
	if e := b.explain(""); e.Verdict != "paused" || !strings.Contains(e.Reason, "audit") {
		t.Errorf("paused: %+v", e)
	}
	if e := b.explain("2026-03-01T13:00:00Z"); e.Verdict != "skipped" || len(e.Executions) != 1 || e.Executions[0].Range.Count != 2 {
		t.Errorf("in the pause: %+v", e)
	}
	if e := b.explain("2026-03-01T13:00:01Z"); e.Verdict != "not_scheduled" {
		t.Errorf("between two slots of the pause: %+v", e)
	}
	b.do("DELETE", "/v1/jobs/a", "").want(204)
	if e := b.explain("2026-03-01T15:00:00Z"); e.Verdict != "deleted" {
		t.Errorf("deleted: %+v", e)
	}
	b.do("GET", "/v1/jobs/a/explain?at=yesterday", "").refused("query.at")
	b.do("GET", "/v1/jobs/a/explain?when=now", "").refused("query.when")
	b.do("GET", "/v1/jobs/none/explain", "").problem(api.CodeJobNotFound)
}

// A run of slots has its record under the last of them, days later, behind much
// else.
// TestExplainNow: instants are whole milliseconds, as everywhere.
func TestExplainNow(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		now := c.Now
		c.Now = func() time.Time { return now().Add(123456 * time.Nanosecond) }
	})
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"0 * * * *","target":"https://example.com"}`).want(201)
	if e := b.explain(""); !e.At.Equal(start) {
		t.Errorf("now is %v", e.At)
	}
}

func TestExplainFindsTheRunOfSlots(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"* * * * *","target":"https://example.com"}`).want(201)
	first, last := start.Add(time.Minute), start.Add(49*time.Hour)
	var rows []persistence.HistoryRow
	add := func(id string, at time.Time, r *belfryv1.Record) { rows = append(rows, b.summary(id, at, r)) }
	add(job.ScheduledID("a", 1, last), last, &belfryv1.Record{Status: "missed", Reason: "outage", Range: &belfryv1.SlotRange{First: first.UnixMilli(), Last: last.UnixMilli(), Count: 49*60 - 1}})
	for i := range 500 { // by hand, in the meantime
		at := start.Add(time.Hour + time.Duration(i)*time.Second)
		add(job.ManualID("a", 1, fmt.Sprint(i), at), at, &belfryv1.Record{Status: "succeeded", Trigger: "manual"})
	}
	for i := range 300 {
		at := last.Add(time.Duration(i+1) * time.Minute)
		add(job.ScheduledID("a", 1, at), at, &belfryv1.Record{Status: "succeeded", Trigger: "schedule", Attempts: 1})
	}
	b.owners.edit("a", addDays(rows), rows...)
	b.advance(100 * time.Hour)
	for _, at := range []time.Time{first, start.Add(65 * time.Minute), last.Add(-time.Minute), last} {
		e := b.explain(at.Format(time.RFC3339))
		if e.Verdict != "missed" || !strings.Contains(e.Reason, "outage; one of 2939 slots") {
			t.Errorf("at %s: %+v", at, e)
		}
	}
	if e := b.explain(last.Add(time.Minute).Format(time.RFC3339)); e.Verdict != "succeeded" || len(e.Executions) != 1 {
		t.Errorf("after it: %+v", e)
	}
	if e := b.explain(start.Format(time.RFC3339)); e.Verdict == "missed" {
		t.Errorf("before it: %+v", e)
	}
}
