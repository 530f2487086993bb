package partition

import (
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/guards"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// change is what one decision writes and what may be done once it is durable.
// It is never split over batches.
type change struct {
	s       *State
	number  int64   // in the order in which changes are made
	id      string  // of the job. Invariant: all its rows are that job's.
	job     *jobRec // nil: it may be given up without a mark on the job
	rows    []persistence.Row
	history []persistence.HistoryRow
	after   []Effect
	flights []*flight // become durable with it
	answers []answered
	bytes   int

	acks      []ack
	ended     heldAs       // the lease that it ends as its worker asked
	late      string       // execution of the success that it judges late
	remembers []commandKey // commands whose answer becomes durable with it
	hooks     []func()     // what goes on once it is durable
}

// change opens a change of a job, behind all that it has waiting.
func (s *State) change(j *jobRec) *change {
	c := s.changeOf(j.id)
	c.job = j
	return c
}

// changeOf opens a change for a job id under which there may be no job.
func (s *State) changeOf(id string) *change {
	c := &change{s: s, id: id}
	s.queue.lines.add(c)
	return c
}

func (c *change) size() int   { return len(c.rows) + len(c.history) }
func (c *change) empty() bool { return c.size() == 0 }

func (c *change) row(r persistence.Row) *change {
	c.bytes += r.Bytes()
	c.rows = append(c.rows, r)
	return c
}

func (c *change) then(e Effect) *change {
	c.after = append(c.after, e)
	return c
}

// afterwards lets something go on once the change is durable.
func (c *change) afterwards(do func()) { c.hooks = append(c.hooks, do) }

func (c *change) publish(e *belfryv1.Event) *change { return c.then(Publish{e}) }

// record adds a line of history and notes the day that now has one.
func (c *change) record(j *jobRec, slot int64, executionID string, attempt int32, epoch int64, r *belfryv1.Record) *change {
	day := job.DayOfMillis(slot)
	j.history().addDay(day, job.DayOfMillis(c.s.now-c.s.cfg.Retention.Milliseconds()))
	h := persistence.HistoryRow{
		Day: day, JobID: j.id, ScheduledFor: slot, ExecutionID: executionID,
		Attempt: attempt, Decision: c.s.draw(), Epoch: epoch, Record: encode(r),
	}
	c.bytes += len(h.Record) + len(h.ExecutionID) + 48
	c.history = append(c.history, h)
	return c
}

// addDay notes a day with history, in order, and forgets those past retention.
func (p *past) addDay(day, oldest job.Day) {
	for len(p.days) > 0 && p.days[0] < int32(oldest) {
		p.days = p.days[1:]
	}
	i := len(p.days)
	for i > 0 && p.days[i-1] > int32(day) {
		i--
	}
	if i > 0 && p.days[i-1] == int32(day) {
		return
	}
	days := make([]int32, 0, len(p.days)+1)
	days = append(append(append(days, p.days[:i]...), int32(day)), p.days[i:]...)
	p.days = days
}

// queue is the changes that the store does not have yet, and the one batch
// that is on its way there.
type queue struct {
	fence  persistence.Fence // Invariant: the fence after the last batch known to be applied or dead.
	lines  lines
	flying *batch  // nil: none is out
	limit  int     // changes in a batch; lowered while a refused one is searched
	pause  int64   // ms, between repeats of an unanswered request
	rate   float64 // rows/s that the store takes
}

// batch is a group commit on its way.
type batch struct {
	changes []*change
	op      uuid.UUID
	sent    int64     // when it was sent for the first time
	settle  uuid.UUID // name of the barrier; zero: not in doubt
	retryAt int64     // when the request goes out again; 0: it is out
	rows    int
}

const (
	noLimit       = 1 << 30
	firstPause    = 50   // ms
	longestPause  = 1000 // ms
	expectedSpeed = 2000 // rows/s of a partition before any is measured: careful

	// batchTime is how long a batch should take at most, in ms: a command waits
	// for the one that is out and for its own. leastRows is what a batch may have
	// however slow the store is: fewer make it slower still.
	batchTime = 250
	leastRows = 64
)

func newQueue(f persistence.Fence) queue {
	return queue{fence: f, lines: lines{jobs: map[string]standing{}}, limit: noLimit, pause: firstPause, rate: expectedSpeed}
}

// room is how many rows the next batch may have.
func (q *queue) room() int {
	return min(max(int(q.rate*batchTime/1000), leastRows), persistence.MaxBatchRows)
}

// away tells whether the store has been silent too long to count on it.
func (s *State) away() bool {
	b := s.queue.flying
	return b != nil && s.now-b.sent >= s.cfg.Away.Milliseconds()
}

// wake is when a request that was not answered goes out again. While one is
// out there is nothing to do but wait.
func (q *queue) wake() (int64, bool) {
	if b := q.flying; b != nil && b.retryAt != 0 {
		return b.retryAt, true
	}
	return 0, false
}

// flush sends the next batch when none is out.
func (s *State) flush() {
	q := &s.queue
	if q.flying != nil || s.gathering() {
		return
	}
	for c := q.lines.idle(); c != nil; c = q.lines.idle() {
		s.release(c) // all of its job that was before it is durable
	}
	changes, rows := q.lines.take(q.limit, q.room())
	if len(changes) == 0 {
		return
	}
	q.flying = &batch{changes: changes, op: s.cfg.NewID(), sent: s.now, rows: rows}
	s.sendBatch()
	if guards.NoWait {
		s.releaseAll(changes)
	}
}

func (s *State) releaseAll(changes []*change) {
	for _, c := range changes {
		s.release(c)
	}
}

// sendBatch sends the batch in flight under the fence that holds.
func (s *State) sendBatch() {
	b := s.queue.flying
	out := persistence.Batch{OpID: b.op, LastNumber: s.lastNumber}
	for _, c := range b.changes {
		out.Rows = append(out.Rows, c.rows...)
		out.History = append(out.History, c.history...)
	}
	b.retryAt = 0
	s.emit(Commit{Held: s.queue.fence, Batch: out})
}

// applied releases everything that waited for the batch.
func (s *State) applied(f persistence.Fence) {
	q := &s.queue
	b := q.flying
	if b == nil {
		s.emit(Stop{Fault: "the store reports a batch that was not sent"})
		s.done = true
		return
	}
	q.fence, q.flying, q.pause, q.limit = f, nil, firstPause, noLimit
	s.measure(b)
	if !guards.NoWait {
		s.releaseAll(b.changes)
	}
	s.judgeHeld()
}

// measure keeps a running figure of how fast the store takes rows.
func (s *State) measure(b *batch) {
	took := max(s.now-b.sent, 1)
	if b.rows >= 32 { // a small batch says nothing about speed
		s.queue.rate = (s.queue.rate + float64(b.rows)*1000/float64(took)) / 2
	}
}

func (s *State) release(c *change) {
	for _, e := range c.after {
		s.emit(e)
	}
	for _, k := range c.remembers {
		if _, ok := s.commands.known[k]; ok {
			s.commands.known[k] = true
		}
	}
	for _, a := range c.answers {
		s.answerDurable(a)
	}
	for _, f := range c.flights {
		s.guard(c.id, func() { s.durable(f, c) })
	}
	delete(s.late, c.late)
	for _, a := range c.acks {
		delete(s.deciding, keyOfResult(a.ref))
	}
	s.acks = append(s.acks, c.acks...)
	for _, hook := range c.hooks {
		s.guard(c.id, hook)
	}
}

// refused halves a batch until the change is found that the store cannot take.
func (s *State) refused(why string) {
	q := &s.queue
	b := q.flying
	q.flying = nil
	if n := len(b.changes); n > 1 {
		q.limit = n / 2
		q.lines.putBack(b.changes)
		return
	}
	q.limit = noLimit
	s.reject(b.changes[0], why)
}

// reject gives up one change: whoever asked for it is told, and its job is
// marked, in memory at least, since the store may refuse the mark as well.
func (s *State) reject(c *change, why string) {
	for _, k := range c.remembers {
		delete(s.commands.known, k)
	}
	for _, a := range c.answers {
		a.answer = refusal(a.answer.GetCommandId(), belfryv1.Refusal_CODE_INVALID, "", "the store cannot take this job: %s", why)
		s.answerDurable(a)
	}
	delete(s.leases.of, c.ended)
	delete(s.late, c.late)
	for _, a := range c.acks {
		delete(s.deciding, keyOfResult(a.ref)) // reported again, and unwanted then
	}
	if j := c.job; j != nil && j.status != job.Faulty {
		j.spec = nil
		s.spoilt(j, "the store refuses its row: "+why)
	}
	s.judgeHeld()
}

// unavailable lets the same request go out again after a pause.
func (s *State) unavailable() {
	q := &s.queue
	if q.flying == nil {
		return
	}
	q.flying.retryAt = s.now + q.pause
	q.pause = min(q.pause*2, longestPause)
}

// retryStore repeats the request that was not answered, once its pause is over.
func (s *State) retryStore() {
	b := s.queue.flying
	if b == nil || b.retryAt == 0 || s.now < b.retryAt {
		return
	}
	if b.settle != (uuid.UUID{}) {
		s.sendBarrier()
		return
	}
	s.sendBatch()
}

// inDoubt raises the barrier behind a batch whose fate is unknown.
func (s *State) inDoubt() {
	b := s.queue.flying
	if b == nil {
		return
	}
	if b.settle == (uuid.UUID{}) {
		b.settle = s.cfg.NewID()
	}
	s.sendBarrier()
}

// sendBarrier sends the barrier, unchanged however often.
func (s *State) sendBarrier() {
	b := s.queue.flying
	b.retryAt = 0
	s.emit(Settle{Held: s.queue.fence, Batch: b.op, Op: b.settle})
}

// settled ends the doubt: the batch is applied, or dead, and then its rows go
// out again unchanged under the fence that the barrier made.
func (s *State) settled(e Settled) {
	b := s.queue.flying
	if b == nil {
		return
	}
	if e.Applied {
		s.applied(e.Fence)
		return
	}
	s.queue.fence = e.Fence
	b.op, b.settle = s.cfg.NewID(), uuid.UUID{}
	s.sendBatch()
}

// answered is an answer that waits for its change.
type answered struct {
	ref    Ref
	index  int
	answer *belfryv1.Answer
}

// ask collects the answers to one message; the reply goes out when all are
// there.
type ask struct {
	answers []*belfryv1.Answer
	left    int
	single  bool
}

func (s *State) answerDurable(a answered) {
	k, ok := s.asks[a.ref]
	if !ok {
		return
	}
	if k.answers[a.index] == nil {
		k.left--
	}
	k.answers[a.index] = a.answer
	if k.left == 0 {
		delete(s.asks, a.ref)
		var reply proto.Message = &belfryv1.Answers{Answers: k.answers}
		if k.single {
			reply = k.answers[0]
		}
		s.emit(Reply{To: a.ref, Answer: reply})
	}
}
