package check

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// story makes a history in which nothing is wrong, with everything that may
// happen in one: the same seed, the same history.
type story struct {
	r    *rand.Rand
	h    History
	next map[int32]int64 // epochs
}

var (
	dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dusk = at(150)
)

// at is so many seconds into the story.
func at(s float64) time.Time { return dawn.Add(time.Duration(s * float64(time.Second))) }

const storyTTL = 3 * time.Second

func tell(seed uint64) History {
	s := &story{r: rand.New(rand.NewPCG(seed, 3)), next: map[int32]int64{}}
	s.h = History{
		Records: map[string][]Record{}, InFlight: time.Second, Partitions: 16, TTL: storyTTL, OnTime: 500 * time.Millisecond, Recovery: 8 * time.Second,
	}
	s.faults()
	for i := range 3 {
		s.plain(fmt.Sprint("plain-", i))
	}
	s.edited("edited")
	s.ambiguous("ambiguous")
	s.failing("failing")
	s.single("single")
	s.asleep("asleep")
	s.graph()
	s.workers()
	s.h.Calls = []Call{{"k1", Accepted, "a"}, {"k1", Accepted, "a"}, {"k2", Accepted, "b"}, {"k1", Unknown, ""}}
	s.h.End = &End{Owners: map[int32][]string{}}
	for p := range int32(16) {
		s.h.End.Owners[p] = []string{s.owner(p, dusk).Node}
	}
	return s.h
}

// ms is a time of so many milliseconds, from a to b.
func (s *story) ms(a, b int) time.Duration {
	return time.Duration(a+s.r.IntN(b-a+1)) * time.Millisecond
}

// faults happen to three nodes, each when the one before is long over.
func (s *story) faults() {
	for p := range int32(16) {
		s.take(p, fmt.Sprint("n", p%3+1), dawn.Add(-time.Second))
	}
	for _, begin := range []float64{15, 40, 65} {
		kind := []FaultKind{Killed, Paused, CutOff, Restarted, Joined}[s.r.IntN(5)]
		f := Fault{Kind: kind, Node: fmt.Sprint("n", s.r.IntN(3)+1), At: at(begin).Add(s.ms(0, 900))}
		after := s.ms(1000, 2500)
		switch kind {
		case Killed:
			f.End = f.At.Add(10 * time.Millisecond)
		case Paused, CutOff:
			f.End, after = f.At.Add(6*time.Second), storyTTL+s.ms(100, 900)
		default:
			f.End, after = f.At.Add(time.Second), s.ms(10, 200)
		}
		s.h.Faults = append(s.h.Faults, f)
		for p := range int32(16) {
			if s.owner(p, f.At).Node == f.Node && kind != Joined {
				s.take(p, map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}[f.Node], f.At.Add(after))
			}
		}
	}
	s.h.Faults = append(s.h.Faults, Fault{Kind: Outage, At: at(90), End: at(115)})
}

func (s *story) take(p int32, node string, when time.Time) {
	s.next[p] += int64(1 + s.r.IntN(3))
	s.h.Takeovers = append(s.h.Takeovers, Takeover{p, s.next[p], node, when})
}

// owner is who has a partition at a time.
func (s *story) owner(p int32, when time.Time) Takeover {
	var last Takeover
	for _, o := range s.h.Takeovers {
		if o.Partition == p && !o.At.After(when) {
			last = o
		}
	}
	return last
}

// send delivers a slot and notes its record: late when its owner is hit, and
// again when it was in flight then.
func (s *story) send(job string, slot time.Time) {
	id := idOf(job, "1", slot)
	s.h.Records[job] = append(s.h.Records[job], Record{ExecutionID: id, ScheduledFor: slot, Status: "succeeded", AttemptCount: 1})
	p := s.h.Partition(job)
	when := slot.Add(s.ms(1, 40))
	r := Receipt{Execution: id, Job: job, Key: id, ScheduledFor: slot, Attempt: 1, Status: 200, Signature: Verified}
	for _, f := range s.h.Faults {
		if f.Kind == Outage {
			if slot.After(f.At) && slot.Before(f.End) {
				when = f.End.Add(s.ms(100, 3000)) // armed, or caught up
			}
			continue
		}
		if f.Kind == Restarted || f.Kind == Joined {
			continue
		}
		mine := s.owner(p, f.At).Node == f.Node
		took := s.taken(p, f)
		trusted := f.At
		if f.Kind == CutOff {
			trusted = f.At.Add(2500 * time.Millisecond)
		}
		switch {
		case mine && when.After(trusted) && when.Before(took):
			when = took.Add(s.ms(10, 400))
		case mine && when.Before(trusted) && trusted.Sub(when) < 900*time.Millisecond && s.r.IntN(2) == 0:
			s.receive(r, when, s.owner(p, f.At).Epoch)
			s.receive(r, took.Add(s.ms(10, 400)), s.owner(p, took).Epoch)
			return
		case !mine && f.Kind != CutOff && when.Before(f.At) && f.At.Sub(when) < 900*time.Millisecond && s.r.IntN(4) == 0: // its worker is hit
			s.receive(r, when, s.owner(p, when).Epoch)
			s.receive(r, f.At.Add(s.ms(1500, 2500)), s.owner(p, when).Epoch)
			return
		}
	}
	s.receive(r, when, s.owner(p, when).Epoch)
}

