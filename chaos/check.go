package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Interval is what the harness knows of a job: due at First and every Every
// after it, before Until.
type Interval struct {
	Job   string
	First time.Time
	Every time.Duration
	Until time.Time // a slot at or after it may or may not be due
}

// slots walks the interval.
func (i Interval) slots() []time.Time {
	var out []time.Time
	for at := i.First; at.Before(i.Until); at = at.Add(i.Every) {
		out = append(out, at)
	}
	return out
}

// Kill is a moment at which a node was killed.
type Kill struct{ At time.Time }

// Finding is a rule that does not hold: which, for what, and what was seen.
type Finding struct {
	Rule string
	Job  string
	Text string
}

func (f Finding) String() string { return f.Rule + " " + f.Job + ": " + f.Text }

// History is everything the checker compares.
type History struct {
	Jobs     []Interval
	Records  map[string][]Record
	Receipts []Receipt
	Kills    []Kill
	// InFlight is how long before a kill a delivery can have been received and
	// its result not yet be durable.
	InFlight time.Duration
}

// Check returns every finding.
func (h History) Check() []Finding {
	c := &checker{History: h, byExecution: map[string][]Receipt{}}
	for _, r := range h.Receipts {
		c.byExecution[r.Execution] = append(c.byExecution[r.Execution], r)
	}
	for _, j := range h.Jobs {
		c.covered(j)
	}
	c.receipts()
	return c.found
}

type checker struct {
	History
	byExecution map[string][]Receipt
	found       []Finding
	ids         map[string]bool // of all records
}

func (c *checker) find(rule, job, format string, args ...any) {
	c.found = append(c.found, Finding{rule, job, fmt.Sprintf(format, args...)})
}

// covered is C1 and C4: every slot has exactly one record, under the one id
// that the harness computes itself.
func (c *checker) covered(j Interval) {
	if c.ids == nil {
		c.ids = map[string]bool{}
	}
	times := map[time.Time]int{}
	generation := ""
	for _, r := range c.Records[j.Job] {
		c.ids[r.ExecutionID] = true
		first, last := r.ScheduledFor, r.ScheduledFor
		if r.Range != nil {
			first, last = r.Range.First, r.Range.Last
		}
		for at := first; !at.After(last); at = at.Add(j.Every) {
			times[at.UTC()]++
		}
		if r.Status != "succeeded" {
			c.find("C1", j.Job, "slot %s ended as %s: %s", first, r.Status, r.Reason)
		}
		if generation == "" {
			generation = strings.Split(r.ExecutionID+"~", "~")[1]
		}
		want := j.Job + "~" + generation + "~" + r.ScheduledFor.UTC().Format("20060102T150405.000Z")
		if r.ExecutionID != want {
			c.find("C4", j.Job, "execution id %s, not %s", r.ExecutionID, want)
		}
	}
	for _, at := range j.slots() {
		if n := times[at.UTC()]; n != 1 {
			c.find("C1", j.Job, "slot %s has %d records", at.Format(time.RFC3339Nano), n)
		}
		delete(times, at.UTC())
	}
	for at, n := range times {
		if at.Before(j.Until) {
			c.find("C1", j.Job, "%d records for %s, at which nothing is due", n, at.Format(time.RFC3339Nano))
		}
	}
}

// receipts is C2, C4, C5, C14 and C16, over what the target received.
func (c *checker) receipts() {
	bySlot := map[string]string{}
	for id, rs := range c.byExecution {
		if !c.ids[id] {
			c.find("C16", rs[0].Job, "%s was received and has no record", id)
		}
		for i, r := range rs {
			if r.Received.Before(r.ScheduledFor) {
				c.find("C2", r.Job, "%s was received %s early", id, r.ScheduledFor.Sub(r.Received))
			}
			if r.Key != id {
				c.find("C5", r.Job, "%s came under the key %s", id, r.Key)
			}
			slot := r.Job + " " + r.ScheduledFor.String()
			if other, ok := bySlot[slot]; ok && other != id {
				c.find("C4", r.Job, "slot %s was received as %s and as %s", r.ScheduledFor, other, id)
			}
			bySlot[slot] = id
			if i > 0 {
				c.repeat(rs[i-1], r)
			}
		}
	}
}

// repeat is C5 and C14: the same attempt comes again only from a later epoch,
// and only when the first was in flight at a kill.
func (c *checker) repeat(before, r Receipt) {
	if r.Epoch <= before.Epoch {
		c.find("C14", r.Job, "%s attempt %d came twice under epoch %d", r.Execution, r.Attempt, r.Epoch)
	}
	inFlight := slices.ContainsFunc(c.Kills, func(k Kill) bool {
		return before.Received.Before(k.At) && k.At.Sub(before.Received) <= c.InFlight
	})
	if !inFlight {
		c.find("C5", r.Job, "%s came again at %s, and was not in flight at a kill (first at %s)", r.Execution, r.Received, before.Received)
	}
}

// Repeats is how many deliveries were repeats.
func (h History) Repeats() int {
	seen := map[string]bool{}
	n := 0
	for _, r := range h.Receipts {
		if seen[r.Execution] {
			n++
		}
		seen[r.Execution] = true
	}
	return n
}
