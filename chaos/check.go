package chaos

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
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

// FaultKind is what was done to a node.
type FaultKind string

const (
	Killed    FaultKind = "killed"
	Paused    FaultKind = "paused"
	Restarted FaultKind = "restarted" // it was asked to stop, and had the time for it
	Joined    FaultKind = "joined"    // it is new
)

// Fault is something that was done to a node: from just before it was done until
// it was undone, or for a kill until the node was gone.
type Fault struct {
	Kind    FaultKind
	Node    string
	At, End time.Time
}

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
	Faults   []Fault
	// InFlight is how long before a fault a delivery can have been answered and
	// its result not yet be durable.
	InFlight time.Duration

	// Of clusters. Without takeovers there is one node, and nobody else to send
	// anything.
	Partitions int
	Takeovers  []Takeover
	// OnTime is how late a first delivery may be while nothing is wrong; 0: that
	// is not checked.
	OnTime time.Duration
	// Recovery is how long after a fault everything is as before.
	Recovery time.Duration
}

// stray is how long after it goes on a node that was paused can send what it had
// just decided to send.
const stray = 500 * time.Millisecond

// mostStrays is how many of these there are after a pause: what was between the
// last check and the first byte when the node was stopped.
const mostStrays = 3

// exact is how well the moments are known at which a pause begins and ends.
const exact = 100 * time.Millisecond

// Check returns every finding.
func (h History) Check() []Finding {
	c := &checker{History: h, byExecution: map[string][]Receipt{}, ids: map[string]bool{}, strays: map[int]int{}}
	for _, r := range h.Receipts {
		c.byExecution[r.Execution] = append(c.byExecution[r.Execution], r)
	}
	for _, rs := range c.byExecution {
		slices.SortStableFunc(rs, func(a, b Receipt) int { return a.Received.Compare(b.Received) })
	}
	c.owned()
	for _, j := range h.Jobs {
		c.covered(j)
	}
	c.receipts()
	c.epochs()
	c.silent()
	c.settled()
	return c.found
}

type checker struct {
	History
	byExecution map[string][]Receipt
	found       []Finding
	ids         map[string]bool     // of all records
	owners      map[tenure]Takeover // who had a partition under an epoch
	strays      map[int]int         // by the number of a fault
}

// tenure is an ownership.
type tenure struct {
	partition int32
	epoch     int64
}

func (c *checker) find(rule, job, format string, args ...any) {
	c.found = append(c.found, Finding{rule, job, fmt.Sprintf(format, args...)})
}

// partition of a job: the range of XXH64 that its id falls into.
func (h History) partition(job string) int32 {
	return int32(xxhash.Sum64String(job) >> (64 - bits.TrailingZeros(uint(h.Partitions))))
}

// owned is C14: an epoch of a partition has one owner.
func (c *checker) owned() {
	c.owners = map[tenure]Takeover{}
	for _, o := range c.Takeovers {
		key := tenure{o.Partition, o.Epoch}
		if other, ok := c.owners[key]; ok {
			c.find("C14", "", "partition %d had two owners under epoch %d: %s and %s", o.Partition, o.Epoch, other.Node, o.Node)
		}
		c.owners[key] = o
	}
}

