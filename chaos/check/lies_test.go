package check

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// lie is one thing in a history that is not so. tell returns false where the
// history has nothing that the lie can be about.
type lie struct {
	rule string
	name string
	tell func(h *History, r *rand.Rand) bool
}

// lies are told one at a time, and the right rule has to find each.
var lies = []lie{
	{"C1", "a lost record", dropRecord("plain-0")},
	{"C1", "a record twice", func(h *History, r *rand.Rand) bool {
		rs := h.Records["plain-1"]
		h.Records["plain-1"] = append(rs, rs[r.IntN(len(rs))])
		return true
	}},
	{"C1", "a record of an instant at which nothing is due", editRecord("plain-0", func(x *Record) {
		x.ScheduledFor = x.ScheduledFor.Add(300 * time.Millisecond)
		x.ExecutionID = idOf("plain-0", "1", x.ScheduledFor)
	})},
	{"C1", "a failure that the target did not see", editRecord("plain-2", func(x *Record) { x.Status = "failed" })},
	{"C1", "a slot that is skipped for nothing", editRecord("plain-2", func(x *Record) { x.Status, x.Reason = "skipped", "backlog" })},
	{"C1", "a slot that is missed though somebody could act", editRecord("plain-2", func(x *Record) { x.Status, x.Reason = "missed", "outage" })},
	{"C1", "a slot that a much later delete is said to have cancelled", func(h *History, r *rand.Rand) bool {
		return edit(h, idOf("edited", "1", at(6)), func(x *Record) { x.Status, x.Reason = "cancelled", "the job was deleted" })
	}},
	{"C1", "a skip without a reason", editWhere("edited", func(x Record) bool { return x.Status == "skipped" }, func(x *Record) { x.Reason = "" })},
	{"C1", "a range that counts a slot too many", editWhere("edited", func(x Record) bool { return x.Range != nil }, func(x *Record) { x.Range = &Range{x.Range.First, x.Range.Last, x.Range.Count + 1} })},
	{"C1", "a range that covers a slot that ran", editWhere("asleep-none-1-1s", func(x Record) bool { return x.Range != nil }, func(x *Record) {
		x.Range = &Range{x.Range.First, x.Range.Last.Add(time.Second), x.Range.Count + 1}
	})},
	{"C2", "one millisecond early", editReceipt("plain-0", func(x *Receipt) { x.Received = x.ScheduledFor.Add(-time.Millisecond) })},
	{"C2", "five milliseconds early", editReceipt("plain-1", func(x *Receipt) { x.Received = x.ScheduledFor.Add(-5 * time.Millisecond) })},
	{"C2", "early by more than the owner's clock is fast", early(600*time.Millisecond, true)},
	{"C2", "early beside another node whose clock is fast", early(400*time.Millisecond, false)},
	{"C3", "late for no reason", editCalm("plain-0", func(x *Receipt) { x.Received = x.Received.Add(1600 * time.Millisecond) })},
	{"C3", "later than a recovery takes", func(h *History, r *rand.Rand) bool {
		i := slices.IndexFunc(h.Receipts, func(x Receipt) bool { return x.Job == "plain-0" && x.ScheduledFor.After(at(72)) })
		h.Receipts[i].Received = h.Receipts[i].Received.Add(11 * time.Second)
		return true
	}},
	{"C4", "a second id in the history", editRecord("plain-0", func(x *Record) { x.ExecutionID += "x" })},
	{"C4", "another generation", editRecord("plain-0", func(x *Record) { x.ExecutionID = idOf("plain-0", "7", x.ScheduledFor) })},
	{"C4", "a generation that comes back", editWhere("edited", func(x Record) bool { return strings.Contains(x.ExecutionID, "~2~") }, func(x *Record) {
		x.ExecutionID = strings.Replace(x.ExecutionID, "~2~", "~1~", 1)
	})},
	{"C4", "a second id at the target", copyReceipt("plain-1", func(x *Receipt) { x.Execution += "0"; x.Key = x.Execution })},
	{"C4", "two slots under one id", copyCalm("plain-1", func(x *Receipt) { x.ScheduledFor = x.ScheduledFor.Add(time.Second) })},
	{"C5", "another key", editReceipt("plain-0", func(x *Receipt) { x.Key = "k" })},
	{"C5", "another key for a repeat", copyReceipt("plain-0", func(x *Receipt) { x.Key += "-2" })},
	{"C5", "a repeat without a fault", copyCalm("plain-2", later(2*time.Second, 0))},
	{"C5", "a repeat soon, without a fault", copyCalm("plain-2", later(50*time.Millisecond, 0))},
	{"C5", "a repeat under a later epoch, without a fault", copyCalm("plain-2", later(time.Second, 1))},
	{"C5", "a repeat whose fault was a planned restart", onFault(Killed, func(h *History, f *Fault) bool { return repeated(h, f) && mend(f, Restarted) })},
	{"C5", "a repeat because a node joined", onFault(Paused, func(h *History, f *Fault) bool { return repeated(h, f) && mend(f, Joined) })},
	{"C5", "a repeat because a clock was wrong", onFault(Killed, func(h *History, f *Fault) bool { return repeated(h, f) && mend(f, Skewed) })},
	{"C6", "a delivery after a success", copyCalm("failing", later(5*time.Second, 0))},
	{"C6", "a delivery of what was known to be recorded before a kill", func(h *History, _ *rand.Rand) bool {
		for _, f := range h.Faults {
			i := slices.IndexFunc(h.Receipts, func(x Receipt) bool {
				return x.succeeded() && !x.Answered.IsZero() && x.Answered.Before(f.At) && f.At.Sub(x.Answered) < h.InFlight && f.Kind == Killed
			})
			if i >= 0 {
				h.Receipts[i].Recorded = h.Receipts[i].Answered
				again := h.Receipts[i]
				again.Received = f.End.Add(time.Second)
				again.Answered, again.Recorded = again.Received, again.Received
				h.Receipts = append(h.Receipts, again)
				return true
			}
		}
		return false
	}},
	{"C6", "another attempt after a success", func(h *History, r *rand.Rand) bool {
		i := slices.IndexFunc(h.Receipts, func(x Receipt) bool { return x.Job == "failing" && x.Attempt == 1 && x.succeeded() })
		x := h.Receipts[i]
		x.Attempt, x.Received = 2, x.Answered.Add(1200*time.Millisecond)
		h.Receipts = append(h.Receipts, x)
		return true
	}},
	{"C7", "a delivery after the delete", stolen("edited", at(100.5), "1")},
	{"C7", "a delivery during the pause", stolen("edited", at(52.5), "1")},
	{"C7", "a success that is recorded in the pause", func(h *History, r *rand.Rand) bool {
		return replaceRange(h, "edited", at(52.5), "succeeded")
	}},
	{"C8", "a slot of the schedule before the update", func(h *History, r *rand.Rand) bool { return late(h, "edited", at(32)) }},
	{"C8", "both schedules while the update is under way", func(h *History, r *rand.Rand) bool {
		j := job(h, "edited")
		j.Ops[1].Return = at(33.9)
		return late(h, "edited", at(32))
	}},
	{"C8", "a delivery of the schedule before", stolen("edited", at(32), "1")},
	{"C9", "a hole in what was registered after all", func(h *History, r *rand.Rand) bool {
		rs := h.Records["ambiguous"]
		if len(rs) == 0 {
			return false
		}
		i := 1 + r.IntN(len(rs)-2)
		h.Records["ambiguous"] = slices.Delete(slices.Clone(rs), i, i+1)
		return true
	}},
	{"C10", "a dependent before its upstream", func(h *History, r *rand.Rand) bool {
		x := receiptOf(h, h.Runs[r.IntN(len(h.Runs))].Upstream[0])
		x.Received = x.Received.Add(200 * time.Millisecond)
		x.Answered = x.Received
		return true
	}},
	{"C10", "a dependent of a failure", func(h *History, r *rand.Rand) bool {
		return edit(h, h.Runs[r.IntN(len(h.Runs))].Upstream[0], func(x *Record) { x.Status = "failed" })
	}},
	{"C10", "a dependent of nothing", func(h *History, r *rand.Rand) bool {
		h.Runs[0].Upstream = []string{"parent~1~20250101T000000.000Z"}
		return true
	}},
	{"C11", "a hole in the attempts", func(h *History, r *rand.Rand) bool {
		i := slices.IndexFunc(h.Receipts, func(x Receipt) bool { return x.Job == "failing" && x.Attempt == 3 })
		h.Receipts = slices.Delete(h.Receipts, i-1, i) // attempt 2
		return true
	}},
	{"C11", "a retry too soon", func(h *History, r *rand.Rand) bool {
		i := slices.IndexFunc(h.Receipts, func(x Receipt) bool { return x.Job == "failing" && x.Attempt == 3 })
		h.Receipts[i].Received = h.Receipts[i-1].Answered.Add(300 * time.Millisecond)
		return true
	}},
	{"C11", "an attempt after a final answer", func(h *History, r *rand.Rand) bool {
		i := slices.IndexFunc(h.Receipts, func(x Receipt) bool { return x.Job == "failing" && x.Attempt == 2 })
		h.Receipts[i-1].Status = 404
		return true
	}},
	{"C11", "more attempts than are allowed", func(h *History, r *rand.Rand) bool { job(h, "failing").Retry.MaxAttempts = 2; return true }},
	{"C11", "a dead letter with attempts left", editWhere("failing", func(x Record) bool { return x.AttemptCount == 2 }, func(x *Record) { x.Status = "failed" })},
	{"C11", "a dead letter that succeeded", editWhere("failing", func(x Record) bool { return x.AttemptCount == 3 && x.Status == "succeeded" }, func(x *Record) { x.Status = "failed" })},
	{"C11", "a success that failed each time", editWhere("failing", func(x Record) bool { return x.Status == "failed" }, func(x *Record) { x.Status = "succeeded" })},
	{"C12", "two executions at a time", func(h *History, r *rand.Rand) bool {
		for i := range h.Receipts {
			if h.Receipts[i].Job == "single" {
				h.Receipts[i].Answered = h.Receipts[i].Received.Add(4500 * time.Millisecond)
			}
		}
		return true
	}},
	{"C12", "a slot skipped for an execution that did not run", func(h *History, r *rand.Rand) bool {
		for i := range h.Receipts {
			if h.Receipts[i].Job == "single" {
				h.Receipts[i].Answered = h.Receipts[i].Received.Add(5 * time.Millisecond)
			}
		}
		return true
	}},
	{"C13", "a token that does not grow", editLease(func(l Lease) bool { return !l.Complete && l.Worker == "w2" }, func(l *Lease) { l.Token = Token{0, 0} })},
	{"C13", "two completions", editLease(func(l Lease) bool { return l.Repeat }, func(l *Lease) { l.Repeat = false })},
	{"C13", "a completion under an old token", editLease(func(l Lease) bool { return l.Complete && !l.Accepted }, func(l *Lease) { l.Accepted = true })},
	{"C13", "a completion of what nobody was granted", editLease(func(l Lease) bool { return l.Accepted }, func(l *Lease) { l.Execution += "0" })},
	{"C14", "two owners under one epoch", func(h *History, r *rand.Rand) bool {
		o := h.Takeovers[r.IntN(len(h.Takeovers))]
		o.Node = "n9"
		h.Takeovers = append(h.Takeovers, o)
		return true
	}},
	{"C14", "epochs that fall", func(h *History, r *rand.Rand) bool {
		o := h.Takeovers[len(h.Takeovers)-1]
		o.Epoch, o.At = 1000, dawn.Add(-time.Hour)
		h.Takeovers = append(h.Takeovers, o)
		return true
	}},
	{"C14", "an earlier owner, long after", func(h *History, r *rand.Rand) bool {
		for i, x := range h.Receipts {
			if x.Job == "plain-0" && x.ScheduledFor.After(at(80)) && h.Receipts[i-1].Epoch > 4 {
				h.Receipts[i].Epoch = 1
				return true
			}
		}
		return false
	}},
	{"C14", "a repeat in one epoch, though its owner died", onFault(Killed, sameEpoch)},
	{"C14", "many sends of an earlier owner after its pause", onFault(Paused, func(h *History, f *Fault) bool {
		n := 0
		for _, x := range slices.Clone(h.Receipts) {
			if x.Epoch > 1 && x.ScheduledFor.After(f.End.Add(-5*time.Second)) && x.ScheduledFor.Before(f.End) && ownerBefore(h, x, f) {
				x.Received, x.Epoch = f.End.Add(100*time.Millisecond), x.Epoch-1
				h.Receipts = append(h.Receipts, x)
				n++
			}
		}
		return n > mostStrays
	})},
	{"C15", "a send while cut off", onFault(CutOff, func(h *History, f *Fault) bool {
		for i, x := range h.Receipts {
			if x.Received.After(f.At.Add(storyTTL+time.Second)) && x.Received.Before(f.End) && ownerBefore(h, x, f) {
				h.Receipts[i].Epoch = before(h, x, f).Epoch
				return true
			}
		}
		return false
	})},
	{"C16", "a success that nobody received", func(h *History, r *rand.Rand) bool {
		id := h.Receipts[r.IntN(50)].Execution
		h.Receipts = slices.DeleteFunc(h.Receipts, func(x Receipt) bool { return x.Execution == id })
		return true
	}},
	{"C16", "a receipt without a record", dropRecord("plain-1")},
	{"C16", "an attempt that is not recorded", editWhere("failing", func(x Record) bool { return x.AttemptCount == 2 }, func(x *Record) { x.AttemptCount = 1 })},
	{"C16", "an attempt that nobody received", editRecord("parent", func(x *Record) { x.AttemptCount = 2 })},
	{"C16", "a success that was none", editCalm("plain-2", func(x *Receipt) { x.Status = 500 })},
	{"C17", "an execution that never ends", editRecord("plain-0", func(x *Record) { x.Status = "retrying" })},
	{"C17", "a sum that is short", dropRecord("plain-2")},
	{"C18", "a partition that moves long after", func(h *History, r *rand.Rand) bool {
		h.Takeovers = append(h.Takeovers, Takeover{3, 999, "n1", at(140)})
		return true
	}},
	{"C18", "a partition without an owner", func(h *History, r *rand.Rand) bool { delete(h.End.Owners, int32(r.IntN(16))); return true }},
	{"C18", "a partition with two", func(h *History, r *rand.Rand) bool { h.End.Owners[2] = []string{"n1", "n2"}; return true }},
	{"C18", "a queue that does not drain", func(h *History, r *rand.Rand) bool { h.End.Waiting = 3; return true }},
	{"C18", "a helping hand", func(h *History, r *rand.Rand) bool { h.End.ByHand = 1; return true }},
	{"C19", "one key, two effects", func(h *History, r *rand.Rand) bool { h.Calls[1].Effect = "c"; return true }},
	{"C20", "none, and one fired", caught("asleep-none-1-1s", at(105))},
	{"C20", "latest, and another fired", caught("asleep-latest-1-1s", at(105))},
	{"C20", "all, and not the newest", caught("asleep-all-5-1s", at(105))},
	{"C20", "all, and one too many", func(h *History, r *rand.Rand) bool { job(h, "asleep-all-5-1s").CatchUp.Max = 2; return true }},
	{"C20", "all, and too few", func(h *History, r *rand.Rand) bool { job(h, "asleep-all-5-1s").CatchUp.Max = 50; return true }},
	{"C20", "a gap within the grace, and it was judged", func(h *History, r *rand.Rand) bool { job(h, "asleep-none-1-1s").CatchUp.Grace = time.Hour; return true }},
	{"C21", "each delivery under the label of the one before", func(h *History, r *rand.Rand) bool {
		// As if the product fired each slot one early, and named it as the next.
		for i := range h.Receipts {
			if h.Receipts[i].Job == "parent" {
				h.Receipts[i].Received = h.Receipts[i].Received.Add(-4 * time.Second)
			}
		}
		return true
	}},
	{"C22", "a signature that does not verify", editReceipt("plain-1", func(x *Receipt) { x.Signature = Forged })},
	{"C22", "no signature", editReceipt("plain-1", func(x *Receipt) { x.Signature = Unsigned })},
}

