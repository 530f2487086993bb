package check

import (
	"cmp"
	"slices"
	"time"
)

// slot is an instant at which a job is due, or may be.
type slot struct {
	at time.Time
	claim
}

// claim is what is known of a slot: from the operations on its job.
type claim struct {
	must  bool // it has a record
	fires bool // that may be a delivery
	ended Verb // why it does not fire: a pause, a delete, an update
	life  int  // of which registration, from 0
}

// strip is a time in which the same things are due.
type strip struct {
	from, to time.Time // (from, to]; the last one has no end
	claims   []due
}

// sure: there is no doubt that the job had this slot when its time came.
func (c claim) sure() bool { return c.ended != Update && (c.must || !c.fires) }

// due is a schedule that holds in a strip, or may.
type due struct {
	Schedule
	claim
}

// timeline divides a job's time at its operations.
func (j *Job) timeline() []strip {
	var out []strip
	var now []due
	var from time.Time
	life := -1
	for _, op := range j.Ops {
		if op.Outcome == Rejected {
			continue
		}
		if op.Verb == Register && (len(now) == 0 || now[0].ended == Delete) {
			life++
		}
		next := op.after(now, life)
		either := possible(now, next)
		out = append(out, strip{from, op.Call, now})
		if op.CatchUp {
			runAfterAll(out)
		}
		if op.Outcome == Unknown {
			now, from = either, op.Call
			continue
		}
		out = append(out, strip{op.Call, op.Return, either})
		if op.Verb == Delete { // what was armed is cancelled when its time comes, also under the next registration
			out = append(out, strip{op.Return, op.Return.Add(armed), next})
		}
		now, from = next, op.Return
	}
	return append(out, strip{from, time.Time{}, now})
}

// runAfterAll has what was due in a pause that ends at last run, or not.
func runAfterAll(strips []strip) {
	for i := len(strips) - 1; i >= 0; i-- {
		for k, d := range strips[i].claims {
			if d.must {
				return
			}
			strips[i].claims[k].fires = d.fires || d.ended == Pause
		}
	}
}

// after is what holds when an operation has taken effect.
func (o Op) after(now []due, life int) []due {
	if o.Verb == Register {
		return []due{{o.Schedule, claim{must: true, fires: true, life: life}}}
	}
	var out []due
	for _, d := range now {
		if d.ended == Update {
			continue
		}
		old := d
		switch o.Verb {
		case Update:
			d.Schedule = o.Schedule
			old.must, old.fires, old.ended = false, false, Update
			out = append(out, d, old)
			continue
		case Pause, Delete:
			d.must, d.fires, d.ended = false, false, o.Verb
		case Resume:
			d.must, d.fires, d.ended = len(now) == 1, true, ""
		}
		out = append(out, d)
	}
	return out
}

