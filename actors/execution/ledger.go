package execution

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

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
	result    *belfryv1.Result // nil while it runs
	reported  time.Time        // when the result was sent last; zero: it is in the outbox
	outbox    bool
}

// ledger is what a worker holds, and for whom. It is pure, and it outlives the
// worker's incarnations: a panic of the worker must not forget a delivery.
//
// Invariant: len(held) + line.promised <= slots.
// Invariant: every ended delivery is in the outbox or in sent, never both.
// Invariant: what is returned is not held, unless it was dispatched again since.
type ledger struct {
	slots    int
	held     map[ref]*held
	children map[string]*held // the running ones, by execution actor
	running  int
	line     *line
	outbox   outbox
	sent     []report                           // results without an answer, oldest first
	returned map[naming][]*belfryv1.DeliveryRef // begun and not sent, to be given back
	owners   owners
	draining bool
	spawned  int64 // names execution actors
	answers  int64 // to Inquires
}

// report is one sending of a result; a later one makes it void.
type report struct {
	h  *held
	at time.Time
}

func newLedger(slots int) *ledger {
	return &ledger{
		slots: slots, held: map[ref]*held{}, children: map[string]*held{}, line: newLine(slots),
		outbox: outbox{of: map[int32][]*held{}}, returned: map[naming][]*belfryv1.DeliveryRef{}, owners: owners{},
	}
}

// free is how many more deliveries may be begun.
func (l *ledger) free() int { return l.slots - len(l.held) - l.line.promised }

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

// take decides about each delivery of a dispatch: begun, given back, or known
// already.
func (l *ledger) take(now time.Time, d *belfryv1.Dispatch, v verdict) (begin []*held, back []*belfryv1.DeliveryRef) {
	offered := l.line.redeem(d.GetOffer(), d.GetPartition())
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
			back = append(back, key.message())
		default:
			h := &held{ref: key, naming: nameOf(d), partition: d.GetPartition(), epoch: d.GetEpoch(), delivery: x, begun: now}
			l.held[key] = h
			l.running++
			begin = append(begin, h)
		}
	}
	if len(back) > 0 && v != draining && v != outdated {
		l.line.join(d.GetPartition())
	}
	if offered > 0 {
		l.line.settle(d.GetPartition(), len(d.GetDeliveries()) >= offered)
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
	if !l.over(h) {
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
	if !l.over(h) {
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
func (l *ledger) over(h *held) bool {
	if h.result != nil || l.held[h.ref] != h {
		return false
	}
	delete(l.children, h.child.GetId())
	h.child = nil
	l.running--
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
func (l *ledger) next(resend, offerFor time.Duration) (time.Time, bool) {
	var at time.Time
	for len(l.sent) > 0 && !l.waits(l.sent[0]) {
		l.sent[0] = report{}
		l.sent = l.sent[1:]
	}
	if len(l.sent) > 0 {
		at = l.sent[0].at.Add(resend)
	}
	if p, ok := l.line.oldest(); ok && (at.IsZero() || p.Add(offerFor).Before(at)) {
		at = p.Add(offerFor)
	}
	if g := l.line.gathering; !g.IsZero() && (at.IsZero() || g.Add(gatherFor).Before(at)) {
		at = g.Add(gatherFor)
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
