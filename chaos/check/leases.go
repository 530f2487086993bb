package check

import (
	"slices"
	"time"
)

// Token orders the leases of an execution.
type Token struct {
	Epoch   int64
	Counter int64
}

func (t Token) less(o Token) bool {
	return t.Epoch < o.Epoch || t.Epoch == o.Epoch && t.Counter < o.Counter
}

// Lease is what happened between an outside worker and the queue: a grant, or
// an attempt to complete under a token, and whether that was accepted.
type Lease struct {
	Execution string
	Worker    string
	Token     Token
	At        time.Time // a grant: when it was answered; a completion: when it was asked for
	Complete  bool
	Accepted  bool // of a completion
	Repeat    bool // the worker repeats a completion that it had no answer to
}

// leases is C13: each grant has a higher token than those before; one completion
// at most is accepted, and none under a token that a later one has replaced.
func (c *checker) leases() {
	byTime := slices.Clone(c.Leases)
	slices.SortStableFunc(byTime, func(a, b Lease) int { return a.At.Compare(b.At) })
	newest := map[string]Token{}
	done := map[string]Lease{}
	for _, l := range byTime {
		job, _, _ := takeApart(l.Execution)
		last, granted := newest[l.Execution]
		switch {
		case !l.Complete && granted && !last.less(l.Token):
			c.find("C13", job, "%s was granted to %s under %v, after %v", l.Execution, l.Worker, l.Token, last)
		case !l.Complete:
			newest[l.Execution] = l.Token
		case l.Accepted && !granted:
			c.find("C13", job, "%s was completed by %s, and never granted", l.Execution, l.Worker)
		case l.Accepted && l.Token.less(last):
			c.find("C13", job, "%s was completed by %s under %v, after %v was granted", l.Execution, l.Worker, l.Token, last)
		case l.Accepted:
			if other, ok := done[l.Execution]; ok && (!l.Repeat || other.Token != l.Token) {
				c.find("C13", job, "%s was completed by %s under %v and by %s under %v", l.Execution, other.Worker, other.Token, l.Worker, l.Token)
			}
			done[l.Execution] = l
		}
	}
}