// taken is when another has a partition of the node that a fault hits.
func (s *story) taken(p int32, f Fault) time.Time {
	for _, o := range s.h.Takeovers {
		if o.Partition == p && o.At.After(f.At) {
			return o.At
		}
	}
	return f.At
}

func (s *story) receive(r Receipt, when time.Time, epoch int64) {
	r.Received, r.Epoch = when, epoch
	r.Answered = when.Add(s.ms(1, 30))
	s.h.Receipts = append(s.h.Receipts, r)
}

// plain runs all the time.
func (s *story) plain(id string) {
	j := Once(id, Interval{First: at(1).Add(s.ms(0, 999)), Every: time.Second})
	j.Until, j.Signed = dusk, true
	s.h.Jobs = append(s.h.Jobs, j)
	for _, x := range j.due(dusk.Add(-1)) {
		s.send(id, x.at)
	}
}

// edited is registered, moved, paused, resumed, deleted and registered again.
func (s *story) edited(id string) {
	first, second := Interval{First: at(0), Every: 2 * time.Second}, Interval{First: at(0.5), Every: 2 * time.Second}
	op := func(v Verb, from float64, sch Schedule) Op {
		return Op{Verb: v, Call: at(from), Return: at(from).Add(s.ms(20, 600)), Schedule: sch}
	}
	j := Job{ID: id, Until: dusk, Ops: []Op{op(Register, 2.1, first), op(Update, 27.8, second), op(Pause, 34.1, nil), op(Resume, 60.2, nil), op(Delete, 84.3, nil), op(Register, 120.1, first)}}
	s.h.Jobs = append(s.h.Jobs, j)
	for _, x := range j.due(dusk.Add(-1)) {
		slot := x.at
		switch {
		case x.life == 1:
			s.again(id, slot)
		case x.fires && (x.must || !slot.After(j.opAt(slot).Return)):
			s.send(id, slot)
		case x.ended == Delete && slot.Before(at(87)):
			s.h.Records[id] = append(s.h.Records[id], Record{ExecutionID: idOf(id, "1", slot), ScheduledFor: slot, Status: "cancelled", Reason: "deleted"})
		}
	}
	paused := Interval{First: at(36.5), Every: 2 * time.Second}.Due(at(35), at(60))
	last := paused[len(paused)-1]
	s.h.Records[id] = append(s.h.Records[id], Record{
		ExecutionID: idOf(id, "1", last), ScheduledFor: last, Status: "skipped", Reason: "paused", Range: &Range{paused[0], last, len(paused)},
	})
}

// opAt is the operation that is under way at a time.
func (j *Job) opAt(when time.Time) Op {
	for _, o := range j.Ops {
		if when.After(o.Call) && !when.After(o.Return) {
			return o
		}
	}
	return Op{}
}

// again is send in the second life of a job.
func (s *story) again(id string, slot time.Time) {
	n := len(s.h.Receipts)
	s.send(id, slot)
	second := idOf(id, "2", slot)
	for i := n; i < len(s.h.Receipts); i++ {
		s.h.Receipts[i].Execution, s.h.Receipts[i].Key = second, second
	}
	s.h.Records[id][len(s.h.Records[id])-1].ExecutionID = second
}

// ambiguous was registered, and nobody said so.
func (s *story) ambiguous(id string) {
	j := Job{ID: id, Until: dusk, Ops: []Op{{Verb: Register, Call: at(3), Return: at(6), Outcome: Unknown, Schedule: Cron{Expr: "*/5 * * * * *", Zone: "UTC"}}}}
	s.h.Jobs = append(s.h.Jobs, j)
	if s.r.IntN(3) == 0 {
		return
	}
	for _, x := range j.due(dusk.Add(-1)) {
		if x.at.After(at(9)) {
			s.send(id, x.at)
		}
	}
}

// failing has a target that fails.
func (s *story) failing(id string) {
	j := Once(id, Interval{First: at(118), Every: 3 * time.Second})
	j.Until, j.MayFail = at(140), true
	j.Retry = &Retry{MaxAttempts: 3, Initial: 500 * time.Millisecond, Multiplier: 2, Max: 10 * time.Second, Jitter: 0.2}
	s.h.Jobs = append(s.h.Jobs, j)
	for i, x := range j.due(j.Until.Add(-1)) {
		failures := i % 4
		s.attempts(id, x.at, min(failures, 3), failures < 3)
	}
}

