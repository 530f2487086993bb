package check

import "time"

// History is everything that is compared.
type History struct {
	Jobs     []Job
	Records  map[string][]Record // of each job
	Receipts []Receipt
	Faults   []Fault // in the order of their beginnings
	// InFlight is how long before a fault a delivery can have been answered and
	// its result not yet be durable.
	InFlight time.Duration

	// Of clusters. Without takeovers there is one node, and nobody else to send
	// anything.
	Partitions int
	Takeovers  []Takeover
	// OnTime is how late a first delivery may be while nothing is wrong; 0: that
	// is not checked.
	OnTime time.Duration
	// TTL is how long a node may be silent before others take what it owns.
	TTL time.Duration
	// Recovery is how long after a fault everything is as before.
	Recovery time.Duration
	// End is what was seen when all was over; nil: nobody looked.
	End *End

	Runs   []Run
	Leases []Lease
	Calls  []Call
}

// Job is a job as the harness knows it: what it asked for, in that order, and
// what follows from it.
type Job struct {
	ID    string
	Ops   []Op
	Until time.Time // what is due at or after it is not looked at

	Retry   *Retry   // how often and when it is tried again; nil: not checked
	CatchUp *CatchUp // what becomes of slots in an outage; nil: each fires
	Overlap Overlap
	// MayFail: its target does not always succeed. MaySkip: slots may be skipped
	// for another reason than that it is paused. MayMiss: they may be missed under
	// a policy that is not looked at. MayCancel: executions were cancelled one by
	// one, or wait for longer than the checker knows.
	MayFail, MaySkip, MayMiss, MayCancel bool
	Signed                               bool // its deliveries are signed
}

// Once, a job was registered with a schedule before anything was due, and
// nothing else happened to it.
func Once(id string, s Schedule) Job {
	return Job{ID: id, Ops: []Op{{Verb: Register, Schedule: s}}}
}

// Verb is what was asked for.
type Verb string

const (
	Register Verb = "register"
	Update   Verb = "update" // of the schedule
	Pause    Verb = "pause"
	Resume   Verb = "resume"
	Delete   Verb = "delete"
)

// Outcome is what the asker was told.
type Outcome int

const (
	Accepted Outcome = iota
	Rejected         // nothing was changed
	Unknown          // no answer, or one that says nothing
)

// Op is an operation on a job.
type Op struct {
	Verb         Verb
	Call, Return time.Time // it took effect in between, if it did
	Outcome      Outcome
	Schedule     Schedule // of Register and Update
	CatchUp      bool     // of Resume: slots of the pause run after all
}

// Record is an execution, or a range of slots, as the API shows it.
type Record struct {
	ExecutionID  string    `json:"execution_id"`
	ScheduledFor time.Time `json:"scheduled_for"`
	Status       string    `json:"status"`
	Reason       string    `json:"reason"`
	AttemptCount int       `json:"attempt_count"`
	// Unknown is how many attempts ended without an answer.
	Unknown int    `json:"unknown_attempts"`
	Range   *Range `json:"range"`
}

// Range is consecutive slots of one fate.
type Range struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int       `json:"count"`
}

// Receipt is one delivery as the target saw it.
type Receipt struct {
	Execution    string
	Job          string
	Key          string
	ScheduledFor time.Time
	Attempt      int
	Epoch        int64
	Received     time.Time
	Answered     time.Time // or the caller was gone; zero while neither is so
	Status       int       // of the whole answer; 0: the caller got none
	Recorded     time.Time // when its caller was told that the result is durable; zero: History.InFlight after the answer
	Signature    Signature
}

func (r Receipt) succeeded() bool { return r.Status >= 200 && r.Status < 300 }

// ended is when the target had done with it.
func (r Receipt) ended() time.Time {
	if r.Answered.IsZero() {
		return r.Received
	}
	return r.Answered
}

// recorded is when its result was durable.
func (r Receipt) recorded(inFlight time.Duration) time.Time {
	if r.Recorded.IsZero() {
		return r.ended().Add(inFlight)
	}
	return r.Recorded
}

// Signature is what a target found out about a delivery's.
type Signature int

const (
	Unsigned Signature = iota
	Verified
	Forged // it is there, and wrong
)

// Takeover is the beginning of an ownership.
type Takeover struct {
	Partition int32
	Epoch     int64
	Node      string
	At        time.Time
}

// FaultKind is what was done, and thereby what it excuses.
type FaultKind string

const (
	// Killed: what was in flight comes again, under its own key.
	Killed FaultKind = "killed"
	// Paused: the same; and a node that lost a partition meanwhile finishes the
	// sends that it had begun.
	Paused FaultKind = "paused"
	// Restarted: it was asked to stop, and had the time for it. Nothing comes
	// again.
	Restarted FaultKind = "restarted"
	// Joined: the node is new. Nothing comes again.
	Joined FaultKind = "joined"
	// CutOff: the node does not reach the database, nor maybe the other nodes.
	// What was in flight then, or within a TTL, comes again; after a TTL it
	// sends nothing.
	CutOff FaultKind = "cut off"
	// Split: the node reaches the database, but not all nodes reach each other.
	Split FaultKind = "split"
	// Shaken: something was done to the database. Any node may lose what it owns.
	Shaken FaultKind = "database"
	// Skewed: the node's clock was wrong, and what it owned was given up. Nothing
	// comes again; what it sent as an owner may be early by Ahead.
	Skewed FaultKind = "clock"
	// Outage: nobody could act for the whole time. Slots in it are caught up.
	Outage FaultKind = "outage"
)

// Fault is something that was done to a node: from just before it was done until
// it was undone, or for a kill until the node was gone.
type Fault struct {
	Kind    FaultKind
	Node    string
	At, End time.Time
	Ahead   time.Duration // of Skewed: how fast a clock may be that is not given up for wrong
}

// planned: nothing that is under way is hurt.
func (f Fault) planned() bool { return f.Kind == Restarted || f.Kind == Joined || f.Kind == Skewed }

// End is what a cluster looks like when all is over.
type End struct {
	Owners  map[int32][]string // nodes that say that they own a partition
	Waiting int                // executions that are due and not begun
	ByHand  int                // nodes that somebody had to restart
}

// Finding is a rule that does not hold: which, for what, and what was seen.
type Finding struct {
	Rule string
	Job  string
	Text string
}

func (f Finding) String() string { return f.Rule + " " + f.Job + ": " + f.Text }