func TestLiesAreCaught(t *testing.T) {
	rules := map[string]bool{}
	for _, l := range lies {
		told := 0
		for seed := uint64(0); seed < 60 && told < 3; seed++ {
			h := tell(seed)
			if !l.tell(&h, rand.New(rand.NewPCG(seed, 9))) {
				continue
			}
			told++
			found := h.Check()
			if !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == l.rule }) {
				t.Errorf("%s, %s, seed %d: the rule is silent: %v", l.rule, l.name, seed, Text(found))
				break
			}
		}
		if told < 3 {
			t.Errorf("%s, %s: told in %d histories of 60", l.rule, l.name, told)
		}
		rules[l.rule] = true
	}
	if len(lies) < 30 || len(rules) != 22 {
		t.Errorf("%d lies about %d rules", len(lies), len(rules))
	}
}

// calm is a time in which nothing is wrong, long after anything was and before
// anything is.
func calm(x Receipt) bool { return x.ScheduledFor.After(at(126)) && x.ScheduledFor.Before(at(139)) }

func job(h *History, id string) *Job {
	i := slices.IndexFunc(h.Jobs, func(j Job) bool { return j.ID == id })
	j := &h.Jobs[i]
	j.Ops = slices.Clone(j.Ops)
	return j
}

func editReceiptWhere(job string, is func(Receipt) bool, change func(*Receipt), add bool) func(*History, *rand.Rand) bool {
	return func(h *History, r *rand.Rand) bool {
		var which []int
		for i, x := range h.Receipts {
			if x.Job == job && is(x) {
				which = append(which, i)
			}
		}
		x := h.Receipts[which[r.IntN(len(which))]]
		if add {
			change(&x)
			h.Receipts = append(h.Receipts, x)
			return true
		}
		change(&h.Receipts[which[r.IntN(len(which))]])
		return true
	}
}

