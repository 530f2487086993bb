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

	// Graphed asks for the dependencies around a job, and whether it may have
	// upstreams; answered at once.
	Graphed struct {
		Ref       Ref
		Of        string
		Upstreams []string
	}
	// Told is the answer to the command of a Tell; nil: there is none.
	Told struct {
		Command string
		Answer  *belfryv1.Answer
	}
	// Claimed asks for executions of a queue, for an outside worker; answered by
	// Answers, with a Grant each, when they are durable.
	Claimed struct {
		Ref   Ref
		Claim *belfryv1.Claim
	}
	// Extended is the heartbeat of an outside worker; answered at once.
	Extended struct {
		Ref       Ref
		Heartbeat *belfryv1.Heartbeat
	}

	// Late is what there is for a success that nothing waits for. Dead is nil when
	// there is no dead letter; Failed: the store could not be read.
	Late struct {
		From   WorkerID
		Result *belfryv1.Result
		Dead   *belfryv1.DeadLetter
		Failed bool
	}
	// Old is a page of dead letters past their retention. The next one begins
	// with a slice, behind the last one when there is none; with no letters before
	// that the store could not be read.
	Old struct {
		Letters []DeadRef
		Next    int16
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

	// Workers is who makes deliveries now, in the order in which this partition
	// prefers them. One that is not in the list any more is dead, or cannot be
	// reached, which is the same to whoever waits for it. Partial: a live member
	// has a worker that has not been heard yet.
	Workers struct {
		List    []Worker
		Partial bool
	}
	// Reported brings results of deliveries. Each is acknowledged once it is
	// durable, or, when nothing waits for it, what is known instead.
	Reported struct {
		From    WorkerID
		Results []*belfryv1.Result
	}
	// Busied gives deliveries back that a worker had no slot for, or of whose
	// Host it takes nothing just now. Number is of their Dispatch; 0: a worker
	// gives back what it had begun and has not sent.
	Busied struct {
		From       WorkerID
		Number     int64
		Deliveries []*belfryv1.DeliveryRef
		Host       string // "": it takes nothing at all
		Reason     belfryv1.Busy_Reason
		Since      int64 // of an open circuit
		RetryIn    int64 // ms; 0: unknown
	}
	// Offered promises slots of a worker that was busy; with a Host, for that
	// one only.
	Offered struct {
		From  WorkerID
		ID    int64
		Slots int
		Host  string
	}
	// Begun says that a worker has deliveries.
	Begun struct {
		From       WorkerID
		Deliveries []*belfryv1.DeliveryRef
	}
	// Holds answers an Inquire with all that a worker has of the partition.
	Holds struct {
		From       WorkerID
		Deliveries []*belfryv1.DeliveryRef
	}
	// Withheld gives a Dispatch back that was not sent, because the node could
	// not be sure that it still owns anything.
	Withheld struct {
		To       WorkerID
		Dispatch *belfryv1.Dispatch
	}

	// Yield gives the partition up: nothing is taken, armed or sent any more,
	// and Yielded follows when all that was decided is durable.
	Yield struct{}
)

// WorkerID names one incarnation of a worker: the address and id of its actor.
type WorkerID string

// Worker is a live worker as the owner of a partition sees it.
type Worker struct {
	ID       WorkerID
	Remote   bool // messages to and from it may be lost
	Draining bool // it keeps what it has and takes nothing new
}

func (Tick) event()        {}
func (Asked) event()       {}
func (Described) event()   {}
func (Graphed) event()     {}
func (Told) event()        {}
func (Claimed) event()     {}
func (Extended) event()    {}
func (Late) event()        {}
func (Old) event()         {}
func (Applied) event()     {}
func (Refused) event()     {}
func (Unavailable) event() {}
func (InDoubt) event()     {}
func (Settled) event()     {}
func (Fenced) event()      {}
func (Workers) event()     {}
func (Reported) event()    {}
func (Busied) event()      {}
func (Offered) event()     {}
func (Begun) event()       {}
func (Holds) event()       {}
func (Withheld) event()    {}
func (Yield) event()       {}

// Ref names whoever waits for a Reply. Step only carries it.
type Ref uint64
