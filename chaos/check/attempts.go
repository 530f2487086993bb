package check

import (
	"strings"
	"time"
)

// Retry is how often an execution is tried, and how long is waited in between.
type Retry struct {
	MaxAttempts  int
	Initial, Max time.Duration
	Multiplier   float64
	Jitter       float64 // the share by which a wait may be shorter
}

// least is the shortest wait after an attempt.
func (r Retry) least(attempt int) time.Duration {
	wait := float64(r.Initial)
	for range attempt - 1 {
		wait *= r.Multiplier
	}
	if r.Max > 0 {
		wait = min(wait, float64(r.Max))
	}
	return time.Duration(wait * (1 - r.Jitter))
}

// final: the target said that another attempt cannot help. Only 408, 425, 429 and
// 5xx are worth one, and no answer at all.
func (r Receipt) final() bool {
	again := r.Status == 0 || r.Status >= 500 || r.Status == 408 || r.Status == 425 || r.Status == 429
	return !again && !r.succeeded()
}

// exactWait is how well the end of an attempt is known at the target: the client
// may have seen it a moment before.
const exactWait = 50 * time.Millisecond

// attempts is C11 over the executions of jobs whose retries are known.
func (c *checker) attempts() {
	for _, id := range c.order {
		rs := c.sent[id]
		j := c.jobs[rs[0].Job]
		if j == nil || j.Retry == nil {
			continue
		}
		c.numbers(rs, j.Retry)
		if rec := c.records[id]; rec != nil {
			c.dead(rec, rs, j.Retry)
		}
	}
}

// numbers are 1, 2, … without holes, and each comes when its wait is over.
func (c *checker) numbers(rs []Receipt, retry *Retry) {
	before := Receipt{}
	for _, r := range rs {
		switch {
		case r.Attempt <= before.Attempt:
			continue // a repeat: another rule's
		case r.Attempt > before.Attempt+1+c.unknown(r.Execution) && !c.disturbed(rs):
			c.find("C11", r.Job, "attempt %d of %s follows %d", r.Attempt, r.Execution, before.Attempt)
		case before.final() && !c.disturbed(rs):
			c.find("C11", r.Job, "attempt %d of %s follows a final answer: %d", r.Attempt, r.Execution, before.Status)
		case r.Attempt > retry.MaxAttempts:
			c.find("C11", r.Job, "attempt %d of %s, and %d are allowed", r.Attempt, r.Execution, retry.MaxAttempts)
		case before.Attempt > 0 && r.Received.Sub(before.ended()) < retry.least(before.Attempt)-exactWait && !c.disturbed(rs):
			c.find("C11", r.Job, "attempt %d of %s came %s after the one before, and the wait is at least %s", r.Attempt, r.Execution, r.Received.Sub(before.ended()), retry.least(before.Attempt))
		}
		before = r
	}
}

// unknown is how many attempts of an execution are recorded as ended without an
// answer: whether they came nobody knows.
func (c *checker) unknown(execution string) int {
	if r := c.records[execution]; r != nil {
		return r.Unknown
	}
	return 0
}

// dead: an execution is a dead letter when all its attempts have failed, or its
// age is over, and only then.
func (c *checker) dead(rec *Record, rs []Receipt, retry *Retry) {
	job, last := rs[0].Job, rs[len(rs)-1]
	expired := strings.Contains(rec.Reason, "expired")
	switch {
	case rec.Status == "failed" && rec.AttemptCount < retry.MaxAttempts && !expired && !last.final():
		c.find("C11", job, "%s is a dead letter after %d of %d attempts", rec.ExecutionID, rec.AttemptCount, retry.MaxAttempts)
	case rec.Status == "failed" && last.succeeded() && !c.disturbed(rs):
		c.find("C11", job, "%s is a dead letter, and its last attempt succeeded", rec.ExecutionID)
	case rec.Status == "succeeded" && last.Attempt == retry.MaxAttempts && last.Status != 0 && !c.anySuccess(rs) && !c.disturbed(rs):
		c.find("C11", job, "%s is no dead letter, and all its attempts have failed", rec.ExecutionID)
	}
}

func (c *checker) anySuccess(rs []Receipt) bool {
	for _, r := range rs {
		if r.succeeded() {
			return true
		}
	}
	return false
}