func whichever(Receipt) bool { return true }

func editReceipt(job string, change func(*Receipt)) func(*History, *rand.Rand) bool {
	return editReceiptWhere(job, whichever, change, false)
}

func editCalm(job string, change func(*Receipt)) func(*History, *rand.Rand) bool {
	return editReceiptWhere(job, calm, change, false)
}

func copyReceipt(job string, change func(*Receipt)) func(*History, *rand.Rand) bool {
	return editReceiptWhere(job, whichever, change, true)
}

func copyCalm(job string, change func(*Receipt)) func(*History, *rand.Rand) bool {
	return editReceiptWhere(job, func(x Receipt) bool { return calm(x) && x.succeeded() }, change, true)
}

func later(d time.Duration, epochs int64) func(*Receipt) {
	return func(x *Receipt) {
		x.Received, x.Answered, x.Epoch = x.Answered.Add(d), x.Answered.Add(d+time.Millisecond), x.Epoch+epochs
	}
}

func dropRecord(job string) func(*History, *rand.Rand) bool {
	return func(h *History, r *rand.Rand) bool {
		i := r.IntN(len(h.Records[job]))
		h.Records[job] = slices.Delete(slices.Clone(h.Records[job]), i, i+1)
		return true
	}
}

func editRecord(job string, change func(*Record)) func(*History, *rand.Rand) bool {
	return editWhere(job, func(Record) bool { return true }, change)
}

