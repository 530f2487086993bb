package partition

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/actors/wheel"
	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// Config is what the core needs to know. All of it is fixed for an ownership.
type Config struct {
	Partition  int32
	Partitions int    // of the cluster
	Node       string // written into the history as the sender
	Format     int    // that job rows are written in; a higher one that is loaded takes its place

	ArmAhead    time.Duration // how long before its instant a slot is made durable, at least
	ArmAheadMax time.Duration // and at most, when many are due
	Retention   time.Duration // how long history, dead letters, finished and deleted jobs are kept
	Remember    time.Duration // how long a command is recognised when it is repeated
	Away        time.Duration // a batch unanswered for this long means that the store is away
	Redeliver   time.Duration // a delivery unanswered this long after its timeout is sent again
	Confirm     time.Duration // a delivery that a remote worker has not confirmed is sent again
	AdoptFor    time.Duration // how long after the acquisition workers may tell what they hold of it: the TTL
	FormerEnded int64         // epoch that an owner acquired that sends nothing any more: it gave the partition up, or its process is known to be gone; 0: none
	SweepPerSec int           // rows swept in a second, at most
	Extra       int           // executions of catch-ups and backfills that are in their first attempt at once, at most; 0: the partition's share of 256, and 4 at least

	Hosts job.HostLimits // which hosts one worker makes all calls to

	// NewID draws the names of batches; random in production, a sequence in tests.
	NewID func() uuid.UUID
}

// DefaultConfig has the values of the documentation; Partition, Partitions and
// Node are the caller's.
func DefaultConfig() Config {
	return Config{
		ArmAhead:    500 * time.Millisecond,
		ArmAheadMax: 10 * time.Second,
		Retention:   30 * 24 * time.Hour,
		Remember:    24 * time.Hour,
		Away:        2 * time.Second,
		Redeliver:   5 * time.Second,
		Confirm:     time.Second,
		AdoptFor:    3 * time.Second,
		SweepPerSec: 50,
		NewID:       uuid.New,
	}
}

// State is a partition in memory: its jobs, what is on the way, and the queue
// of changes that the store does not have yet. Only its actor touches it.
type State struct {
	cfg Config
	now int64 // ms since 1970, of the step under way

	latest int64 // that now has ever been: later than now after a backward step of the clock

	life  int64                    // epoch of this ownership, as targets see it
	jobs  map[string]*jobRec       // Invariant: every job of the partition that the store or the queue has.
	wheel *wheel.Wheel[timed]      // Invariant: an active job with a next slot is in it, or held, or full.
	cache map[job.Key]*compilation // of schedules; an entry may be dropped at any time

	lastNumber int64
	queue      queue
	lanes      lanes     // Invariant: durable, due, with no worker.
	again      []*flight // sent, and to be sent once more to their workers in this step
	held       []*jobRec // due to be armed while the store was away
	freed      []*flight // of the place of their jobs, in this step
	rewires    []*jobRec // whose upstreams were changed in this step, with runs that waited for those before
	looked     []*jobRec // popped in this step: due within the longest arm-ahead
	soon       int       // active jobs due within the longest arm-ahead and not yet armed
	running    map[string]*flight
	line       []*jobRec          // have slots of a catch-up or a backfill to arm, in turn
	paced      int                // executions of those that count for the pace
	pacing     []*flight          // all that do, and some that did, the oldest first
	late       map[string]*parked // executions: a success that nothing waits for is on its way through FindDead; nil: it was reported by a worker
	deciding   map[resultKey]bool // results whose batch is on its way: acknowledged when it is durable, not before

	acks []ack // to be given in this step

	shelves shelves   // Invariant: exactly the unclaimed flights are on them.
	leases  leaseEnds // that ended under this owner
	cleared cleared   // dead letters that it removed

	workers    []*worker // live, in the order in which they are preferred
	untold     int       // of them have not answered an Inquire
	partial    bool      // there are more, not known yet
	adoption   adoption
	dispatches int64 // so far; the number of the last
	quietTill  int64 // nothing new is sent before
	unsure     bool  // what was sent last was withheld: then only one message is

	yielding bool // nothing new is taken any more
	done     bool // this ownership is over

	graph   *job.Graph         // of all jobs; nil: this is not the system partition
	wirings map[string]*wiring // by job id: whose upstreams change just now
	errands map[string]*errand // by command id: what other owners have not answered
	strays  []persistence.Row  // loaded, of no job that is there

	asks     map[Ref]*ask
	single   bool // the commands under way are one: its answer shows the whole job
	commands memory

	sweepSecond int64
	swept       int
	expired     job.Day // history before this day is dropped
	old         deadSweep

	counts map[job.Status]int
	out    []Effect

	panics    int
	lastPanic string
}

