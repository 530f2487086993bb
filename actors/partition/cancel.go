package partition

import (
	"github.com/belfry-scheduler/belfry/messages/job"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// An execution that waits is cancelled at once. One that a worker may be at is
// marked, durably, and its worker is told until it says what the attempt came
// to: that attempt is the last, and if the target had answered with success by
// then, the execution has succeeded. A new owner finds the mark and goes on.
//
//	marked ──durable──▶ Dispatch{cancel} ──▶ worker ends the call ──▶ Result
//	                      │ ▲ no answer           │ it was never begun
//	                      └─┘                     └──▶ Busy
//
// An outside worker is told so by the refusal of its next heartbeat; what it
// completes until its lease expires counts, and then the attempt is over.
//
// The Dispatch has a number like any other: after it the worker begins nothing
// that an earlier one brought.

// cancelAsked carries out a command.
func (s *State) cancelAsked(j *jobRec, m *belfryv1.Cancel) (*change, *belfryv1.Answer) {
	f := s.running[m.GetExecutionId()]
	if f == nil || f.job != j {
		return s.refuse(belfryv1.Refusal_CODE_NO_EXECUTION, "", "the execution %q is not in flight", m.GetExecutionId())
	}
	reason := "cancelled on request"
	if m.GetReason() != "" {
		reason += ": " + m.GetReason()
	}
	answer := &belfryv1.Execution{ExecutionId: f.id, ScheduledFor: f.slot, Status: string(job.Running)}
	c := s.change(j)
	if s.cancel(c, f, reason) {
		answer.Status = string(job.Cancelled)
	}
	s.settleStatus(c, j)
	c.row(s.row(j, nil))
	return c, &belfryv1.Answer{Outcome: &belfryv1.Answer_Execution{Execution: answer}}
}

// cancel ends an execution, as part of a change of its job, or lets its worker
// know that it is to end; true: it has ended.
func (s *State) cancel(c *change, f *flight, reason string) bool {
	if !f.begun() {
		s.end(c, f, ending{status: job.Cancelled, reason: reason, finished: s.now})
		return true
	}
	if f.cancel == "" {
		f.cancel = f.job.cut(reason, shortText, 300)
		if f.worker != nil {
			f.commitWith(c)
		}
	}
	return false
}

// cancelAll cancels executions of one job; true: all have ended.
func (s *State) cancelAll(flights []*flight, reason string) bool {
	ended := true
	for _, f := range flights {
		if f.cancel != "" {
			ended = false
			continue
		}
		c := s.change(f.job)
		ended = s.cancel(c, f, reason) && ended
		c.row(s.row(f.job, nil))
	}
	return ended
}

// tellCancelled tells a worker which of its deliveries are to end, and does so
// again until each has.
func (s *State) tellCancelled(w *worker, flights []*flight) {
	if len(flights) == 0 {
		return
	}
	s.dispatches++
	d := &belfryv1.Dispatch{Partition: s.cfg.Partition, Epoch: s.life, Number: s.dispatches}
	for _, f := range flights {
		f.number = s.dispatches
		s.wheel.Schedule(&f.timer, s.now+s.cfg.Confirm.Milliseconds())
		d.Cancel = append(d.Cancel, &belfryv1.DeliveryRef{ExecutionId: f.id, Attempt: f.attempt})
	}
	s.emit(Send{To: w.ID, Dispatch: d})
}

// unwanted says why an execution is not tried again once its attempt has ended
// without success; "": it is.
func (f *flight) unwanted() string {
	if f.cancel != "" {
		return f.cancel
	}
	return f.orphaned()
}