func editWhere(job string, is func(Record) bool, change func(*Record)) func(*History, *rand.Rand) bool {
	return func(h *History, r *rand.Rand) bool {
		var which []int
		for i, x := range h.Records[job] {
			if is(x) {
				which = append(which, i)
			}
		}
		change(&h.Records[job][which[r.IntN(len(which))]])
		return true
	}
}

func edit(h *History, id string, change func(*Record)) bool {
	for _, rs := range h.Records {
		for i := range rs {
			if rs[i].ExecutionID == id {
				change(&rs[i])
				return true
			}
		}
	}
	return false
}

func receiptOf(h *History, id string) *Receipt {
	return &h.Receipts[slices.IndexFunc(h.Receipts, func(x Receipt) bool { return x.Execution == id })]
}

func editLease(is func(Lease) bool, change func(*Lease)) func(*History, *rand.Rand) bool {
	return func(h *History, r *rand.Rand) bool {
		change(&h.Leases[slices.IndexFunc(h.Leases, is)])
		return true
	}
}

// early has a delivery come before its time while a node's clock is half a second
// fast: that of its owner, or of another one.
func early(by time.Duration, owners bool) func(*History, *rand.Rand) bool {
	return func(h *History, r *rand.Rand) bool {
		i := slices.IndexFunc(h.Receipts, func(x Receipt) bool { return x.Job == "plain-0" && calm(x) })
		x := &h.Receipts[i]
		node := newChecker(*h).ownerOf(*x)
		if !owners {
			node = "n4"
		}
		h.Faults = append(h.Faults, Fault{Kind: Skewed, Node: node, At: x.Received.Add(-time.Second), End: x.Received.Add(time.Second), Ahead: 500 * time.Millisecond})
		x.Received = x.ScheduledFor.Add(-by)
		return true
	}
}