// covered is C1, C4 and C16: every slot has exactly one record, under the one id
// that the harness computes itself, and what succeeded was received.
func (c *checker) covered(j Interval) {
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
		} else if len(c.byExecution[r.ExecutionID]) == 0 {
			c.find("C16", j.Job, "%s is recorded as succeeded and was not received", r.ExecutionID)
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

// receipts is C2, C3, C4, C5 and C16, over what the target received.
func (c *checker) receipts() {
	bySlot := map[string]string{}
	for id, rs := range c.byExecution {
		if !c.ids[id] {
			c.find("C16", rs[0].Job, "%s was received at %s, answered at %s, and has no record", id, rs[0].Received, rs[0].Answered)
		}
		c.late(rs[0])
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
func (c *checker) deadline(slot time.Time) time.Time {
	by := slot.Add(c.OnTime)
	for _, f := range c.Faults { // in the order of their beginnings
		if healed := f.End.Add(c.Recovery); !f.At.After(by) && !slot.After(healed) && by.Before(healed) {
			by = healed
		}
	}
	return by
}

// repeat is C5 and C14: an execution comes again only when what came before was
// in flight at a kill, a pause or a cut, or when one of both is a stray. Under the
// epoch of the same owner only where it was another node's worker that was hit,
// or out of reach; from an earlier owner only where it was that one that was cut
// off, and lost the partition meanwhile.
func (c *checker) repeat(before, r Receipt) {
	if c.strayed(before, r) {
		return
	}
	var hits []Fault
	for _, f := range c.Faults {
		if f.interrupts(before, c.InFlight) {
			hits = append(hits, f)
		}
	}
	if len(hits) == 0 {
		c.find("C5", r.Job, "%s came again at %s, and was not in flight at a kill or a pause (first at %s)", r.Execution, r.Received, before.Received)
	}
	if r.Epoch > before.Epoch {
		return
	}
	owner := c.ownerOf(r)
	explained := slices.ContainsFunc(hits, func(f Fault) bool {
		if r.Epoch == before.Epoch {
			return owner != "" && (f.Node != owner || f.network())
		}
		return f.network() && f.Node == owner
	})
	if !explained {
		c.find("C14", r.Job, "%s attempt %d came under epoch %d, and before under %d", r.Execution, r.Attempt, r.Epoch, before.Epoch)
	}
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

func (c *checker) partitionOf(r Receipt) int32 {
	if c.Partitions == 0 {
		return 0
	}
	return c.partition(r.Job)
}

// interrupts tells whether a delivery can have been in flight at a fault: it had
// begun, and its result need not be durable. Nothing planned interrupts anything.
func (f Fault) interrupts(r Receipt, inFlight time.Duration) bool {
	end := f.begun()
	if f.Kind == Paused {
		end = f.At.Add(exact)
	}
	answered := r.Answered
	if answered.IsZero() {
		answered = r.Received
	}
	return (f.Kind == Killed || f.Kind == Paused || f.network()) && r.Received.Before(end) && f.At.Sub(answered) <= inFlight
}

// epochs is C14: once a job was delivered under an epoch, an earlier owner's
// deliveries end within a TTL.
func (c *checker) epochs() {
	type seen struct {
		epoch int64
		since time.Time
	}
	newest := map[string]seen{}
	inOrder := slices.SortedStableFunc(slices.Values(c.Receipts), func(a, b Receipt) int { return a.Received.Compare(b.Received) })
	for _, r := range inOrder {
		s := newest[r.Job]
		switch {
		case r.Epoch > s.epoch:
			newest[r.Job] = seen{r.Epoch, r.Received}
		case r.Epoch < s.epoch && r.Received.Sub(s.since) > TTL:
			c.find("C14", r.Job, "%s came under epoch %d, %s after epoch %d was seen", r.Execution, r.Epoch, r.Received.Sub(s.since), s.epoch)
		}
	}
}

// settled is C18: after the last fault no partition moves any more once the
// recovery bound is over.
func (c *checker) settled() {
	var end time.Time
	for _, f := range c.Faults {
		if f.End.After(end) {
			end = f.End
		}
	}
	for _, o := range c.Takeovers {
		if len(c.Faults) > 0 && o.At.After(end.Add(c.Recovery)) {
			c.find("C18", "", "partition %d went to %s %s after the last fault had ended", o.Partition, o.Node, o.At.Sub(end))
		}
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

// lateness is how late each slot was delivered first that no fault is in the way
// of.
func (h History) lateness() []time.Duration {
	c := checker{History: h}
	first := map[string]bool{}
	var out []time.Duration
	for _, r := range h.Receipts {
		if !first[r.Execution] && c.deadline(r.ScheduledFor).Equal(r.ScheduledFor.Add(h.OnTime)) {
			out = append(out, r.Received.Sub(r.ScheduledFor))
		}
		first[r.Execution] = true
	}
	return out
}

// spread is percentiles of durations as text.
func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	d = slices.Clone(d)
	slices.Sort(d)
	at := func(share float64) time.Duration {
		return d[min(int(share*float64(len(d))), len(d)-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %s, p99 %s, max %s of %d", at(0.5), at(0.99), at(1), len(d))
}