// possible is what may hold when it is not known which of two does.
func possible(a, b []due) []due {
	var out []due
	for _, d := range slices.Concat(a, b) {
		if d.ended == Update || d.ended == Delete {
			continue
		}
		d.claim = claim{fires: true, life: d.life}
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// due are the slots of a job in order, and of each instant what is known. Where
// several schedules have it, the one that fires counts.
func (j *Job) due(until time.Time) []slot {
	var out []slot
	strips := j.timeline()
	for i, s := range strips {
		to := s.to
		if last := i == len(strips)-1; last || to.After(until) {
			to = until
		}
		for _, d := range s.claims {
			for _, at := range d.Due(s.from, to) {
				out = append(out, slot{at, d.claim})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b slot) int {
		return cmp.Or(a.at.Compare(b.at), -cmp.Compare(rank(a.claim), rank(b.claim)))
	})
	return slices.CompactFunc(out, func(a, b slot) bool { return a.at.Equal(b.at) })
}

func rank(c claim) int {
	switch {
	case c.must:
		return 2
	case c.fires:
		return 1
	case c.ended == Delete:
		return -1
	}
	return 0
}

// ledgerOf is what the records of a job say about its slots.
type ledgerOf struct {
	*checker
	job      *Job
	slots    []slot
	byMillis map[int64]int // number of a slot
	records  []*Record     // of each slot; nil: none
	count    []int         // how many
	lives    map[int]string
}

// slots is C1, C4, C7, C8, C9, C17 and C20: every slot has its one record, under
// the id that is computed here, and of a status that it may have.
func (c *checker) slots(j *Job) {
	all := j.due(j.Until.Add(-1))
	l := &ledgerOf{checker: c, job: j, slots: all, byMillis: make(map[int64]int, len(all)), records: make([]*Record, len(all)), count: make([]int, len(all)), lives: map[int]string{}}
	for i, s := range all {
		l.byMillis[s.at.UnixMilli()] = i
	}
	for i := range c.Records[j.ID] {
		l.take(&c.Records[j.ID][i])
	}
	l.covered()
	l.received()
	l.updated()
	l.ambiguous()
	l.caughtUp()
}

// take notes a record at the slots that it covers.
func (l *ledgerOf) take(r *Record) {
	if pending(r.Status) {
		l.find("C17", l.job.ID, "%s is %s when all is over", r.ExecutionID, r.Status)
	}
	_, generation, scheduled := takeApart(r.ExecutionID)
	if !scheduled && r.Range == nil {
		return
	}
	first, last := r.ScheduledFor, r.ScheduledFor
	if r.Range != nil {
		first, last = r.Range.First, r.Range.Last
	}
	from, known := slices.BinarySearchFunc(l.slots, first, func(s slot, at time.Time) int { return s.at.Compare(at) })
	if !known && first.Before(l.job.Until) {
		l.find("C1", l.job.ID, "%s is %s at %s, at which nothing is due", r.ExecutionID, r.Status, stamp(first))
		return
	}
	n, sure := 0, 0
	for i := from; i < len(l.slots) && !l.slots[i].at.After(last); i++ {
		if s := l.slots[i]; r.Range != nil && (s.ended == Update || s.life != l.slots[from].life) {
			continue // it lies between those of the range, and is none of them
		}
		l.records[i] = r
		l.count[i]++
		n++
		if l.slots[i].sure() {
			sure++
		}
		l.status(r, l.slots[i])
	}
	if r.Range != nil && last.Before(l.job.Until) && (r.Range.Count < sure || r.Range.Count > n) {
		l.find("C1", l.job.ID, "the range of %s to %s counts %d slots, and there are %d", stamp(first), stamp(last), r.Range.Count, n)
	}
	if n > 0 {
		l.identity(r, generation, l.slots[from].life)
	}
}

// identity is C4: the id is the one that is computed here. The generation is a
// number of the product's; it is one for each life, and grows.
func (l *ledgerOf) identity(r *Record, generation string, life int) {
	known, ok := l.lives[life]
	if !ok {
		known = generation
		for other, g := range l.lives {
			if other < life && !less(g, generation) || other > life && !less(generation, g) {
				l.find("C4", l.job.ID, "registration %d has generation %s, and %d has %s", life, generation, other, g)
			}
		}
		l.lives[life] = known
	}
	if want := idOf(l.job.ID, known, r.ScheduledFor); r.ExecutionID != want {
		l.find("C4", l.job.ID, "execution id %s, not %s", r.ExecutionID, want)
	}
}

// less compares numbers of one base without leading zeros.
func less(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

func pending(status string) bool {
	return status == "pending" || status == "running" || status == "retrying"
}

// status wants a record of a slot to be one that it may have.
func (l *ledgerOf) status(r *Record, s slot) {
	ok := false
	switch r.Status {
	case "succeeded":
		ok = s.fires || l.excused(s.at)
	case "failed":
		ok = l.job.MayFail && (s.fires || l.excused(s.at))
	case "missed":
		ok = s.fires && (l.job.CatchUp != nil || l.job.MayMiss || l.overtaken(s.at, Update))
	case "skipped":
		ok = s.ended == Pause || l.job.MaySkip || !s.must || l.job.Overlap != "" || l.overtaken(s.at, Pause, Update)
	case "cancelled":
		ok = s.ended != "" || !s.must || l.job.Overlap == Replace || l.job.MayCancel || l.overtaken(s.at, Delete, Update)
	default:
		ok = pending(r.Status)
	}
	switch {
	case !ok && s.ended == Update:
		l.find("C8", l.job.ID, "%s is %s, and its slot is of the schedule before", r.ExecutionID, r.Status)
	case !ok && s.ended != "":
		l.find("C7", l.job.ID, "%s is %s after the %s", r.ExecutionID, r.Status, s.ended)
	case !ok:
		l.find("C1", l.job.ID, "slot %s ended as %s: %s", stamp(s.at), r.Status, r.Reason)
	case r.Reason == "" && (r.Status == "skipped" || r.Status == "missed" || r.Status == "cancelled"):
		l.find("C1", l.job.ID, "slot %s is %s without a reason", stamp(s.at), r.Status)
	}
}

// overtaken: before a slot had to be delivered, an operation ended it.
func (l *ledgerOf) overtaken(slot time.Time, verbs ...Verb) bool {
	by := l.deadline(slot)
	return slices.ContainsFunc(l.job.Ops, func(o Op) bool {
		return o.Outcome != Rejected && slices.Contains(verbs, o.Verb) && !o.Return.Before(slot) && o.Call.Before(by)
	})
}

// excused: an owner that was out of reach may have sent what it had armed before
// it learned of a change.
func (c *checker) excused(at time.Time) bool {
	return slices.ContainsFunc(c.Faults, func(f Fault) bool {
		return !f.planned() && at.After(f.At.Add(-c.InFlight)) && at.Before(f.End.Add(c.TTL+c.InFlight))
	})
}

// covered is C1, and in sum C17.
func (l *ledgerOf) covered() {
	must, covered := 0, 0
	for i, s := range l.slots {
		n := l.count[i]
		if s.must && n != 1 || n > 1 {
			l.find("C1", l.job.ID, "slot %s has %d records", stamp(s.at), n)
		}
		if s.must {
			must++
			covered += n
		}
	}
	if must != covered {
		l.find("C17", l.job.ID, "%d slots are due, and records cover %d", must, covered)
	}
}

// received is C7 and C8, over what came to the target.
func (l *ledgerOf) received() {
	for i, s := range l.slots {
		if s.fires || s.ended == "" || len(l.job.Ops) == 1 {
			continue
		}
		id := ""
		if generation, ok := l.lives[s.life]; ok {
			id = idOf(l.job.ID, generation, s.at)
		} else if r := l.records[i]; r != nil {
			id = r.ExecutionID
		}
		for _, r := range l.sent[id] {
			rule := "C7"
			if s.ended == Update {
				rule = "C8"
			}
			if !l.excused(r.Received) {
				l.find(rule, l.job.ID, "%s came at %s, after the %s", id, stamp(r.Received), s.ended)
			}
			break
		}
	}
}

// updated is C8 while an update is under way: when a slot of the new schedule
// has run, none of the old one alone follows.
func (l *ledgerOf) updated() {
	var before Schedule
	for _, op := range l.job.Ops {
		if op.Outcome == Rejected || op.Schedule == nil {
			continue
		}
		if op.Verb == Update && before != nil {
			l.once(op, before)
		}
		before = op.Schedule
	}
}

func (l *ledgerOf) once(op Op, before Schedule) {
	to := op.Return
	if op.Outcome == Unknown {
		to = l.job.Until
	}
	has := func(s Schedule, at time.Time) bool { return len(s.Due(at.Add(-time.Millisecond), at)) > 0 }
	var newest time.Time
	for i, s := range l.slots {
		r := l.records[i]
		if r == nil || r.Status != "succeeded" || !s.at.After(op.Call) || s.at.After(to) {
			continue
		}
		switch old, now := has(before, s.at), has(op.Schedule, s.at); {
		case now && !old:
			newest = s.at
		case old && !now && !newest.IsZero():
			l.find("C8", l.job.ID, "slot %s of the schedule before ran, and %s of the new one before it", stamp(s.at), stamp(newest))
		}
	}
}

// ambiguous is C9: when nobody knows whether a job was registered, either all of
// its slots are there from some moment on, or none.
func (l *ledgerOf) ambiguous() {
	if len(l.job.Ops) == 0 || l.job.Ops[0].Outcome != Unknown || l.job.Ops[0].Verb != Register {
		return
	}
	end := l.job.Until
	if len(l.job.Ops) > 1 {
		end = l.job.Ops[1].Call
	}
	seen := false
	for i, s := range l.slots {
		if s.at.After(end) || s.at.Equal(l.job.Until) {
			break
		}
		if l.count[i] == 0 && seen {
			l.find("C9", l.job.ID, "it was registered after all, and slot %s has no record", stamp(s.at))
			return
		}
		seen = seen || l.count[i] > 0
	}
}