// onFault tells a lie about the first fault of a kind.
func onFault(kind FaultKind, tell func(*History, *Fault) bool) func(*History, *rand.Rand) bool {
	return func(h *History, r *rand.Rand) bool {
		i := slices.IndexFunc(h.Faults, func(f Fault) bool { return f.Kind == kind })
		return i >= 0 && tell(h, &h.Faults[i])
	}
}

func mend(f *Fault, kind FaultKind) bool { f.Kind = kind; return true }

// repeated: something that was in flight at a fault came again.
func repeated(h *History, f *Fault) bool {
	first := map[string]Receipt{}
	for _, x := range h.Receipts {
		if one, ok := first[x.Execution]; ok && x.Received.After(f.At) && one.Received.Before(f.At) && f.At.Sub(one.Answered) < h.InFlight {
			return true
		}
		first[x.Execution] = x
	}
	return false
}

// sameEpoch has the owner that died repeat a delivery itself.
func sameEpoch(h *History, f *Fault) bool {
	for i, x := range h.Receipts {
		if i > 0 && h.Receipts[i-1].Execution == x.Execution && h.Receipts[i-1].Epoch < x.Epoch && x.Received.After(f.At) && h.Receipts[i-1].Received.Before(f.At) && before(h, x, f).Node == f.Node {
			h.Receipts[i].Epoch = h.Receipts[i-1].Epoch
			return true
		}
	}
	return false
}

