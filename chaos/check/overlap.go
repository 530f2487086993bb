package check

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Overlap is what happens to a slot while an earlier execution of its job runs.
type Overlap string

const (
	Allow   Overlap = ""
	Skip    Overlap = "skip"
	Queue   Overlap = "queue"
	Replace Overlap = "replace"
)

// span is when an execution ran, as its target saw it.
type span struct {
	execution string
	from, to  time.Time
	excused   bool
}

// overlaps is C12: of a job that does not allow it no two executions run at a
// time, and a slot is skipped for another only while that one runs.
func (c *checker) overlaps() {
	spans := map[string][]span{}
	for _, id := range c.order {
		rs := c.sent[id]
		if j := c.jobs[rs[0].Job]; j == nil || j.Overlap == Allow {
			continue
		}
		s := span{execution: id, from: rs[0].Received, excused: c.disturbed(rs)}
		for _, r := range rs {
			to := r.ended()
			if r.Status == 0 {
				to = to.Add(-exactWait) // its caller had gone a moment before the target saw it
			}
			if to.After(s.to) {
				s.to = to
			}
		}
		spans[rs[0].Job] = append(spans[rs[0].Job], s)
	}
	for i := range c.Jobs {
		if j := &c.Jobs[i]; j.Overlap != Allow {
			c.together(j, spans[j.ID])
			if !j.MaySkip {
				c.skippedFor(j, spans[j.ID])
			}
		}
	}
}

func (c *checker) together(j *Job, spans []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	for i := 1; i < len(spans); i++ {
		before, s := spans[i-1], spans[i]
		if s.from.Before(before.to) && !before.excused && !s.excused {
			c.find("C12", j.ID, "%s began at %s, and %s ran until %s: overlap is %s", s.execution, stamp(s.from), before.execution, stamp(before.to), j.Overlap)
		}
	}
}

// skippedFor: what is skipped "because the one before runs" has one before that
// runs, or whose end was not known yet.
func (c *checker) skippedFor(j *Job, spans []span) {
	for i := range c.Records[j.ID] {
		r := &c.Records[j.ID][i]
		if r.Status != "skipped" || !strings.Contains(r.Reason, "overlap") || r.Range != nil {
			continue
		}
		ran := slices.ContainsFunc(spans, func(s span) bool {
			return s.from.Before(r.ScheduledFor.Add(c.InFlight)) && s.to.After(r.ScheduledFor.Add(-c.InFlight))
		})
		if !ran && !c.excused(r.ScheduledFor) {
			c.find("C12", j.ID, "slot %s is skipped for its overlap, and nothing ran", stamp(r.ScheduledFor))
		}
	}
}
