package partition

import (
	"github.com/belfry-scheduler/belfry/persistence"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// Event is what Step can be told. Everything that a partition does is caused by
// one of these.
type Event interface{ event() }

type (
	// Tick says that time has passed. Judge is set when slots may have come due
	// while the owner could not act (after a load, a long stall or a forward step
	// of the clock): what is overdue by more than a job's grace is then decided
	// by its catch-up policy instead of fired.
	Tick struct{ Judge bool }

	// Asked brings commands, in order. Ref is the asker: one Reply under it
	// follows when every command is answered.
	// A single command is answered by an Answer and may be keyed; a batch is
	// answered by Answers.
	Asked struct {
		Ref      Ref
		Commands []*belfryv1.Command
		Single   bool
	}

	// Described asks what is running of a job; answered at once.
	Described struct {
		Ref   Ref
		JobID string
	}

	// Applied says that the batch in flight is durable.
	Applied struct{ Fence persistence.Fence }
	// Refused says that the store cannot take the content of the batch.
	Refused struct{ Why string }
	// Unavailable says that the store did not answer and nothing was written, or
	// that the doubt could not be settled yet. The same request goes out again.
	Unavailable struct{ Why string }
	// InDoubt says that the batch in flight may be applied now, later or never.
	InDoubt struct{}
	// Settled ends the doubt about the batch in flight.
	Settled struct {
		Fence   persistence.Fence
		Applied bool
	}
	// Fenced says that another owner has the partition.
	Fenced struct{ Holder persistence.Fence }

	// Reported brings results of deliveries. Each is acknowledged once it is
	// durable, or at once when nothing waits for it.
	Reported struct{ Results []*belfryv1.Result }
	// Busied gives deliveries back that a worker had no slot for.
	Busied struct{ Deliveries []*belfryv1.DeliveryRef }
	// Offered promises slots of a worker that was busy.
	Offered struct {
		ID    int64
		Slots int
	}
)

func (Tick) event()        {}
func (Asked) event()       {}
func (Described) event()   {}
func (Applied) event()     {}
func (Refused) event()     {}
func (Unavailable) event() {}
func (InDoubt) event()     {}
func (Settled) event()     {}
func (Fenced) event()      {}
func (Reported) event()    {}
func (Busied) event()      {}
func (Offered) event()     {}

// Ref names whoever waits for a Reply. Step only carries it.
type Ref uint64
