package partition

import (
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Effect is what Step wants done. An effect that tells anybody about a change
// is only returned once the batch with that change is durable.
type Effect interface{ effect() }

type (
	// Commit writes a batch after Held; answered by Applied, Refused,
	// Unavailable, InDoubt or Fenced. At most one Commit or Settle is out.
	Commit struct {
		Held  persistence.Fence
		Batch persistence.Batch
	}
	// Settle ends the doubt about a batch; answered by Settled, Unavailable or
	// Fenced.
	Settle struct {
		Held      persistence.Fence
		Batch, Op uuid.UUID
	}
	// Reply answers an Asked or Described.
	Reply struct {
		To     Ref
		Answer proto.Message
	}
	// Recall answers a repeated command from the row that remembers the first
	// one, which memory does not hold.
	Recall struct {
		To      Ref
		Command *belfryv1.Command
		Slice   int16
	}
	// Tell asks the owner of another job; answered by Told.
	Tell struct{ Command *belfryv1.Command }
	// Send hands deliveries to a worker. What is not sent after all comes back
	// as Withheld.
	Send struct {
		To       WorkerID
		Dispatch *belfryv1.Dispatch
	}
	// Inquire asks a worker what it holds of the partition; answered by Holds.
	Inquire struct{ To WorkerID }
	// Acknowledge tells a worker that its results are recorded.
	Acknowledge struct {
		To   WorkerID
		Refs []*belfryv1.DeliveryRef
	}
	// Hint tells the broker of a queue what waits unclaimed. It may be lost.
	Hint struct{ Hint *belfryv1.Hint }
	// Publish tells whoever watches.
	Publish struct{ Event *belfryv1.Event }
	// Expire drops the history of the days before.
	Expire struct{ Before job.Day }
	// FindDead reads the dead letter of a success that nothing waits for; answered
	// by Late.
	FindDead struct {
		From   WorkerID
		Result *belfryv1.Result
	}
	// FindOld reads dead letters that failed before an instant, from a slice on,
	// at most Limit; answered by Old.
	FindOld struct {
		From   int16
		Before int64 // ms since 1970
		Limit  int
	}
	// Yielded says that everything is durable under Fence, after a Yield. It is
	// the last effect of a state.
	Yielded struct{ Fence persistence.Fence }
	// Stop ends this ownership: Holder has the partition, or what the store
	// answered cannot be (then Fault says what).
	Stop struct {
		Holder persistence.Fence
		Fault  string
	}
)

func (Commit) effect()      {}
func (Settle) effect()      {}
func (Reply) effect()       {}
func (Recall) effect()      {}
func (Tell) effect()        {}
func (Send) effect()        {}
func (Inquire) effect()     {}
func (Acknowledge) effect() {}
func (Hint) effect()        {}
func (Publish) effect()     {}
func (Expire) effect()      {}
func (FindDead) effect()    {}
func (FindOld) effect()     {}
func (Yielded) effect()     {}
func (Stop) effect()        {}