// before is who owned the partition of a delivery when a fault began.
func before(h *History, x Receipt, f *Fault) Takeover {
	var last Takeover
	for _, o := range h.Takeovers {
		if o.Partition == h.Partition(x.Job) && !o.At.After(f.At) {
			last = o
		}
	}
	return last
}

func ownerBefore(h *History, x Receipt, f *Fault) bool { return before(h, x, f).Node == f.Node }

// stolen has a slot delivered that is none of the job's any more.
func stolen(job string, slot time.Time, generation string) func(*History, *rand.Rand) bool {
	return func(h *History, r *rand.Rand) bool {
		h.Faults = h.Faults[:0]
		id := idOf(job, generation, slot)
		h.Receipts = append(h.Receipts, Receipt{Execution: id, Job: job, Key: id, ScheduledFor: slot, Attempt: 1, Epoch: 99, Received: slot, Answered: slot, Status: 200})
		return true
	}
}

// late records a success of a slot.
func late(h *History, job string, slot time.Time) bool {
	h.Faults = h.Faults[:0]
	h.Records[job] = append(h.Records[job], Record{ExecutionID: idOf(job, "1", slot), ScheduledFor: slot, Status: "succeeded", AttemptCount: 1})
	return true
}

// replaceRange has a slot of a range end otherwise.
func replaceRange(h *History, job string, slot time.Time, status string) bool {
	h.Faults = h.Faults[:0]
	h.Records[job] = append(h.Records[job], Record{ExecutionID: idOf(job, "1", slot), ScheduledFor: slot, Status: status, AttemptCount: 1})
	return true
}

// caught has a slot of an outage fire that was missed.
func caught(job string, slot time.Time) func(*History, *rand.Rand) bool {
	return func(h *History, r *rand.Rand) bool {
		rs := h.Records[job]
		i := slices.IndexFunc(rs, func(x Record) bool { return x.Range != nil })
		g := *rs[i].Range
		if !slot.After(g.First) || !slot.Before(g.Last) {
			return false
		}
		step := time.Second
		rs[i].Range = &Range{g.First, slot.Add(-step), int(slot.Sub(g.First) / step)}
		rs[i].ScheduledFor = slot.Add(-step)
		rs[i].ExecutionID = idOf(job, "1", rs[i].ScheduledFor)
		h.Records[job] = append(rs, Record{ExecutionID: idOf(job, "1", slot), ScheduledFor: slot, Status: "succeeded", AttemptCount: 1}, Record{
			ExecutionID: idOf(job, "1", g.Last), ScheduledFor: g.Last, Status: "missed", Reason: "outage", Range: &Range{slot.Add(step), g.Last, int(g.Last.Sub(slot) / step)},
		})
		return true
	}
}
