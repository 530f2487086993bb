package gateway

import (
	"testing"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// C71: a backfill is accepted, has a place where its progress is seen, and can be
// cancelled.
func TestBackfill(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"0 * * * *","target":"https://example.com"}`).want(201)
	r := b.do("POST", "/v1/jobs/a/backfill", `{"from":"2026-03-01T00:00:00Z","to":"2026-03-01T06:00:00Z"}`).want(202)
	f := read[api.Backfill](r)
	if f.JobID != "a" || f.Status != "running" || f.Total != 6 || f.Done != 0 || f.Overlap != "queue" || f.Concurrency != 1 || f.CreatedAt == nil || !f.Next.Equal(f.From) {
		t.Errorf("backfill %s", r.text)
	}
	place := r.Header.Get("Location")
	b.owners.edit("a", func(j *belfryv1.Job) { j.State.Backfills[0].Succeeded, j.State.Backfills[0].Failed = 3, 1 })
	if f := read[api.Backfill](b.do("GET", place, "").want(200)); f.Done != 4 || f.Succeeded != 3 || f.Failed != 1 {
		t.Errorf("progress %+v", f)
	}
	if j := read[api.Job](b.do("GET", "/v1/jobs/a", "").want(200)); len(j.Backfills) != 1 || j.Backfills[0].BackfillID != f.BackfillID {
		t.Errorf("the job shows %+v", j.Backfills)
	}
	for range 2 {
		b.do("DELETE", place, "").want(204)
		if f := read[api.Backfill](b.do("GET", place, "").want(200)); f.Status != "cancelled" || f.Reason == "" || f.EndedAt == nil {
			t.Errorf("cancelled %+v", f)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		b.do(method, "/v1/jobs/a/backfills/none", "").problem(api.CodeNoBackfill)
		b.do(method, "/v1/jobs/none/backfills/none", "").problem(api.CodeJobNotFound)
	}
}

func TestBackfillOfSeveralAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"0 * * * *","target":"https://example.com"}`).want(201)
	for body, want := range map[string]int{`"overlap":"queue"`: 1, `"overlap":"allow"`: 4, `"overlap":"allow","concurrency":20`: 20} {
		f := read[api.Backfill](b.do("POST", "/v1/jobs/a/backfill", `{"from":"2026-03-01T00:00:00Z",`+body+`}`).want(202))
		if f.Concurrency != want || !f.To.Equal(start) || f.Total != 12 {
			t.Errorf("%s: %+v", body, f)
		}
	}
	// The same request under its key is the same backfill.
	key := func(body string) response {
		return b.do("POST", "/v1/jobs/a/backfill", body, "Idempotency-Key", "k")
	}
	first := key(`{"from":"2026-03-01T00:00:00Z"}`).want(202).text
	b.advance(time.Hour)
	if again := key(`{"from":"2026-03-01T00:00:00Z"}`).want(202).text; again != first {
		t.Errorf("a repeat is answered %s, and was %s", again, first)
	}
	key(`{"from":"2026-03-01T01:00:00Z"}`).problem(api.CodeKeyReused)
}

func TestBackfillDryRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"30 2 * * *","time_zone":"Europe/Berlin","target":"https://example.com"}`).want(201)
	f := read[api.Backfill](b.do("POST", "/v1/jobs/a/backfill?validate_only=true", `{"from":"2026-02-20T00:00:00Z","to":"2026-02-23T01:30:00Z"}`, "Idempotency-Key", "k").want(200))
	if f.BackfillID != "" || f.Status != "" || f.Total != 3 || len(f.Slots) != 3 || !f.Slots[2].Equal(time.Date(2026, 2, 22, 1, 30, 0, 0, time.UTC)) {
		t.Errorf("preview %+v", f)
	}
	if j := read[api.Job](b.do("GET", "/v1/jobs/a", "").want(200)); len(j.Backfills) != 0 {
		t.Errorf("a preview is stored: %+v", j.Backfills)
	}
}

func TestBadBackfills(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("PUT", "/v1/jobs/a", `{"schedule_expr":"* * * * * *","seconds":true,"target":"https://example.com"}`).want(201)
	b.do("PUT", "/v1/jobs/daily", `{"schedule_expr":"@daily","target":"https://example.com"}`).want(201)
	for body, location := range map[string]string{
		``: "body.from", `{}`: "body.from", `{"from":null}`: "body.from", `{"from":"yesterday"}`: "body.from", `{"from":1}`: "body.from",
		`{"from":"2026-03-01T00:00:00Z","to":"2026-03-01T00:00:00Z"}`:                   "body.to",
		`{"from":"2026-03-01T00:00:00Z","to":"2026-03-01T12:00:00.001Z"}`:               "body.to",
		`{"from":"2026-01-20T00:00:00Z","to":"2026-01-21T00:00:00Z"}`:                   "body.from",
		`{"from":"0001-01-01T00:00:00Z"}`:                                               "body.from",
		`{"from":"9999-01-01T00:00:00Z"}`:                                               "body.to",
		`{"from":"2026-02-01T00:00:00Z","to":"2026-03-01T00:00:00Z"}`:                   "body.to", // too many
		`{"from":"2026-03-01T00:00:00Z","overlap":"skip"}`:                              "body.overlap",
		`{"from":"2026-03-01T00:00:00Z","concurrency":2}`:                               "body.concurrency",
		`{"from":"2026-03-01T00:00:00Z","overlap":"allow","concurrency":1}`:             "body.concurrency",
		`{"from":"2026-03-01T00:00:00Z","overlap":"allow","concurrency":21}`:            "body.concurrency",
		`{"from":"2026-03-01T00:00:00Z","overlap":"allow","concurrency":9999999999999}`: "body.concurrency",
		`{"from":"2026-03-01T00:00:00Z","since":"x"}`:                                   "body.since",
	} {
		for _, q := range []string{"", "?validate_only=true"} {
			if e := b.do("POST", "/v1/jobs/a/backfill"+q, body).refused(location); len(e.Message) < 15 {
				t.Errorf("%s: the message %q does not help", body, e.Message)
			}
		}
	}
	b.do("POST", "/v1/jobs/daily/backfill", `{"from":"2026-03-01T01:00:00Z","to":"2026-03-01T02:00:00Z"}`).refused("body.from")
	b.do("POST", "/v1/jobs/a/backfill?dry_run=true", `{"from":"2026-03-01T00:00:00Z"}`).refused("query.dry_run")
	b.do("POST", "/v1/jobs/none/backfill", `{"from":"2026-03-01T00:00:00Z"}`).problem(api.CodeJobNotFound)
}
