package partition

import (
	"slices"
	"time"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// fleetWorker is the model of a worker: it decides at once whether it begins a
// delivery, remembers what it has begun until that is acknowledged, and follows
// the highest epoch that it has heard of.
type fleetWorker struct {
	f     *fleet
	node  *fleetNode
	id    WorkerID
	slots int

	epoch    int64      // the highest heard of
	owner    *fleetNode // and who has it
	number   int64      // of the last dispatch under that epoch
	held     map[resultKey]*holding
	draining bool
	offer    int64 // id of the open one; 0: none
	reserved int
	offers   int64
	waits    bool                            // the partition was told Busy
	shut     map[string]belfryv1.Busy_Reason // hosts that it takes nothing for
	hosts    holdUps
}

// holding is a delivery that was begun.
type holding struct {
	x      *belfryv1.Delivery
	epoch  int64
	begun  time.Time
	result *belfryv1.Result // nil while it runs
}

func (h *holding) ref() *belfryv1.DeliveryRef {
	return &belfryv1.DeliveryRef{ExecutionId: h.x.GetExecutionId(), Attempt: h.x.GetAttempt()}
}

// hear follows the epochs; false: the message is of an owner that has lost the
// partition.
func (w *fleetWorker) hear(epoch int64, from *fleetNode) bool {
	if epoch < w.epoch {
		return false
	}
	if epoch > w.epoch {
		w.epoch, w.owner, w.number, w.waits, w.hosts = epoch, from, 0, false, holdUps{}
	}
	return true
}

func (w *fleetWorker) free() int { return w.slots - len(w.held) - w.reserved }

func (w *fleetWorker) dispatched(from *fleetNode, d *belfryv1.Dispatch) {
	if d.GetStamp() != 0 && w.f.now.UnixMilli()-d.GetStamp() > ttl.Milliseconds() {
		return // it was too long on its way
	}
	if !w.hear(d.GetEpoch(), from) || d.GetNumber() <= w.number {
		return
	}
	w.number = d.GetNumber()
	offered := d.GetOffer() != 0 && d.GetOffer() == w.offer
	if offered {
		w.offer, w.reserved, w.waits = 0, 0, false
	}
	w.redeemed(d)
	var busy, have []*belfryv1.DeliveryRef
	shut := map[string][]*belfryv1.DeliveryRef{}
	for _, x := range d.GetDeliveries() {
		key := resultKey{x.GetExecutionId(), x.GetAttempt()}
		ref := &belfryv1.DeliveryRef{ExecutionId: key.execution, Attempt: key.attempt}
		switch h := w.held[key]; {
		case h != nil:
			have = append(have, ref)
			if h.result != nil {
				w.report(h)
			}
		case w.draining || w.free() <= 0:
			busy = append(busy, ref)
			w.waits = true
		case w.refuse(x, shut):
		default:
			have = append(have, ref)
			w.begin(x, d.GetEpoch())
		}
	}
	for _, ref := range d.GetCancel() {
		switch h := w.held[keyOfResult(ref)]; {
		case h == nil:
			busy = append(busy, ref)
		case h.result != nil:
			w.report(h)
		default:
			w.end(h, &belfryv1.Result{Outcome: belfryv1.Result_OUTCOME_UNKNOWN, Error: "the execution is cancelled"})
		}
	}
	w.giveBack(from, d.GetNumber(), shut)
	if len(busy) > 0 {
		w.tell(from, Busied{From: w.id, Number: d.GetNumber(), Deliveries: busy})
	}
	if d.GetConfirm() && len(have) > 0 {
		w.tell(from, Begun{w.id, have})
	}
}

// begin makes the call: it is what the target receives.
func (w *fleetWorker) begin(x *belfryv1.Delivery, epoch int64) {
	h := &holding{x: x, epoch: epoch, begun: w.f.now}
	w.held[resultKey{x.GetExecutionId(), x.GetAttempt()}] = h
	w.f.received(w, h)
	took, r := w.f.call(x)
	w.node.after(took, func() {
		if h.result == nil {
			w.end(h, r)
		}
	})
}

// end is a call that has ended.
func (w *fleetWorker) end(h *holding, r *belfryv1.Result) {
	r.ExecutionId, r.JobId, r.Attempt, r.Epoch = h.x.GetExecutionId(), h.x.GetJobId(), h.x.GetAttempt(), h.epoch
	r.SentAt, r.FinishedAt = h.begun.UnixMilli(), w.f.now.UnixMilli()
	h.result = r
	w.report(h)
}

// report sends a result until it is acknowledged.
func (w *fleetWorker) report(h *holding) {
	key := resultKey{h.x.GetExecutionId(), h.x.GetAttempt()}
	if w.held[key] != h {
		return
	}
	w.tell(w.owner, Reported{w.id, []*belfryv1.Result{h.result}})
}

// resend repeats what was not acknowledged, and offers free slots.
func (w *fleetWorker) resend() {
	for _, h := range w.sorted() {
		if h.result != nil {
			w.report(h)
		}
	}
	w.offer, w.reserved = 0, 0 // an unanswered one lapses
	w.offerSlots()
	w.offerHosts()
}

func (w *fleetWorker) offerSlots() {
	if !w.waits || w.draining || w.offer != 0 || w.free() <= 0 {
		return
	}
	w.offers++
	w.offer, w.reserved = w.offers, w.free()
	w.tell(w.owner, Offered{From: w.id, ID: w.offer, Slots: w.reserved})
}

func (w *fleetWorker) sorted() []*holding {
	var all []*holding
	for _, h := range w.held {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *holding) int {
		return inDueOrder(&flight{due: a.x.GetDue(), id: a.x.GetExecutionId()}, &flight{due: b.x.GetDue(), id: b.x.GetExecutionId()})
	})
	return all
}

func (w *fleetWorker) acknowledged(refs []*belfryv1.DeliveryRef) {
	for _, r := range refs {
		if h := w.held[keyOfResult(r)]; h != nil && h.result != nil {
			delete(w.held, keyOfResult(r))
		}
	}
	w.offerSlots()
}

func (w *fleetWorker) inquired(from *fleetNode, epoch int64) {
	if !w.hear(epoch, from) {
		return
	}
	var refs []*belfryv1.DeliveryRef
	for _, h := range w.sorted() {
		refs = append(refs, h.ref())
	}
	w.tell(from, holdsOf{Holds{w.id, refs}, epoch})
	for _, h := range w.sorted() {
		if h.result != nil {
			w.report(h)
		}
	}
}

// holdsOf is a Holds with the epoch that it answers.
type holdsOf struct {
	Holds
	epoch int64
}

// tell sends a message to an owner.
func (w *fleetWorker) tell(to *fleetNode, e any) {
	if to == nil {
		return
	}
	w.f.between(w.node, to, func() {
		if to.state == nil {
			return
		}
		switch e := e.(type) {
		case holdsOf:
			if e.epoch == to.state.life {
				to.step(e.Holds)
			}
		case Event:
			to.step(e)
		}
	})
}
