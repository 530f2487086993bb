package actors

import "time"

// Kind is a sort of actor: its name in logs and metrics, the bound of its
// mailbox, and what happens when one of them panics.
type Kind struct {
	Name    string
	Mailbox int // user messages that may wait
	OnPanic Policy
}

// Policy says what happens to an actor that panicked. The zero value stops it.
type Policy struct {
	Restarts   int           // failures within Within that are answered by a restart; 0: none, stop at once
	Within     time.Duration // window in which failures are counted
	Backoff    time.Duration // pause before the first restart; it doubles with each further one
	MaxBackoff time.Duration
	Jitter     float64 // 0 … 1, the share of the pause that is random, up or down
}

// The kinds of actors of a node. The package comment gives the reasons.
var (
	Host      = Kind{Name: "host", Mailbox: 4_096, OnPanic: Policy{}}
	Partition = Kind{Name: "partition", Mailbox: 16_384}
	Worker    = Kind{Name: "worker", Mailbox: 65_536, OnPanic: Policy{
		Restarts: 10, Within: time.Minute, Backoff: 10 * time.Millisecond, MaxBackoff: 5 * time.Second, Jitter: 0.2,
	}}
	Execution = Kind{Name: "execution", Mailbox: 16}
)
