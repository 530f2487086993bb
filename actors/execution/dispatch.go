package execution

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
	"github.com/belfry-scheduler/belfry/messages/job"
)

// dispatched takes what an owner hands over, and answers what was not begun.
func (w *worker) dispatched(ctx actor.Context, d *belfryv1.Dispatch) {
	from, ok := answerable(ctx)
	if !ok || !possible(d.GetPartition(), d.GetEpoch()) {
		w.drop(ctx)
		return
	}
	if slices.ContainsFunc(d.GetDeliveries(), unnameable) {
		w.drop(ctx) // these; the others are taken
	}
	may := w.Lease()
	v := w.judge(d, from, may)
	if v == overtaken {
		return
	}
	begin, back := w.ledger.take(time.Now(), d, v)
	for _, h := range begin {
		w.begin(ctx, h, may)
	}
	if d.GetConfirm() {
		if refs := w.ledger.confirm(d); len(refs) > 0 {
			ctx.Request(from, &belfryv1.Begun{Partition: d.GetPartition(), Epoch: d.GetEpoch(), Deliveries: refs})
		}
	}
	for _, b := range back {
		w.busy(ctx, from, d, v, b)
	}
	if v != outdated {
		w.cancel(ctx, from, d)
	}
	w.flushSoon(ctx)
}

// busy gives back what was not begun, for one reason.
func (w *worker) busy(ctx actor.Context, to *actor.PID, d *belfryv1.Dispatch, v verdict, b handBack) {
	m := &belfryv1.Busy{Partition: d.GetPartition(), Epoch: d.GetEpoch(), Number: d.GetNumber(), Deliveries: b.refs}
	if b.host == nil {
		w.Metrics.gaveBack(v, len(b.refs))
	} else {
		w.Metrics.heldUp(b.no.why, len(b.refs))
		m.Host, m.Reason = b.host.name, b.no.why
		if !b.no.since.IsZero() {
			m.Since = b.no.since.UnixMilli()
		}
		if !b.no.next.IsZero() {
			m.RetryInMs = max(time.Until(b.no.next).Milliseconds(), 1)
		}
	}
	ctx.Request(to, m)
}

// judge decides whether anything of a dispatch may be begun.
func (w *worker) judge(d *belfryv1.Dispatch, from *actor.PID, may func() bool) verdict {
	current := w.ledger.owners.hear(d.GetPartition(), d.GetEpoch(), from)
	switch {
	case !current || d.GetEpoch() < w.owner(d.GetPartition()).epoch:
		return outdated
	case !w.ledger.owners.inOrder(d.GetPartition(), d.GetNumber()):
		return overtaken
	case w.ledger.draining:
		return draining
	case w.tooLate(d, from):
		return late
	case !may():
		return fenced
	}
	return welcome
}

// tooLate reports whether a dispatch may have been on its way for longer than
// the TTL. What comes from another node without a stamp may have.
func (w *worker) tooLate(d *belfryv1.Dispatch, from *actor.PID) bool {
	if d.GetStamp() == 0 {
		return from.GetAddress() != w.self.GetAddress()
	}
	return !fresh(d.GetStamp(), w.Stamp(), w.TTL.Milliseconds())
}

// inquired answers a new owner. One that has lost the partition again needs no
// answer.
func (w *worker) inquired(ctx actor.Context, m *belfryv1.Inquire) {
	from, ok := answerable(ctx)
	if !ok || !possible(m.GetPartition(), m.GetEpoch()) {
		w.drop(ctx)
		return
	}
	if !w.ledger.owners.hear(m.GetPartition(), m.GetEpoch(), from) {
		return
	}
	for _, part := range w.ledger.holds(m.GetPartition(), m.GetEpoch()) {
		ctx.Request(from, part)
	}
	w.flushSoon(ctx)
}

// drop counts a message that no owner sends.
func (w *worker) drop(ctx actor.Context) {
	w.Metrics.dropped.Inc()
	w.Log.Warn("a message that cannot be", "node", w.Node, "type", fmt.Sprintf("%T", ctx.Message()), "sender", ctx.Sender().String())
}

// owner is who gets what concerns a partition.
func (w *worker) owner(partition int32) ownership {
	return w.ledger.owners.newest(partition, w.Owner(partition))
}

// What other nodes send is looked at before it is used. What no owner sends is
// dropped and counted.

// answerable is the sender of a message, if it can be answered.
func answerable(ctx actor.Context) (*actor.PID, bool) {
	from := ctx.Sender()
	return from, from.GetId() != "" && from.GetAddress() != ""
}

// possible reports whether a partition and an epoch can exist.
func possible(partition int32, epoch int64) bool {
	return partition >= job.SystemPartition && partition < job.MaxPartitions && epoch >= 0
}

// unnameable reports whether a delivery lacks the names of one. What its target
// is shows when it is called.
func unnameable(d *belfryv1.Delivery) bool {
	id := d.GetExecutionId()
	return id == "" || len(id) > job.MaxExecutionID || len(d.GetJobId()) > job.MaxJobID || d.GetAttempt() < 1
}

// fresh reports whether a stamp of this worker's clock is at most ttl old, all
// in milliseconds. One that is ahead of the clock is none of this worker.
func fresh(stamp, now, ttl int64) bool {
	return stamp > 0 && stamp <= now && now-stamp <= ttl
}
