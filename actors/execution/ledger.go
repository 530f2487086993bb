package execution

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/belfry-scheduler/belfry/messages"
	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// ref names a delivery.
type ref struct {
	execution string
	attempt   int32
}

func (r ref) message() *belfryv1.DeliveryRef {
	return &belfryv1.DeliveryRef{ExecutionId: r.execution, Attempt: r.attempt}
}

// naming is the newest Dispatch that named a delivery.
type naming struct {
	partition int32
	epoch     int64
	number    int64
}

func nameOf(d *belfryv1.Dispatch) naming {
	return naming{d.GetPartition(), d.GetEpoch(), d.GetNumber()}
}

// held is a delivery that was begun and is not acknowledged.
type held struct {
	ref
	naming    naming
	partition int32
	epoch     int64 // under which it was begun
	delivery  *belfryv1.Delivery
	begun     time.Time
	child     *actor.PID       // the execution actor, while it runs
	host      *host            // nil: it has none
	count     func(error)      // tells the host's circuit how the call ended
	result    *belfryv1.Result // nil while it runs
	reported  time.Time        // when the result was sent last; zero: it is in the outbox
	outbox    bool
}

// ledger is what a worker holds, and for whom. It is pure, and it outlives the
// worker's incarnations: a panic of the worker must not forget a delivery.
//
// Invariant: len(held) + pledges.promised <= slots.
// Invariant: every ended delivery is in the outbox or in sent, never both.
// Invariant: what is returned is not held, unless it was dispatched again since.
type ledger struct {
	slots    int
	held     map[ref]*held
	children map[string]*held // the running ones, by execution actor
	running  int
	pledges  *pledges
	line     *line // for slots
	limits   *limits
	inLine   []*host // for which partitions wait, or have an offer
	outbox   outbox
	sent     []report                           // results without an answer, oldest first
	returned map[naming][]*belfryv1.DeliveryRef // begun and not sent, to be given back
	owners   owners
	draining bool
	turn     int   // of lines
	spawned  int64 // names execution actors
	answers  int64 // to Inquires
}

// report is one sending of a result; a later one makes it void.
type report struct {
	h  *held
	at time.Time
}

func newLedger(slots int, cfg LimitsConfig) *ledger {
	p := &pledges{offers: map[int64]*offer{}}
	return &ledger{
		slots: slots, held: map[ref]*held{}, children: map[string]*held{}, pledges: p, line: newLine(slots, nil, p), limits: newLimits(cfg, slots),
		outbox: outbox{of: map[int32][]*held{}}, returned: map[naming][]*belfryv1.DeliveryRef{}, owners: owners{},
	}
}

// free is how many more deliveries may be begun.
func (l *ledger) free() int { return l.slots - len(l.held) - l.pledges.promised }

// room is how many a line may offer.
func (l *ledger) room(of *line, now time.Time) int {
	if of.host == nil {
		return l.free()
	}
	return min(l.free(), of.host.room(now))
}

// lines are the one for slots and those of hosts.
func (l *ledger) lines() []*line {
	all := []*line{l.line}
	l.inLine = slices.DeleteFunc(l.inLine, func(h *host) bool { return len(h.line.waiters) == 0 })
	for _, h := range l.inLine {
		all = append(all, h.line)
	}
	return all
}

// linesInTurn are the lines, another one first each time.
func (l *ledger) linesInTurn() []*line {
	all := l.lines()
	l.turn++
	k := l.turn % len(all)
	return append(all[k:], all[:k]...)
}

// join puts a partition in the line of a host, or in that for slots.
func (l *ledger) join(h *host, partition int32) {
	if h == nil {
		l.line.join(partition)
		return
	}
	if len(h.line.waiters) == 0 && !slices.Contains(l.inLine, h) {
		l.inLine = append(l.inLine, h)
	}
	h.line.join(partition)
}

// verdict is what a dispatch as a whole is worth.
type verdict string

