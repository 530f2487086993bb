package execution

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// slotLine is a line for slots.
func slotLine(slots int) *line { return newLine(slots, nil, &pledges{offers: map[int64]*offer{}}) }

// at is a delivery to a host.
func at(d *belfryv1.Delivery, host string) *belfryv1.Delivery {
	d.Target = &belfryv1.Target{Kind: &belfryv1.Target_Http{Http: &belfryv1.HTTPTarget{Url: "https://" + host + "/hook"}}}
	return d
}

// check holds a ledger against its invariants.
func (l *ledger) check(t interface{ Fatalf(string, ...any) }) {
	if used := len(l.held) + l.pledges.promised; used > l.slots || l.pledges.promised < 0 {
		t.Fatalf("%d held and %d promised of %d slots", len(l.held), l.pledges.promised, l.slots)
	}
	running := 0
	posted := map[*held]bool{}
	for _, hs := range l.outbox.of {
		for _, h := range hs {
			posted[h] = true
		}
	}
	newest := map[*held]bool{}
	for _, r := range l.sent {
		if l.waits(r) {
			newest[r.h] = true
		}
	}
	for _, h := range l.held {
		if h.result == nil {
			running++
			continue
		}
		if posted[h] == newest[h] || posted[h] != h.outbox {
			t.Fatalf("%v: in the outbox %v (%v), sent %v", h.ref, posted[h], h.outbox, newest[h])
		}
	}
	if running != l.running {
		t.Fatalf("%d run, %d are counted", running, l.running)
	}
	promised, at := l.line.check(t), map[*host]int{}
	for _, h := range l.held {
		if h.result == nil && h.host != nil {
			at[h.host]++
		}
	}
	for name, h := range l.limits.hosts {
		promised += h.line.check(t)
		if h.running != at[h] || h.running+h.line.promised > h.most {
			t.Fatalf("host %s: %d run and %d are counted, %d promised, of %d", name, at[h], h.running, h.line.promised, h.most)
		}
		if len(h.line.waiters) > 0 && !slices.Contains(l.inLine, h) {
			t.Fatalf("partitions wait for host %s, and it is not known", name)
		}
	}
	if promised != l.pledges.promised {
		t.Fatalf("%d slots are promised, %d are counted", promised, l.pledges.promised)
	}
}

func (l *line) check(t interface{ Fatalf(string, ...any) }) int {
	promised, offers := 0, 0
	for _, o := range l.pledges.offers {
		if o.line != l {
			continue
		}
		offers++
		promised += o.slots
		if w := l.waiters[o.partition]; w == nil || !w.offered {
			t.Fatalf("offer %d of partition %d has no waiter", o.id, o.partition)
		}
	}
	if promised != l.promised {
		t.Fatalf("%d slots are promised, %d are counted", promised, l.promised)
	}
	if len(l.order)+offers != len(l.waiters) {
		t.Fatalf("%d in line, %d offered, %d wait", len(l.order), offers, len(l.waiters))
	}
	for _, p := range l.order {
		if w := l.waiters[p]; w == nil || w.offered {
			t.Fatalf("partition %d is in line wrongly", p)
		}
	}
	return promised
}

// Whatever comes in whatever order, the ledger keeps its invariants.
func TestLedgerUnderAnyMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(rapid.IntRange(1, 12).Draw(t, "slots"), LimitsConfig{Hosts: job.HostLimits{Hosts: map[string]job.HostLimit{
			"h1": {Concurrency: 2}, "h2": {Rate: job.RateLimit{PerSecond: 3, Burst: 2}},
		}}})
		now := time.Unix(1_700_000_000, 0)
		var lastOffer int64
		partition := rapid.Int32Range(0, 3)
		t.Repeat(map[string]func(*rapid.T){
			"dispatch": func(t *rapid.T) {
				d := &belfryv1.Dispatch{Partition: partition.Draw(t, "partition"), Offer: rapid.Int64Range(0, lastOffer+1).Draw(t, "offer")}
				for range rapid.IntRange(0, 15).Draw(t, "deliveries") {
					n := rapid.IntRange(0, 30).Draw(t, "n")
					d.Deliveries = append(d.Deliveries, at(numbered(d.Partition, n), fmt.Sprint("h", n%4)))
				}
				begin, back := l.take(now, d, welcome)
				refs := 0
				for _, b := range back {
					refs += len(b.refs)
				}
				if len(begin)+refs > len(d.Deliveries) {
					t.Fatalf("%d begun, %d back of %d", len(begin), len(back), len(d.Deliveries))
				}
				for _, h := range begin {
					l.spawned++
					l.begin(h, actor.NewPID("here", h.execution))
				}
			},
			"end": func(t *rapid.T) {
				for _, h := range l.held {
					if h.result == nil {
						l.end(h, &belfryv1.Result{})
						return
					}
				}
			},
			"post": func(t *rapid.T) {
				if !l.outbox.empty() {
					_, results := l.post(now, rapid.IntRange(1, 4).Draw(t, "n"))
					if len(results) > 4 {
						t.Fatalf("%d results in one message", len(results))
					}
				}
			},
			"acknowledge": func(t *rapid.T) {
				p := partition.Draw(t, "partition")
				l.acknowledge([]*belfryv1.DeliveryRef{{ExecutionId: numbered(p, rapid.IntRange(0, 30).Draw(t, "n")).ExecutionId, Attempt: 1}})
			},
			"offer": func(t *rapid.T) {
				owned := func(int32) bool { return rapid.Bool().Draw(t, "owned") }
				lines := l.lines()
				of := rapid.SampledFrom(lines).Draw(t, "line")
				if o := of.offer(now, l.room(of, now), owned); o != nil {
					lastOffer = o.id
				}
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
				l.overdue(now, time.Second)
				for _, of := range l.lines() {
					of.lapse(now, time.Second)
				}
				if at, ok := l.next(now, time.Second, time.Second); ok && !at.After(now) {
					t.Fatalf("what is due at %v was left at %v", at, now)
				}
			},
			"": func(t *rapid.T) { l.check(t) },
		})
	})
}