func (s *story) attempts(job string, slot time.Time, failures int, ends bool) {
	id := idOf(job, "1", slot)
	when := slot.Add(s.ms(1, 20))
	made := failures
	epoch := s.owner(s.h.Partition(job), when).Epoch
	for n := 1; n <= failures; n++ {
		s.receive(Receipt{Execution: id, Job: job, Key: id, ScheduledFor: slot, Attempt: n, Status: 500}, when, epoch)
		when = s.h.Receipts[len(s.h.Receipts)-1].Answered.Add(time.Duration(n) * 500 * time.Millisecond)
	}
	status := "failed"
	if ends {
		made++
		status = "succeeded"
		s.receive(Receipt{Execution: id, Job: job, Key: id, ScheduledFor: slot, Attempt: made, Status: 200}, when, epoch)
	}
	s.h.Records[job] = append(s.h.Records[job], Record{ExecutionID: id, ScheduledFor: slot, Status: status, AttemptCount: made})
}

// single runs one execution at a time, each for longer than its interval.
func (s *story) single(id string) {
	j := Once(id, Interval{First: at(126), Every: 2 * time.Second})
	j.Until, j.Overlap = at(140), Skip
	s.h.Jobs = append(s.h.Jobs, j)
	for i, x := range j.due(j.Until.Add(-1)) {
		exec := idOf(id, "1", x.at)
		if i%2 == 1 {
			s.h.Records[id] = append(s.h.Records[id], Record{ExecutionID: exec, ScheduledFor: x.at, Status: "skipped", Reason: "overlap"})
			continue
		}
		s.send(id, x.at)
		s.h.Receipts[len(s.h.Receipts)-1].Answered = x.at.Add(2500 * time.Millisecond)
	}
}

// asleep are jobs that miss slots in the outage, each with a policy.
func (s *story) asleep(id string) {
	for _, p := range []CatchUp{{Latest, 1, time.Hour, time.Second}, {All, 5, time.Hour, time.Second}, {All, 100, 8 * time.Second, time.Second}, {None, 1, time.Hour, time.Second}, {None, 1, time.Hour, time.Hour}} {
		name := fmt.Sprint(id, "-", p.Policy, "-", p.Max, "-", p.Grace)
		j := Once(name, Interval{First: at(80), Every: time.Second})
		j.Until, j.CatchUp = dusk, &p
		s.h.Jobs = append(s.h.Jobs, j)
		s.outage(j, name)
	}
}

func (s *story) outage(j Job, id string) {
	back := at(116)
	var missed []time.Time
	all := j.due(dusk.Add(-1))
	gap := 0
	for _, x := range all {
		if x.at.After(at(92)) && !x.at.After(back) {
			gap++
		}
	}
	for _, x := range all {
		fires := true
		if x.at.After(at(92)) && !x.at.After(back) && j.CatchUp.Grace < time.Minute {
			switch p := j.CatchUp; p.Policy {
			case Latest:
				fires = gap == 1
			case All:
				fires = gap <= p.Max && x.at.After(back.Add(-p.Window))
			case None:
				fires = false
			}
			gap--
		}
		if fires {
			s.send(id, x.at)
		} else {
			missed = append(missed, x.at)
		}
	}
	if n := len(missed); n > 0 {
		s.h.Records[id] = append(s.h.Records[id], Record{
			ExecutionID: idOf(id, "1", missed[n-1]), ScheduledFor: missed[n-1], Status: "missed", Reason: "outage", Range: &Range{missed[0], missed[n-1], n},
		})
	}
}

// graph is a dependent of one upstream.
func (s *story) graph() {
	parent := Once("parent", Interval{First: at(120), Every: 4 * time.Second})
	parent.Until = at(140)
	s.h.Jobs = append(s.h.Jobs, parent, Job{ID: "child", Until: dusk})
	for i, x := range parent.due(parent.Until.Add(-1)) {
		s.send("parent", x.at)
		up := s.h.Receipts[len(s.h.Receipts)-1]
		id := fmt.Sprintf("child~1~dh%d~%s", i, x.at.Format("20060102T150405.000Z"))
		s.receive(Receipt{Execution: id, Job: "child", Key: id, ScheduledFor: x.at, Attempt: 1, Status: 200}, up.Answered.Add(s.ms(1, 50)), s.owner(s.h.Partition("child"), x.at).Epoch)
		s.h.Records["child"] = append(s.h.Records["child"], Record{ExecutionID: id, ScheduledFor: x.at, Status: "succeeded", AttemptCount: 1})
		s.h.Runs = append(s.h.Runs, Run{id, []string{up.Execution}})
	}
}

// workers claim executions of a queue, lose some, and complete each once.
func (s *story) workers() {
	for i := range 10 {
		id := idOf("queued", "1", at(float64(i)))
		when := at(float64(i))
		lease := func(l Lease) {
			when = when.Add(s.ms(1, 500))
			l.Execution, l.At = id, when
			s.h.Leases = append(s.h.Leases, l)
		}
		first, second := Token{1, int64(i)}, Token{int64(1 + i%2), int64(i + 1)}
		lease(Lease{Worker: "w1", Token: first})
		if i%3 == 0 {
			lease(Lease{Worker: "w2", Token: second})
			lease(Lease{Worker: "w1", Token: first, Complete: true})
			first = second
		}
		lease(Lease{Worker: "w2", Token: first, Complete: true, Accepted: true})
		lease(Lease{Worker: "w2", Token: first, Complete: true, Accepted: true, Repeat: true})
	}
}