// New makes the state of a partition acquired under fence, with no jobs.
// LoadRow adds them and Loaded ends the load.
func New(cfg Config, fence persistence.Fence, now time.Time) *State {
	s := &State{
		cfg:        cfg,
		now:        now.UnixMilli(),
		life:       fence.Epoch,
		jobs:       map[string]*jobRec{},
		wheel:      wheel.New[timed](now.UnixMilli()),
		cache:      map[job.Key]*compilation{},
		lastNumber: fence.LastNumber,
		running:    map[string]*flight{},
		late:       map[string]*parked{},
		deciding:   map[resultKey]bool{},
		shelves:    shelves{of: map[string]*shelf{}},
		leases:     leaseEnds{of: map[heldAs]leaseEnd{}},
		cleared:    cleared{of: map[string]bool{}},
		asks:       map[Ref]*ask{},
		wirings:    map[string]*wiring{},
		errands:    map[string]*errand{},
		lanes:      newLanes(),
		counts:     map[job.Status]int{},
	}
	if cfg.Extra == 0 {
		s.cfg.Extra = max(256/max(cfg.Partitions, 1), 4)
	}
	s.adoption.till = s.now + cfg.AdoptFor.Milliseconds()
	s.queue = newQueue(fence)
	s.commands = newMemory()
	if cfg.Partition == job.SystemPartition {
		s.graph = job.NewGraph()
	}
	return s
}

// acquired tells under which fence, and when, a partition was acquired that was
// loaded before, for an owner with its epoch.
func (s *State) acquired(fence persistence.Fence, now time.Time) {
	s.queue.fence = fence
	s.adoption.till = now.UnixMilli() + s.cfg.AdoptFor.Milliseconds()
}

// Step tells the state that something has happened and returns what is to be
// done about it. The slice is valid until the next Step. After a Stop or a
// Yielded nothing is done any more.
func (s *State) Step(now time.Time, e Event) []Effect {
	clear(s.out)
	s.out = s.out[:0]
	if s.done || s.yielding && !ofStore(e) {
		return s.out
	}
	if back := s.now - now.UnixMilli(); back > 0 {
		s.rewind(back)
	}
	s.now = now.UnixMilli()
	s.latest = max(s.latest, s.now)
	s.take(e)
	switch {
	case s.done:
	case s.yielding:
		s.flush()
		s.acknowledge()
		s.yielded()
	default:
		s.inquire()
		s.endAdoption()
		s.armExtra()
		s.dispatch()
		s.letNextIn()
		s.skipRewired()
		s.hint()
		s.flush()
		s.acknowledge()
	}
	return s.out
}

func (s *State) take(e Event) {
	switch e := e.(type) {
	case Tick:
		s.tick(e.Judge)
	case Asked:
		s.asked(e)
	case Described:
		s.described(e)
	case Graphed:
		s.graphed(e)
	case Told:
		s.told(e)
	case Claimed:
		s.claimed(e)
	case Extended:
		s.extended(e)
	case Late:
		s.lateFound(e)
	case Old:
		s.sweepDead(e)
	case Applied:
		s.applied(e.Fence)
	case Refused:
		s.refused(e.Why)
	case Unavailable:
		s.unavailable()
	case InDoubt:
		s.inDoubt()
	case Settled:
		s.settled(e)
	case Fenced:
		s.emit(Stop{Holder: e.Holder})
		s.done = true
	case Workers:
		s.setWorkers(e.List, e.Partial)
	case Reported:
		s.reported(e)
	case Busied:
		s.busied(e)
	case Offered:
		s.offered(e)
	case Begun:
		s.begun(e)
	case Holds:
		s.holds(e)
	case Withheld:
		s.withheld(e)
	case Yield:
		s.yielding = true
	default:
		panic(fmt.Sprintf("partition: unknown event %T", e))
	}
}

