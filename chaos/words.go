package chaos

import "github.com/belfry-scheduler/belfry/chaos/check"

// The checker's words, in which scenarios say what they did.
type (
	Fault     = check.Fault
	FaultKind = check.FaultKind
	Receipt   = check.Receipt
	Record    = check.Record
	Takeover  = check.Takeover
)

const (
	Killed    = check.Killed
	Paused    = check.Paused
	Restarted = check.Restarted
	Joined    = check.Joined
	CutOff    = check.CutOff
	Split     = check.Split
	Shaken    = check.Shaken
	Skewed    = check.Skewed
	Outage    = check.Outage
)
