package gateway

import (
	"net/http"
	"time"

	"github.com/belfry-scheduler/belfry/gateway/api"
	"github.com/belfry-scheduler/belfry/messages"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence/listing"
)

// explainJob is GET /v1/jobs/{id}/explain. A job that was deleted is explained as
// long as its row is there.
func (g *Gateway) explainJob(c *call) error {
	jobID, err := c.jobID()
	if err != nil {
		return err
	}
	at, err := c.instant("at")
	if err != nil {
		return err
	}
	ctx := c.r.Context()
	s, err := g.read(ctx, jobID)
	if err != nil {
		return noSuchJob(err, jobID)
	}
	q := listing.Question{Job: s.listed(), At: at, Now: g.cfg.Now()}
	if p, err := g.schedules.compile(messages.TimingOf(jobID, s.spec)); err == nil {
		q.Schedule = p.schedule
	}
	q.Owner = g.describe(ctx, jobID)
	if !at.IsZero() {
		if q.Records, err = g.listing().Around(ctx, q.Job, at, q.Now); err != nil {
			return err
		}
		listing.MarkRunning(q.Records, q.Owner, q.Now)
	}
	return c.answer(http.StatusOK, viewExplanation(jobID, q))
}

func viewExplanation(jobID string, q listing.Question) api.Explanation {
	e := listing.Explain(q)
	out := api.Explanation{
		JobID: jobID, At: q.At, Verdict: e.Verdict, Reason: e.Reason,
		PreviousSlot: ptrTime(e.Previous), NextSlot: ptrTime(e.Next), Executions: make([]api.Execution, len(q.Records)),
	}
	if q.At.IsZero() {
		out.At = q.Now.UTC().Truncate(time.Millisecond)
	}
	for i, r := range q.Records {
		out.Executions[i] = viewExecution(r)
	}
	return out
}

// instant is a parameter that is an RFC 3339 instant; zero: it is not given.
func (c *call) instant(name string) (time.Time, error) {
	if !c.query.Has(name) {
		return time.Time{}, nil
	}
	at, ok := job.ParseInstant(c.query.Get(name))
	switch {
	case !ok:
		return time.Time{}, invalid("query."+name, "%q is not an RFC 3339 instant: write it like 2026-01-31T06:00:00Z, with %%2B for the + of an offset", clip(c.query.Get(name)))
	case at.IsZero():
		return time.Time{}, invalid("query."+name, "0001-01-01T00:00:00Z stands for no instant: choose a later one, or leave it out")
	case at.Nanosecond()%int(time.Millisecond) != 0:
		return time.Time{}, invalid("query."+name, "it is finer than a millisecond, the unit of a due time: write at most three decimals")
	}
	return at, nil
}
