package check

import (
	"time"
)

// CatchUpPolicy is what becomes of slots that nobody could act on.
type CatchUpPolicy string

const (
	Latest CatchUpPolicy = "latest" // the newest fires
	All    CatchUpPolicy = "all"    // the newest Max within Window fire
	None   CatchUpPolicy = "none"
)

// CatchUp is the policy of a job.
type CatchUp struct {
	Policy CatchUpPolicy
	Max    int
	Window time.Duration
	Grace  time.Duration // in a shorter outage nothing is missed
}

// gap is the slots of a job in an outage.
type gap struct {
	core    []int // numbers of those that surely were due while nobody could act
	tail    int   // how many came due while all was coming back
	fired   []int // of the core
	shorter time.Duration
	longer  time.Duration
}

// armed is how long before its time a slot may be armed: it is sent, however
// late.
const armed = 10 * time.Second

// caughtUp is C20: of the slots in an outage those fire that the policy says. An
// owner judges the gap when it is back, which is known to the recovery bound.
func (l *ledgerOf) caughtUp() {
	if l.job.CatchUp == nil {
		return
	}
	for _, f := range l.Faults {
		if f.Kind == Outage {
			l.judged(l.gapOf(f), f.End.Add(l.Recovery))
		}
	}
}

func (l *ledgerOf) gapOf(f Fault) gap {
	var g gap
	for i, s := range l.slots {
		switch {
		case !s.must || !s.at.After(f.At):
			continue
		case s.at.After(f.End.Add(l.Recovery)):
			return g
		case s.at.After(f.End):
			g.tail++
			continue
		}
		if g.longer == 0 {
			g.longer = f.End.Add(l.Recovery).Sub(s.at)
		}
		if s.at.Before(f.At.Add(armed)) {
			continue
		}
		if len(g.core) == 0 {
			g.shorter = f.End.Sub(s.at)
		}
		g.core = append(g.core, i)
		if r := l.records[i]; r != nil && r.Status != "missed" {
			g.fired = append(g.fired, i)
		}
	}
	return g
}

func (l *ledgerOf) judged(g gap, back time.Time) {
	p := l.job.CatchUp
	if len(g.core) == 0 {
		return
	}
	last := g.core[len(g.core)-1]
	wrong := func(what string) {
		l.find("C20", l.job.ID, "of %d slots in an outage up to %s %d fired, with policy %s: %s", len(g.core), stamp(l.slots[last].at), len(g.fired), p.Policy, what)
	}
	switch {
	case g.longer <= p.Grace:
		if len(g.fired) != len(g.core) {
			wrong("it was no longer than the grace")
		}
	case g.shorter <= p.Grace: // it may have been judged either way
	case p.Policy == None:
		if len(g.fired) > 0 {
			wrong("none should")
		}
	case p.Policy == Latest:
		if len(g.fired) > 1 || len(g.fired) == 1 && g.fired[0] != last {
			wrong("only the newest should")
		} else if len(g.fired) == 0 && g.tail == 0 {
			wrong("the newest should")
		}
	default:
		l.all(g, back, wrong)
	}
}

// all: those that fire are the newest, no more than Max, and as many as are in
// the window.
func (l *ledgerOf) all(g gap, back time.Time, wrong func(string)) {
	p := l.job.CatchUp
	n := len(g.fired)
	if n > 0 && g.fired[0] != g.core[len(g.core)-n] {
		wrong("not the newest ones")
	}
	if n > p.Max {
		wrong("more than are allowed")
	}
	inWindow := 0
	for _, i := range g.core {
		if l.slots[i].at.After(back.Add(-p.Window)) {
			inWindow++
		}
	}
	if n < min(p.Max-g.tail, inWindow) {
		wrong("too few")
	}
}