const (
	welcome   verdict = "no_slot"     // what finds a slot is begun
	late      verdict = "late"        // it was too long on its way: nothing is begun, and an offer follows
	fenced    verdict = "fenced"      // this node may send nothing: nothing is begun, and an offer follows when it may
	draining  verdict = "draining"    // nothing is begun here any more
	outdated  verdict = "stale_epoch" // of an owner that has lost its partition: nothing is begun
	overtaken verdict = "overtaken"   // a later one of the same owner came before it: as if it were lost
)

// handBack is what is given back for one reason.
type handBack struct {
	host *host // nil: there was no slot, or the whole dispatch was worth nothing
	no   refusal
	refs []*belfryv1.DeliveryRef
}

// take decides about each delivery of a dispatch: begun, given back, or known
// already.
func (l *ledger) take(now time.Time, d *belfryv1.Dispatch, v verdict) (begin []*held, back []handBack) {
	line, offered := l.pledges.redeem(now, d.GetOffer(), d.GetPartition())
	refuse := func(h *host, no refusal, r ref) {
		i := slices.IndexFunc(back, func(b handBack) bool { return b.host == h })
		if i < 0 {
			i = len(back)
			back = append(back, handBack{host: h, no: no})
			if v != draining && v != outdated {
				l.join(h, d.GetPartition())
			}
		}
		back[i].refs = append(back[i].refs, r.message())
	}
	for _, x := range d.GetDeliveries() {
		if unnameable(x) {
			continue
		}
		key := ref{x.GetExecutionId(), x.GetAttempt()}
		switch known := l.held[key]; {
		case known != nil:
			if v != outdated {
				known.naming = nameOf(d)
			}
			l.report(known)
		case v != welcome || l.free() <= 0:
			refuse(nil, refusal{}, key)
		default:
			h := &held{ref: key, naming: nameOf(d), partition: d.GetPartition(), epoch: d.GetEpoch(), delivery: x, begun: now}
			if h.host = l.limits.of(messages.Host(x.GetTarget()), now, l.pledges); h.host != nil {
				var no *refusal
				if h.count, no = h.host.begin(now); no != nil {
					refuse(h.host, *no, key)
					continue
				}
			}
			l.held[key] = h
			l.running++
			begin = append(begin, h)
		}
	}
	if line != nil {
		line.settle(d.GetPartition(), len(d.GetDeliveries()) >= offered)
	}
	return begin, back
}

// confirm lists which deliveries of a dispatch are held.
func (l *ledger) confirm(d *belfryv1.Dispatch) []*belfryv1.DeliveryRef {
	var all []*belfryv1.DeliveryRef
	for _, x := range d.GetDeliveries() {
		if key := (ref{x.GetExecutionId(), x.GetAttempt()}); l.held[key] != nil {
			all = append(all, key.message())
		}
	}
	return all
}

// inquire lists all that is held of a partition, and puts the results of what
// has ended in the outbox.
func (l *ledger) inquire(partition int32) []*belfryv1.DeliveryRef {
	var all []*belfryv1.DeliveryRef
	for _, h := range l.held {
		if h.partition == partition {
			all = append(all, h.message())
			l.report(h)
		}
	}
	return all
}

// begin notes the actor that runs a delivery.
func (l *ledger) begin(h *held, child *actor.PID) {
	h.child = child
	l.children[child.GetId()] = h
}

// end stores the result of a running delivery; false when it is not running
// (any more).
func (l *ledger) end(h *held, r *belfryv1.Result) bool {
	if !l.over(h, counts(r)) {
		return false
	}
	r.ExecutionId, r.JobId = h.execution, h.delivery.GetJobId()
	r.Attempt, r.Epoch = h.attempt, h.epoch
	h.result, h.delivery = r, nil
	l.report(h)
	return true
}

