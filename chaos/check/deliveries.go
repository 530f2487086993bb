package check

import (
	"slices"
	"time"
)

// stray is how long after it goes on a node that was paused can send what it had
// just decided to send.
const stray = 500 * time.Millisecond

// mostStrays is how many of these there are after a pause: what was between the
// last check and the first byte when the node was stopped.
const mostStrays = 3

// exact is how well the moments are known at which a pause begins and ends.
const exact = 100 * time.Millisecond

// deliveries is C2, C3, C4, C5, C6, C16, C21 and C22, over what was received.
func (c *checker) deliveries() {
	type place struct {
		job, generation string
		slot            int64
	}
	bySlot := make(map[place]string, len(c.order))
	firsts := map[string][]Receipt{}
	for _, id := range c.order {
		rs := c.sent[id]
		first := rs[0]
		job, generation, scheduled := takeApart(id)
		if job != first.Job {
			c.find("C4", first.Job, "it is called by execution %s", id)
		}
		if scheduled {
			at := place{first.Job, generation, first.ScheduledFor.UnixMilli()}
			if other, ok := bySlot[at]; ok && other != id {
				c.find("C4", first.Job, "slot %s was received as %s and as %s", stamp(first.ScheduledFor), other, id)
			}
			bySlot[at] = id
			firsts[first.Job] = append(firsts[first.Job], first)
			c.late(first)
		}
		for i, r := range rs {
			c.delivery(r, first)
			if i > 0 {
				c.repeat(rs[i-1], r)
			}
		}
		c.after(rs)
		c.recorded(id, rs)
	}
	for _, r := range c.records {
		if r.Status == "succeeded" && r.Range == nil && len(c.sent[r.ExecutionID]) == 0 {
			job, _, _ := takeApart(r.ExecutionID)
			c.find("C16", job, "%s is recorded as succeeded and was not received", r.ExecutionID)
		}
	}
	for job, rs := range firsts {
		c.unlabelled(job, rs)
	}
}

// delivery is what is said of a single one.
func (c *checker) delivery(r, first Receipt) {
	if c.time(r).Before(r.ScheduledFor) {
		c.find("C2", r.Job, "%s was received %s early", r.Execution, r.ScheduledFor.Sub(r.Received))
	}
	if _, _, scheduled := takeApart(r.Execution); scheduled && r.Key != r.Execution || r.Key != first.Key {
		c.find("C5", r.Job, "%s came under the key %s", r.Execution, r.Key)
	}
	if !r.ScheduledFor.Equal(first.ScheduledFor) {
		c.find("C4", r.Job, "%s is of slot %s and of %s", r.Execution, stamp(first.ScheduledFor), stamp(r.ScheduledFor))
	}
	switch j := c.jobs[r.Job]; {
	case r.Signature == Forged:
		c.find("C22", r.Job, "the signature of %s, attempt %d, does not verify", r.Execution, r.Attempt)
	case r.Signature == Unsigned && j != nil && j.Signed:
		c.find("C22", r.Job, "%s, attempt %d, is not signed", r.Execution, r.Attempt)
	}
}

// time is when a delivery came, by the latest clock that its owner may go by.
func (c *checker) time(r Receipt) time.Time {
	at := r.Received
	for _, f := range c.Faults {
		if f.Ahead > 0 && !r.Received.Before(f.At) && r.Received.Before(f.End) && c.ownerOf(r) == f.Node {
			at = r.Received.Add(f.Ahead)
		}
	}
	return at
}

// late is C3: the first delivery comes on time, or where a fault is in the way,
// at most the recovery bound after its end.
func (c *checker) late(first Receipt) {
	if c.OnTime == 0 {
		return
	}
	if by := c.deadline(first.ScheduledFor); first.Received.After(by) {
		c.find("C3", first.Job, "%s was received %s late, %s after its deadline", first.Execution, first.Received.Sub(first.ScheduledFor), first.Received.Sub(by))
	}
}

// deadline is the time by which a slot has to be delivered.
func (h *History) deadline(slot time.Time) time.Time {
	by := slot.Add(h.OnTime)
	for _, f := range h.Faults {
		if healed := f.End.Add(h.Recovery); !f.At.After(by) && !slot.After(healed) && by.Before(healed) {
			by = healed
		}
	}
	return by
}

// repeat is C5 and C14: an execution comes again, in the same attempt, only when
// what came before was in flight at a fault, or when one of both is a stray.
// Under the epoch of the same owner only where it was another node's worker that
// was hit, or out of reach; from an earlier owner only where it was that one that
// was cut off, and lost the partition meanwhile.
func (c *checker) repeat(before, r Receipt) {
	if r.Attempt > before.Attempt && !before.succeeded() && c.retried(r.Job) || c.strayed(before, r) {
		return
	}
	hits := c.interruptions(before)
	if len(hits) == 0 {
		c.find("C5", r.Job, "%s came again at %s, and was not in flight at a fault (first at %s)", r.Execution, stamp(r.Received), stamp(before.Received))
	}
	if r.Epoch > before.Epoch {
		return
	}
	owner := c.ownerOf(r)
	explained := slices.ContainsFunc(hits, func(f Fault) bool {
		switch {
		case f.Kind == Shaken:
			return true
		case r.Epoch == before.Epoch:
			return owner != "" && (f.Node != owner || f.network())
		}
		return f.network() && f.Node == owner
	})
	if !explained {
		c.find("C14", r.Job, "%s attempt %d came under epoch %d, and before under %d", r.Execution, r.Attempt, r.Epoch, before.Epoch)
	}
}