func TestOffersAreFairAndNotTiny(t *testing.T) {
	l := slotLine(64)
	for p := range int32(4) {
		l.join(p)
		l.join(p)
	}
	owned := func(int32) bool { return true }
	now := time.Unix(0, 0)
	free := 100
	var got []int
	for o := l.offer(now, free, owned); o != nil; o = l.offer(now, free, owned) {
		got = append(got, o.slots)
		free -= o.slots
	}
	want := []int{25, 25, 25, 25}
	for i := range want {
		if len(got) != 4 || got[i] != want[i] {
			t.Fatalf("offers of %v, want %v", got, want)
		}
	}
	l = slotLine(64)
	l.join(1)
	l.join(2)
	if o := l.offer(now, 12, owned); o.slots != 8 {
		t.Errorf("%d slots, want 8", o.slots)
	}
	if o := l.offer(now, 4, owned); o.slots != 4 {
		t.Errorf("%d slots, want what is left", o.slots)
	}
}

// An owner that is told Busy while an offer is on its way to it answers that
// offer with nothing, and still waits.
func TestBusyDuringAnOfferKeepsTheTurn(t *testing.T) {
	l := slotLine(64)
	l.join(7)
	o := l.offer(time.Unix(0, 0), 4, func(int32) bool { return true })
	l.join(7)
	l.pledges.redeem(time.Unix(0, 0), o.id, 7)
	l.settle(7, false)
	if again := l.offer(time.Unix(0, 0), 4, func(int32) bool { return true }); again == nil || again.partition != 7 {
		t.Error("the partition lost its turn")
	}
	l.check(t)
}

func TestSilentOwnersCostOneSlot(t *testing.T) {
	l := slotLine(64)
	l.join(1)
	now := time.Unix(0, 0)
	owned := func(int32) bool { return true }
	if o := l.offer(now, 50, owned); o.slots != 50 {
		t.Fatalf("%d slots", o.slots)
	}
	l.lapse(now, 0)
	o := l.offer(now, 50, owned)
	if o.slots != 1 || l.promised != 1 {
		t.Fatalf("%d slots after a lapse, %d promised", o.slots, l.promised)
	}
	l.pledges.redeem(now, o.id, 1)
	l.settle(1, true)
	if o := l.offer(now, 50, owned); o.slots != 50 {
		t.Errorf("%d slots for an owner that answers again", o.slots)
	}
}

// TestLongAnswersComeInParts that a transport takes, and name everything once.
func TestLongAnswersComeInParts(t *testing.T) {
	const most = 4 << 20
	l := newLedger(3*holdsPart, LimitsConfig{})
	for n := range 2*holdsPart + 1 {
		h := &held{ref: ref{fmt.Sprintf("%0200d", n), 1}}
		l.held[h.ref] = h
	}
	seen := map[string]bool{}
	parts := l.holds(0, 7)
	for _, m := range parts {
		if proto.Size(m) > most/2 || m.GetEpoch() != 7 || m.GetAnswer() != parts[0].GetAnswer() || int(m.GetParts()) != len(parts) {
			t.Errorf("%d bytes, epoch %d, answer %d of %d parts", proto.Size(m), m.GetEpoch(), m.GetAnswer(), m.GetParts())
		}
		for _, d := range m.GetDeliveries() {
			seen[d.GetExecutionId()] = true
		}
	}
	if len(parts) != 3 || len(seen) != len(l.held) {
		t.Errorf("%d deliveries in %d parts, of %d", len(seen), len(parts), len(l.held))
	}
	if again := l.holds(1, 7); len(again) != 1 || again[0].GetParts() != 1 || again[0].GetAnswer() <= parts[0].GetAnswer() {
		t.Errorf("of a partition without any: %v", again)
	}
}
