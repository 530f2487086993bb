package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/belfry-scheduler/belfry/persistence"
)

// Bounds of a time to live. DefaultTTL is what the promises about failover are
// made for.
const (
	DefaultTTL = 3 * time.Second
	MinTTL     = time.Second
	MaxTTL     = time.Minute
)

// Margin is how much earlier a node stops trusting its own sign of life than
// others do: clocks that run at different speeds, and the way from the check to
// the wire. Of the default TTL it is 8 %, of the longest 0.4 %.
const Margin = 250 * time.Millisecond

// stall is how long a process may stand still without asking whether others have
// taken what it owns. They may before the TTL is over, once gossip has lost it;
// that takes more than a second.
const stall = time.Second

// Settings are those of liveness, the same in all processes of a cluster.
type Settings struct {
	// TTL is how long a sign of life counts: others may take what a node owns
	// when its beat stood still for so long. From MinTTL to MaxTTL.
	// 0: DefaultTTL.
	TTL time.Duration
}

// Validate names the field that cannot be used.
func (s Settings) Validate() error {
	if s.TTL != 0 && (s.TTL < MinTTL || s.TTL > MaxTTL) {
		return fmt.Errorf("cluster: TTL is %s: from %s to %s", s.TTL, MinTTL, MaxTTL)
	}
	return nil
}

func (s Settings) ttl() time.Duration {
	if s.TTL == 0 {
		return DefaultTTL
	}
	return s.TTL
}

// Every is the time between two beats, and between two readings of all beats:
// TTL/6, so that four beats in a row may fail.
func (s Settings) Every() time.Duration { return s.ttl() / 6 }

// Trust is how long a node trusts its own beat, from when it began to send it:
// TTL less the Margin.
func (s Settings) Trust() time.Duration { return s.ttl() - Margin }

// Silence is how long another process may say nothing before what is sent to it
// is taken to be lost: a TTL.
func (s Settings) Silence() time.Duration { return s.ttl() }

// patience is how long a beat may be unanswered before it is sent again.
func (s Settings) patience() time.Duration { return min(300*time.Millisecond, s.Every()) }

// attemptTimeout ends an attempt that is not answered: three intervals, so that
// a store that is slow and not silent is heard.
func (s Settings) attemptTimeout() time.Duration { return s.ttl() / 2 }

// maxFlying bounds the attempts under way at once. Two go out within the
// patience, the others an interval apart, so that there is always a new one
// within TTL/6, however long the store is silent.
const maxFlying = 4

// pulse decides when a node's beat is sent, and what an answer is worth. It is
// pure; time is that of the BOOTTIME clock.
//
//	            ┌─ moved ─────────────▶ trusted until first + TTL - Margin; n+1 is due at first + TTL/6
//	beat n ─────┼─ nothing in 300 ms ─▶ n again, beside the attempt under way
//	at first    ├─ failed ────────────▶ n again, 300 ms after the last attempt
//	            ├─ lost ──────────────▶ not trusted; the row is read
//	            └─ stood still ───────▶ the same
//	read ───────┬─ the row has m ─────▶ beat m+1
//	            └─ it has no row ─────▶ beat 1
//
// Trust counts from before the first attempt with the number, whichever attempt
// was answered: any of them may be the one that moved the row, and the others
// are then told that it stands there. A beat that took longer than its trust
// lasts proves nothing; the next one does, and is due at once.
//
// A process that stood still may have lost what it owns before its trust ends. So
// the beat under way proves nothing, even if it is answered: it may be from before.
//
// A beat is lost when the row is gone, because it stood still for a day or was
// forgotten, or when a copy of this process (a restored machine) moved it. What
// others see then is not what this node did, so it trusts nothing until a beat
// after that one is acknowledged. Two copies thereby alternate; their fences
// tell them apart.
type pulse struct {
	set    Settings
	n      int64         // the beat being made; 0: the row must be read first
	round  int           // counts beats and readings: an answer to an earlier one is void
	due    time.Duration // when the round may begin
	tries  int           // attempts of this round
	first  time.Duration // when the first of them was made
	last   time.Duration // when the last of them was made
	flying int           // attempts under way, of all rounds
	until  time.Duration // trust ends
}

func newPulse(set Settings) *pulse { return &pulse{set: set, n: 1} }

// attempt is one request to the store: beat n, or with n = 0 a reading.
type attempt struct {
	round int
	n     int64
}

// never is longer than anything waits.
const never = time.Duration(1<<63 - 1)

// wait is how long after now the next attempt is to be made, 0 or less: now. It
// is never while only an answer can change anything.
func (p *pulse) wait(now time.Duration) time.Duration {
	switch {
	case p.flying == maxFlying:
		return never
	case p.tries == 0:
		return p.due - now
	case p.flying >= 2:
		return p.last + p.set.Every() - now
	}
	return p.last + p.set.patience() - now
}

// begin makes the next attempt.
func (p *pulse) begin(now time.Duration) attempt {
	if p.tries == 0 {
		p.first = now
	}
	p.last = now
	p.tries++
	p.flying++
	return attempt{round: p.round, n: p.n}
}

// moved takes the answer to an attempt to beat. acknowledged tells that it
// moved, which is news.
func (p *pulse) moved(a attempt, err error, now time.Duration) (acknowledged bool) {
	p.flying--
	switch {
	case a.round != p.round:
	case err == nil:
		p.until = p.first + p.set.Trust()
		p.next(a.n+1, p.first+p.set.Every())
		return true
	case errors.Is(err, persistence.ErrBeatLost):
		p.until = 0
		p.next(0, now+p.set.patience())
	}
	return false
}

// stalled tells that the process stood still.
func (p *pulse) stalled(now time.Duration) {
	p.until = 0
	p.next(0, now)
}

// found takes the answer to a reading: the beat of the node's row, 0 when it
// has none.
func (p *pulse) found(a attempt, stored int64, err error, now time.Duration) {
	p.flying--
	if a.round == p.round && err == nil {
		p.next(stored+1, now)
	}
}

func (p *pulse) next(n int64, due time.Duration) {
	p.round++
	p.n, p.due, p.tries = n, due, 0
}
