package cluster

import (
	"slices"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// Claims decides which partitions a node takes, and which it gives up. It is
// pure: it is told what happened and at which moment of the node's own BOOTTIME
// clock, and returns what is to be done. Nothing here makes an owner: only the
// write that raises the epoch does, and a claim that is wrong costs a refusal.
//
// A partition's way, seen from one node:
//
//	       proposed to us           its holder is gone,
//	Away ────────────────▶ Wanted ─────── or gave it ──────▶ Taking
//	 ▲ ▲                     │  ▲                              │ epoch raised,
//	 │ └───────── no longer ─┘  └──────────── refused ─────────┤ loaded
//	 │                                                         ▼
//	 └── stopped ◀── Offering ◀── Yielding ◀─ proposed to ─  Owned
//	                 (the next    (its queue   another
//	                 owner takes   is being
//	                 it, or it is  committed)
//	                 released)
//
// Ownership moves in two ways. A partition whose owner lives is given: the owner
// sees that it is proposed to another node, and hands it over. One whose owner
// is dead is taken, when Watch says so.
type Claims struct {
	cfg        ClaimsConfig
	watch      *Watch
	view       *View
	candidates []Member
	able       bool
	now        time.Duration // of the last event
	claims     []claim       // the system partition's is the last
	readings   int           // of fences that were begun
	out        []ClaimEffect
}

// ClaimsConfig is what Claims needs to know.
type ClaimsConfig struct {
	Self       persistence.Owner
	Partitions int
	// System: the system partition is claimed like any other.
	System bool
	// Alone: no other process can have the store, whatever a fence says. Nothing
	// is watched then.
	Alone bool
	// Takes is how many partitions are read, acquired or loaded at once, and
	// Gives how many are given up at once.
	Takes, Gives int
	// OfferFor is how long the next owner may stay silent before the partition
	// is released for anybody.
	OfferFor time.Duration
	// Pause is waited before a partition is tried again that could not be taken.
	Pause time.Duration
	// Settle is how long a partition is kept at least, so that nodes that do not
	// see the same members yet do not pass it to and fro.
	Settle time.Duration
}

// DefaultClaims has the values of the documentation.
func DefaultClaims(self persistence.Owner, partitions int) ClaimsConfig {
	return ClaimsConfig{Self: self, Partitions: partitions, Takes: 16, Gives: 4, OfferFor: time.Second, Pause: time.Second, Settle: 200 * time.Millisecond}
}

// Claimed is where a partition stands.
type Claimed byte

const (
	Away     Claimed = iota // another node is to own it
	Wanted                  // ours to own, held by another
	Reading                 // its fence is being read
	Taking                  // it is being acquired and loaded
	Owned                   // its owner runs here
	Yielding                // its owner commits what is left
	Offering                // the next owner was told
	Leaving                 // its owner is being stopped
)

type claim struct {
	is    Claimed
	at    time.Duration // Wanted, or doubted: when the fence is read; Owned: when it may be given; Offering: when that ends
	ours  bool          // proposed to us
	next  Member        // else to whom, if there is anybody
	fence persistence.Fence

	// The fence may name this node although no owner runs: nobody else takes the
	// partition then, so this node must, if only to give it up.
	kept bool
	// While it is owned, or about to be, the fence has to be read again: another
	// node may have taken it. twice: and once more after the reading under way.
	doubted, twice bool
	// The reading of the fence that is under way; 0: none. Other answers are of
	// owners that have ended.
	reading int
}

// ClaimEffect is what Claims wants done.
type ClaimEffect interface{ claimEffect() }

type (
	// ReadFence is answered by Claims.Fence.
	ReadFence struct {
		Partition int32
		Reading   int // its number
	}
	// Take acquires the partition exactly after Seen, and loads it; answered by
	// Claims.Took. Ended tells that the owner before has certainly ended; Given, that
	// it has committed all that it ever will, and nothing was written since if the
	// partition can be acquired exactly after Seen.
	Take struct {
		Partition    int32
		Seen         persistence.Fence
		Ended, Given bool
	}
	// Yield tells the owner to commit what it has and to stop acting; answered
	// by Claims.Yielded.
	Yield struct {
		Partition int32
		Next      Member // where requests go meanwhile; zero: nobody
	}
	// Offer tells the next owner that everything is committed under Fence;
	// answered by Claims.Answered.
	Offer struct {
		Partition int32
		Fence     persistence.Fence
		Next      Member
	}
	// Release gives the partition up for anybody, and then ends its owner.
	Release struct {
		Partition int32
		Fence     persistence.Fence
	}
	// End stops the owner; its end is told to Claims.Ended, as any other.
	End struct{ Partition int32 }
)

func (ReadFence) claimEffect() {}
func (Take) claimEffect()      {}
func (Yield) claimEffect()     {}
func (Offer) claimEffect()     {}
func (Release) claimEffect()   {}
func (End) claimEffect()       {}

// NewClaims makes claims on nothing: no member is known yet.
func NewClaims(cfg ClaimsConfig, w *Watch) *Claims {
	n := cfg.Partitions
	if cfg.System {
		n++
	}
	return &Claims{cfg: cfg, watch: w, view: &View{}, claims: make([]claim, n)}
}

// of is the claim on a partition, and partition the one that a claim is on.
func (c *Claims) of(p int32) *claim {
	if p == job.SystemPartition {
		return &c.claims[c.cfg.Partitions]
	}
	return &c.claims[p]
}

func (c *Claims) partition(i int) int32 {
	if i == c.cfg.Partitions {
		return job.SystemPartition
	}
	return int32(i)
}

// Is tells where a partition stands.
func (c *Claims) Is(p int32) Claimed { return c.of(p).is }

// Count is how many partitions stand somewhere.
func (c *Claims) Count(in ...Claimed) int {
	n := 0
	for i := range c.claims {
		for _, is := range in {
			if c.claims[i].is == is {
				n++
			}
		}
	}
	return n
}

// Idle tells that nothing is owned, or about to be.
func (c *Claims) Idle() bool { return c.Count(Away, Wanted) == len(c.claims) }

// See tells who seems alive, and who of them may own partitions: schedulers
// that are not leaving, whose clock is right and whose beat does not stand still.
func (c *Claims) See(now time.Duration, view *View, candidates []Member) []ClaimEffect {
	c.begin()
	c.view, c.candidates = view, candidates
	assigned := Assign(c.cfg.Partitions, candidates)
	if assigned != nil {
		assigned = append(assigned, AssignSystem(candidates))
	}
	for i := range c.claims {
		k := &c.claims[i]
		if k.next = (Member{}); assigned != nil {
			k.next = assigned[i]
		}
		k.ours = assigned != nil && k.next.Owner() == c.cfg.Self
		switch {
		case k.ours && (k.is == Away || k.is == Wanted): // of the latter the holder may be gone
			k.is, k.at = Wanted, now
		case !k.ours && k.is == Wanted && !k.kept:
			k.is = Away
		}
	}
	return c.proceed(now)
}

// Beats tells what the store says of all nodes, in a reading that began at an
// earlier moment and has just ended.
func (c *Claims) Beats(began, now time.Duration, rows []persistence.Beat) []ClaimEffect {
	c.begin()
	c.watch.Saw(began, now, rows)
	return c.proceed(now)
}

// Tick tells that time has passed.
func (c *Claims) Tick(now time.Duration) []ClaimEffect {
	c.begin()
	return c.proceed(now)
}

// Wake is when Claims wants a Tick, if at all. What is due already waits for
// something else to end.
func (c *Claims) Wake() (at time.Duration, found bool) {
	for i := range c.claims {
		k := &c.claims[i]
		if k.due() && k.at > c.now && (!found || k.at < at) {
			at, found = k.at, true
		}
	}
	return at, found
}

// Fence is the answer to the ReadFence of that number. It is confirmed when the
// owner that runs here was found in it: that may act on what was certain before
// the reading began.
func (c *Claims) Fence(now time.Duration, p int32, reading int, f persistence.Fence, err error) (confirmed bool, effects []ClaimEffect) {
	c.begin()
	k := c.of(p)
	if reading != k.reading {
		return false, c.proceed(now)
	}
	k.reading = 0
	holder := persistence.Owner{Node: f.Owner, Incarnation: f.Incarnation}
	switch {
	case k.is == Owned:
		confirmed = c.recheck(now, p, holder, err)
	case err != nil:
		k.is, k.at = Wanted, now+c.cfg.Pause
	case !k.ours && holder != c.cfg.Self:
		k.is, k.kept = Away, false
	default:
		c.judge(now, p, f, holder)
	}
	return confirmed, c.proceed(now)
}

// recheck ends a doubt, unless another one has come up since.
func (c *Claims) recheck(now time.Duration, p int32, holder persistence.Owner, err error) (confirmed bool) {
	k := c.of(p)
	switch {
	case err != nil:
		k.at = now + c.cfg.Pause
	case holder != c.cfg.Self:
		k.is, k.doubted = Leaving, false
		c.emit(End{p})
	case !k.twice:
		k.doubted, confirmed = false, true
	}
	k.twice = false
	return confirmed
}

// judge takes a partition whose fence was read, or waits.
func (c *Claims) judge(now time.Duration, p int32, f persistence.Fence, holder persistence.Owner) {
	k := c.of(p)
	may, again := true, time.Duration(0)
	if !c.cfg.Alone && holder != c.cfg.Self { // our own owner of it has ended, or we would not ask
		may, again = c.watch.MayTake(now, holder, c.cfg.Self, c.view)
	}
	if !may {
		k.is, k.at, k.kept = Wanted, now+min(again, c.cfg.Pause), false
		return
	}
	k.is = Taking
	c.emit(Take{Partition: p, Seen: f, Ended: c.cfg.Alone || holder == c.cfg.Self || holder.Node == ""})
}

// Took is the answer to Take: nil when the owner runs. Else held tells that the
// epoch was raised all the same.
func (c *Claims) Took(now time.Duration, p int32, held bool, err error) []ClaimEffect {
	c.begin()
	k := c.of(p)
	switch {
	case k.is != Taking:
	case err == nil:
		k.is, k.at, k.kept = Owned, now+c.cfg.Settle, false
		if k.doubted {
			k.at = now
		}
	default:
		k.kept, k.doubted = k.kept || held, false
		k.is, k.at = Wanted, now+c.cfg.Pause
		if !k.ours && !k.kept {
			k.is = Away
		}
	}
	return c.proceed(now)
}

// Offered tells that another node gives us a partition, under f. It is refused
// when we have it already, or are giving up what we have. Our own view need not
// propose it to us yet.
func (c *Claims) Offered(now time.Duration, p int32, f persistence.Fence) (accepted bool, effects []ClaimEffect) {
	c.begin()
	k := c.of(p)
	if c.able && c.candidate() && (k.is == Away || k.is == Wanted || k.is == Reading) {
		k.is, k.reading, accepted = Taking, 0, true
		c.emit(Take{Partition: p, Seen: f, Ended: true, Given: true})
	}
	return accepted, c.proceed(now)
}

// Yielded is the answer to Yield: everything is committed under f.
func (c *Claims) Yielded(now time.Duration, p int32, f persistence.Fence) []ClaimEffect {
	c.begin()
	if k := c.of(p); k.is == Yielding {
		k.fence = f
		if !k.ours && k.next.Node != "" {
			k.is, k.at = Offering, now+c.cfg.OfferFor
			c.emit(Offer{p, f, k.next})
		} else {
			k.is = Leaving
			c.emit(Release{p, f})
		}
	}
	return c.proceed(now)
}

// Answered is the answer to the Offer of a fence with that epoch.
func (c *Claims) Answered(now time.Duration, p int32, epoch int64, taken bool) []ClaimEffect {
	c.begin()
	if k := c.of(p); k.is == Offering && k.fence.Epoch == epoch {
		k.is = Leaving
		if taken {
			c.emit(End{p})
		} else {
			c.emit(Release{p, k.fence})
		}
	}
	return c.proceed(now)
}

// Ended tells that the owner of a partition has stopped, for whatever reason.
func (c *Claims) Ended(now time.Duration, p int32) []ClaimEffect {
	c.begin()
	k := c.of(p)
	asked := k.is == Leaving
	if k.is != Taking {
		k.doubted, k.twice, k.reading = false, false, 0
	}
	switch {
	case k.is == Taking: // the one before; the next is on its way
	case asked && k.ours:
		k.is, k.at = Wanted, now
	case asked && !k.kept:
		k.is = Away
	default: // the fence may still name us
		k.is, k.at, k.kept = Wanted, now+c.cfg.Pause, true
	}
	return c.proceed(now)
}

// Unreleased tells that a Release failed, and the fence may still name us.
func (c *Claims) Unreleased(p int32) { c.of(p).kept = true }

// Rival tells that a later epoch of a partition is said to be owned elsewhere:
// an owner that commits nothing would not notice.
func (c *Claims) Rival(now time.Duration, p int32) []ClaimEffect {
	c.begin()
	c.doubt(now, p)
	return c.proceed(now)
}

// Able tells whether this node's beats are seen: while they are not it takes
// nothing, and afterwards it asks who owns what it owned.
func (c *Claims) Able(now time.Duration, able bool) []ClaimEffect {
	c.begin()
	if able && !c.able {
		for i := range c.claims {
			c.doubt(now, c.partition(i))
		}
	}
	c.able = able
	return c.proceed(now)
}

func (c *Claims) doubt(now time.Duration, p int32) {
	k := c.of(p)
	switch {
	case k.is != Owned && k.is != Taking:
	case k.doubted:
		k.twice = k.reading != 0
	default:
		k.doubted, k.at = true, now
	}
}

// candidate tells whether this node may own partitions.
func (c *Claims) candidate() bool {
	return slices.ContainsFunc(c.candidates, func(m Member) bool { return m.Owner() == c.cfg.Self })
}

func (c *Claims) begin() {
	clear(c.out)
	c.out = c.out[:0]
}

func (c *Claims) emit(e ClaimEffect) { c.out = append(c.out, e) }

// proceed starts what can start now.
func (c *Claims) proceed(now time.Duration) []ClaimEffect {
	c.now = now
	taking, giving := c.Count(Reading, Taking), c.Count(Yielding, Offering, Leaving)
	for i := range c.claims {
		p, k := c.partition(i), &c.claims[i]
		switch {
		case !k.due() || now < k.at:
		case k.is == Offering:
			k.is = Leaving
			c.emit(Release{p, k.fence})
		case k.is == Owned && k.doubted:
			c.read(p)
		case k.is == Owned && giving < c.cfg.Gives:
			k.is = Yielding
			giving++
			c.emit(Yield{p, k.next})
		case k.is == Wanted && c.able && taking < c.cfg.Takes:
			k.is = Reading
			taking++
			c.read(p)
		}
	}
	return c.out
}

func (c *Claims) read(p int32) {
	c.readings++
	c.of(p).reading = c.readings
	c.emit(ReadFence{p, c.readings})
}

// due tells whether something is done when its time comes.
func (k *claim) due() bool {
	switch k.is {
	case Wanted, Offering:
		return true
	case Owned:
		return k.doubted && k.reading == 0 || !k.doubted && !k.ours
	}
	return false
}
