package check

import "time"

// Run is an execution of a dependent job, and those that it follows.
type Run struct {
	Execution string
	Upstream  []string
}

// runs is C10: what depends on others comes to its target when each of those has
// succeeded there, and never when one has not.
func (c *checker) runs() {
	for _, run := range c.Runs {
		sent := c.sent[run.Execution]
		if len(sent) == 0 {
			continue
		}
		job := sent[0].Job
		for _, up := range run.Upstream {
			if rec := c.records[up]; rec == nil || rec.Status != "succeeded" {
				c.find("C10", job, "%s ran, and its upstream %s has not succeeded", run.Execution, up)
				continue
			}
			if done, ok := c.firstSuccess(up); ok && sent[0].Received.Before(done) {
				c.find("C10", job, "%s came at %s, before its upstream %s had succeeded at %s", run.Execution, stamp(sent[0].Received), up, stamp(done))
			}
		}
	}
}

// firstSuccess is when a target answered first that an execution has succeeded.
func (c *checker) firstSuccess(execution string) (at time.Time, ok bool) {
	for _, r := range c.sent[execution] {
		if r.succeeded() && (!ok || r.Received.Before(at)) {
			at, ok = r.Received, true
		}
	}
	return at, ok
}