// giveBack forgets a running delivery of which nothing was sent; false when it
// is not running (any more).
func (l *ledger) giveBack(h *held) bool {
	if !l.over(h, errNeutral) {
		return false
	}
	delete(l.held, h.ref)
	l.returned[h.naming] = append(l.returned[h.naming], h.message())
	if !l.draining {
		l.line.join(h.partition)
	}
	return true
}

// over takes a delivery from the running ones; false when it is none.
func (l *ledger) over(h *held, counts error) bool {
	if h.result != nil || l.held[h.ref] != h {
		return false
	}
	delete(l.children, h.child.GetId())
	h.child = nil
	l.running--
	if h.host != nil {
		h.host.running--
		h.count(counts)
	}
	return true
}

// report puts an ended delivery in the outbox.
func (l *ledger) report(h *held) {
	if h.result == nil || h.outbox {
		return
	}
	h.outbox, h.reported = true, time.Time{}
	l.outbox.add(h)
}

// post takes the next results to send out of the outbox: at most n, all of one
// partition.
func (l *ledger) post(now time.Time, n int) (partition int32, results []*belfryv1.Result) {
	partition, batch := l.outbox.take(n)
	for _, h := range batch {
		h.outbox = false
		if l.held[h.ref] != h {
			continue // acknowledged meanwhile
		}
		h.reported = now
		l.sent = append(l.sent, report{h, now})
		results = append(results, h.result)
	}
	return partition, results
}

// acknowledge forgets ended deliveries and frees their slots.
func (l *ledger) acknowledge(refs []*belfryv1.DeliveryRef) {
	for _, r := range refs {
		key := ref{r.GetExecutionId(), r.GetAttempt()}
		if h := l.held[key]; h != nil && h.result != nil {
			delete(l.held, key)
		}
	}
}

// overdue puts results that were not acknowledged in time in the outbox again
// and returns how many.
func (l *ledger) overdue(now time.Time, resend time.Duration) int {
	n := 0
	for len(l.sent) > 0 {
		first := l.sent[0]
		if l.waits(first) {
			if now.Sub(first.at) < resend {
				break
			}
			l.report(first.h)
			n++
		}
		l.sent[0] = report{}
		l.sent = l.sent[1:]
	}
	return n
}

// waits reports whether a sending is still the newest of a held result.
func (l *ledger) waits(r report) bool {
	return l.held[r.h.ref] == r.h && r.h.reported.Equal(r.at)
}

// next is when something is overdue or lapses; false when nothing can.
func (l *ledger) next(now time.Time, resend, offerFor time.Duration) (time.Time, bool) {
	var at time.Time
	for len(l.sent) > 0 && !l.waits(l.sent[0]) {
		l.sent[0] = report{}
		l.sent = l.sent[1:]
	}
	if len(l.sent) > 0 {
		at = l.sent[0].at.Add(resend)
	}
	by := func(t time.Time, wanted bool) {
		if wanted && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, line := range l.lines() {
		oldest, offered := line.oldest()
		by(oldest.Add(offerFor), offered)
		by(line.gathering.Add(gatherFor), !line.gathering.IsZero())
		if line.host != nil && len(line.order) > 0 {
			by(line.host.next(now))
		}
	}
	return at, !at.IsZero()
}

// outbox holds the results to report, by partition, in turn.
type outbox struct {
	of    map[int32][]*held
	order []int32
}

func (o *outbox) add(h *held) {
	if len(o.of[h.partition]) == 0 {
		o.order = append(o.order, h.partition)
	}
	o.of[h.partition] = append(o.of[h.partition], h)
}

func (o *outbox) empty() bool { return len(o.order) == 0 }

// take is up to n results of the partition that waits longest.
func (o *outbox) take(n int) (int32, []*held) {
	partition := o.order[0]
	all := o.of[partition]
	n = min(n, len(all))
	o.order = o.order[1:]
	if n == len(all) {
		delete(o.of, partition)
	} else {
		o.of[partition] = all[n:]
		o.order = append(o.order, partition)
	}
	return partition, all[:n]
}