// Wake is when Step wants a Tick: the earliest timer, or the end of a wait.
func (s *State) Wake() (time.Time, bool) {
	var at int64
	ok := false
	by := func(t int64, wanted bool) {
		if wanted && (!ok || t < at) {
			at, ok = t, true
		}
	}
	if s.done {
		return time.Time{}, false
	}
	by(s.queue.wake())
	if !s.yielding {
		by(s.wheel.Next())
		by(s.adoption.till, !s.adoption.over)
		by(s.adoption.gather, s.queue.flying == nil && s.queue.lines.len() > 0)
		by(s.wakeLanes())
		by(s.wakePace())
		by(s.shelves.hintAt, s.shelves.hintAt != 0)
		for _, w := range s.workers {
			by(w.asked+s.inquireEvery(), !w.told)
			if s.lanes.n > 0 && !w.Draining {
				by(max(w.till, s.quietTill), w.blocked)
				by(s.quietTill, s.now < s.quietTill)
			}
		}
	}
	return time.UnixMilli(at), ok
}

// rewind follows a backward step of the clock: what waits for so long goes on
// waiting for so long, and not until the clock is there again.
func (s *State) rewind(back int64) {
	s.quietTill -= back
	s.adoption.till -= back
	if s.adoption.gather != 0 {
		s.adoption.gather -= back
	}
	for _, l := range s.lanes.of {
		for i := range l.holds {
			l.holds[i].till -= back
		}
	}
	if s.shelves.hintAt != 0 {
		s.shelves.hintAt -= back
	}
	for _, w := range s.workers {
		w.till -= back
		w.asked -= back
	}
	for _, f := range s.running {
		switch {
		case f.phase == sent || f.phase == waiting && f.timer.At() > f.sendAt():
			s.wheel.Schedule(&f.timer, f.timer.At()-back)
		case f.phase == leased:
			f.lease.granted -= back
			s.setUntil(f, f.lease.until-back)
		}
	}
	if b := s.queue.flying; b != nil {
		b.sent -= back
		if b.retryAt != 0 {
			b.retryAt -= back
		}
	}
}

func (s *State) emit(e Effect) { s.out = append(s.out, e) }

// draw returns the next number of the partition: generation, revision or
// decision. None is ever given twice, also across takeovers.
func (s *State) draw() int64 {
	s.lastNumber++
	return s.lastNumber
}

// tick fires what is due by now.
func (s *State) tick(judge bool) {
	s.retryStore()
	if s.yielding {
		return
	}
	for _, w := range s.workers {
		w.blocked = w.blocked && s.now < w.till
	}
	if judge {
		s.renewAll()
	}
	for {
		t := s.wheel.Pop(s.now)
		if t == nil {
			break
		}
		s.fire(t.Value)
	}
	s.armLooked(judge)
	if judge {
		s.judgeFull()
	}
	s.expireHistory()
}

// timed is what a timer of the wheel stands for: a flight, else a job, else an
// errand, else the sweep of dead letters, else that of remembered commands.
type timed struct {
	flight *flight
	job    *jobRec
	errand *errand
	dead   bool
}

func (s *State) fire(t timed) {
	switch {
	case t.flight != nil:
		s.guard(t.flight.job.id, func() { s.flightDue(t.flight) })
	case t.job != nil:
		s.jobDue(t.job)
	case t.errand != nil:
		s.run(t.errand)
	case t.dead:
		s.findOld()
	default:
		s.sweepCommands()
	}
}

func (s *State) jobDue(j *jobRec) {
	if j.status != job.Active {
		s.sweepJob(j)
		return
	}
	s.looked = append(s.looked, j)
}

// expireHistory asks, once a day, for the end of history past its retention.
func (s *State) expireHistory() {
	before := job.DayOfMillis(s.now - s.cfg.Retention.Milliseconds())
	if before > s.expired {
		s.expired = before
		s.emit(Expire{Before: before})
	}
}

// Stats is what the metrics show of a partition.
type Stats struct {
	Jobs          map[job.Status]int
	InFlight      int
	Ready         int // due and waiting for a worker
	OldestOverdue time.Duration
	Queued        int            // changes that the store does not have yet
	Unclaimed     map[string]int // executions that wait for outside workers, by queue
}

// Stats counts what is there now.
func (s *State) Stats(now time.Time) Stats {
	st := Stats{Jobs: make(map[job.Status]int, len(s.counts)), InFlight: len(s.running), Ready: s.lanes.n, Queued: s.queue.lines.len(), Unclaimed: s.shelves.depths()}
	for k, v := range s.counts {
		st.Jobs[k] = v
	}
	for _, l := range s.lanes.busy {
		for _, f := range l.flights {
			st.OldestOverdue = max(st.OldestOverdue, now.Sub(time.UnixMilli(f.sendAt())))
		}
	}
	return st
}