func (c *checker) retried(job string) bool {
	j := c.jobs[job]
	return j != nil && j.MayFail
}

// interruptions are the faults at which a delivery can have been in flight.
func (c *checker) interruptions(r Receipt) []Fault {
	var hits []Fault
	for _, f := range c.Faults {
		if f.interrupts(r, c.InFlight, c.TTL) {
			hits = append(hits, f)
		}
	}
	return hits
}

// strayed tells whether the one of both that is of the earlier epoch is a stray:
// it came just after its owner, or a worker of that one, went on after a pause.
// There are few of them, because all that a node has yet to decide it decides by
// a clock that went on.
func (c *checker) strayed(before, r Receipt) bool {
	late := r
	if r.Epoch > before.Epoch {
		late = before
	}
	for i, f := range c.Faults {
		after := late.Received.Sub(f.End)
		owned := before.Epoch == r.Epoch || c.ownerOf(late) == f.Node
		if f.Kind == Paused && owned && after > -exact && after < stray {
			if c.strays[i]++; c.strays[i] == mostStrays+1 {
				c.find("C14", late.Job, "after its pause %s sent more than %d deliveries that were another's, %s among them", f.Node, mostStrays, late.Execution)
			}
			return true
		}
	}
	return false
}

// interrupts tells whether a delivery can have been in flight at a fault: it had
// begun, and its result need not be durable. Nothing planned interrupts anything.
func (f Fault) interrupts(r Receipt, inFlight, ttl time.Duration) bool {
	end := f.begun(ttl)
	switch f.Kind {
	case Paused:
		end = f.At.Add(exact)
	case Shaken, Outage:
		end = f.End
	}
	return !f.planned() && r.Received.Before(end) && !f.At.After(r.recorded(inFlight))
}

// after is C6: when a success was answered, and had the time to be recorded,
// nothing comes any more.
func (c *checker) after(rs []Receipt) {
	for i, s := range rs {
		if !s.succeeded() || s.Answered.IsZero() {
			continue
		}
		for _, r := range rs[i+1:] {
			if r.Received.After(s.recorded(c.InFlight)) && len(c.interruptions(s)) == 0 && !c.strayed(s, r) {
				c.find("C6", r.Job, "%s came at %s, and had succeeded at %s", r.Execution, stamp(r.Received), stamp(s.Answered))
			}
		}
		return
	}
}

// recorded is C16: what was received is in the history, as it was.
func (c *checker) recorded(id string, rs []Receipt) {
	first := rs[0]
	rec := c.records[id]
	if rec == nil {
		c.find("C16", first.Job, "%s was received at %s, answered at %s, and has no record", id, stamp(first.Received), stamp(first.Answered))
		return
	}
	attempts := map[int]bool{}
	most, answered, succeeded := 0, false, false
	for _, r := range rs {
		attempts[r.Attempt] = true
		most = max(most, r.Attempt)
		answered = answered || r.Status != 0
		succeeded = succeeded || r.succeeded()
	}
	switch {
	case rec.AttemptCount < most:
		c.find("C16", first.Job, "attempt %d of %s was received, and %d are recorded", most, id, rec.AttemptCount)
	case rec.AttemptCount > len(attempts)+rec.Unknown && !c.disturbed(rs):
		c.find("C16", first.Job, "%d attempts of %s are recorded, %d of them unknown, and %d came", rec.AttemptCount, id, rec.Unknown, len(attempts))
	}
	if rec.Status == "succeeded" && answered && !succeeded && !c.disturbed(rs) {
		c.find("C16", first.Job, "%s is recorded as succeeded, and the target refused it", id)
	}
}

// disturbed: a fault can have taken part of what happened to an execution.
func (c *checker) disturbed(rs []Receipt) bool {
	return slices.ContainsFunc(rs, func(r Receipt) bool { return len(c.interruptions(r)) > 0 })
}

// unlabelled is C21: when one forgets what the deliveries of a job say that they
// are, each of its slots that ran can still be given one that came at its time.
// Deliveries are in order of arrival, and so are deadlines.
func (c *checker) unlabelled(job string, firsts []Receipt) {
	if c.OnTime == 0 || c.jobs[job] == nil {
		return
	}
	var ran []time.Time
	for i := range c.Records[job] {
		r := &c.Records[job][i]
		if _, _, scheduled := takeApart(r.ExecutionID); scheduled && r.Status == "succeeded" && r.Range == nil {
			ran = append(ran, r.ScheduledFor)
		}
	}
	slices.SortFunc(ran, time.Time.Compare)
	next := 0
	for _, slot := range ran {
		for next < len(firsts) && c.time(firsts[next]).Before(slot) {
			next++ // it can be of an earlier slot only
		}
		if next == len(firsts) || firsts[next].Received.After(c.deadline(slot)) {
			c.find("C21", job, "whatever the deliveries say: none fits slot %s", stamp(slot))
			return
		}
		next++
	}
}
