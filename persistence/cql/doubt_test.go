package cql

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// proxied is a store behind a proxy.
func (b *bench) proxied() (*Store, *cqlproxy.Proxy) {
	b.Helper()
	p := cqlproxy.Start(b, b.db.Hosts()[0])
	return b.openAs(func(c *Config) { c.seams.dial = cqlproxy.Via(p).DialContext }), p
}

// isCommit is true of the batch that carries an op id.
func isCommit(op uuid.UUID) func(cqlproxy.Request) bool {
	return func(r cqlproxy.Request) bool { return r.Op == frame.OpBatch && r.Carries(op[:]) }
}

// fates are what may become of a conditional write; the write is executed in all
// but the last.
var fates = []struct {
	name   string
	action func() cqlproxy.Action
	done   bool // the server has executed it
}{
	{"answer swallowed", cqlproxy.Swallow, true},
	{"answer late", func() cqlproxy.Action { return cqlproxy.Delay(4 * time.Second) }, true},
	{"write timeout", func() cqlproxy.Action {
		return cqlproxy.Replace(cqlproxy.WriteTimeout(frame.LocalSerial, 0, 1, cqlproxy.WriteCAS))
	}, true},
	{"write timeout of the commit round", func() cqlproxy.Action {
		return cqlproxy.Replace(cqlproxy.WriteTimeout(frame.LocalQuorum, 0, 1, cqlproxy.WriteSimple))
	}, true},
	{"outcome unknown", func() cqlproxy.Action { return cqlproxy.Replace(cqlproxy.CASWriteUnknown(frame.LocalSerial, 0, 1)) }, true},
	{"server error", func() cqlproxy.Action {
		return cqlproxy.Replace(&frame.Error{Code: frame.CodeServerError, Message: "oops"})
	}, true},
	{"unavailable after the round", func() cqlproxy.Action {
		return cqlproxy.Replace(cqlproxy.Unavailable(frame.LocalQuorum, 1, 0))
	}, true},
	{"request lost", cqlproxy.Drop, false},
}

// TestDoubtsAreSettled: whatever becomes of an answer, the caller hears that the
// write is in doubt, sends it once, and the barrier tells the truth. Each verdict
// is compared with what is stored.
func TestDoubtsAreSettled(t *testing.T) {
	const rounds = 8 // of each fate, each in a partition of its own
	b := setup(t).impatient()
	truth := b.open() // not through the proxy
	s, p := b.proxied()
	warm(t, s)
	var f fateful
	p.Decide(f.decide)
	var wg sync.WaitGroup
	for i, fate := range fates {
		for round := range rounds {
			wg.Go(func() {
				id := f.expect(fate.action())
				oneDoubt(t, newChain(t, s, int32(i*rounds+round)), truth, fate.name, id, fate.done)
				f.sentOnce(t, fate.name, id)
			})
		}
	}
	wg.Wait()
	t.Logf("%d doubts", len(fates)*rounds)
}

// TestBrokenConnectionsAreSettled is the same for a connection that breaks after
// the write. It breaks for every write under way, so there is one at a time.
func TestBrokenConnectionsAreSettled(t *testing.T) {
	b := setup(t).impatient()
	truth := b.open()
	s, p := b.proxied()
	warm(t, s)
	var f fateful
	p.Decide(f.decide)
	for partition := range int32(10) {
		id := f.expect(cqlproxy.Cut())
		oneDoubt(t, newChain(t, s, partition), truth, "connection cut", id, true)
		f.sentOnce(t, "connection cut", id)
	}
}

// fateful is a rule that knows the fate of each batch by a job id in it.
type fateful struct {
	mu      sync.Mutex
	actions map[string]cqlproxy.Action
	sent    map[string]int
}

// expect draws a job id whose batch meets an action.
func (f *fateful) expect(a cqlproxy.Action) (jobID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.actions == nil {
		f.actions, f.sent = map[string]cqlproxy.Action{}, map[string]int{}
	}
	jobID = "job-" + uuid.NewString()
	f.actions[jobID] = a
	return jobID
}

func (f *fateful) decide(r cqlproxy.Request) cqlproxy.Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, a := range f.actions {
		if r.Op == frame.OpBatch && r.Carries([]byte(id)) {
			f.sent[id]++
			return a
		}
	}
	return cqlproxy.Pass()
}

func (f *fateful) sentOnce(t *testing.T, what, jobID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sent[jobID] != 1 {
		t.Errorf("%s: the batch was sent %d times", what, f.sent[jobID])
	}
}

// warm commits often enough that the store knows how long that takes.
func warm(t testing.TB, s *Store) {
	t.Helper()
	c := newChain(t, s, 4000)
	for range known {
		c.must("commit", c.commit(persistence.Batch{}))
	}
}

// oneDoubt commits a row, hears of a doubt, settles it and compares.
func oneDoubt(t *testing.T, c *chain, truth *Store, what, jobID string, done bool) {
	row := persistence.Row{Slice: 1, JobID: jobID, Status: job.Active, State: []byte("state")}
	held, op := c.held, uuid.New()
	_, err := c.s.Commit(context.Background(), held, persistence.Batch{OpID: op, LastNumber: 7, Rows: []persistence.Row{row}})
	if !errors.Is(err, persistence.ErrInDoubt) || errors.Is(err, job.ErrUnavailable) {
		t.Errorf("%s: got error %v, want a doubt", what, err)
		return
	}
	applied, err := c.settle(op)
	if err != nil {
		t.Errorf("%s: settle: %v", what, err)
		return
	}
	got, err := truth.Get(context.Background(), held.Partition, row.Slice, row.JobID, "")
	stored := err == nil && string(got.State) == string(row.State)
	if applied != stored || applied != done {
		t.Errorf("%s: the verdict is applied=%v, and the row is there: %v (%v)", what, applied, stored, err)
	}
	want := held
	want.Seq++
	want.OpID = op
	if want.LastNumber = 7; !applied {
		want.Epoch, want.OpID, want.LastNumber = want.Epoch+1, c.held.OpID, held.LastNumber
	}
	if now, err := truth.ReadFence(context.Background(), held.Partition); err != nil || now != c.held || now != want {
		t.Errorf("%s: the fence is %+v, %v, the owner holds %+v, want %+v", what, now, err, c.held, want)
	}
	if err := c.commit(persistence.Batch{}); err != nil {
		t.Errorf("%s: commit after it: %v", what, err)
	}
}

// TestRefusalsWriteNothing: the answers that are known to come before anything
// is written are no doubts.
func TestRefusalsWriteNothing(t *testing.T) {
	b := setup(t)
	s, p := b.proxied()
	c := newChain(t, s, 0)
	for what, e := range map[string]*frame.Error{
		"unavailable":   cqlproxy.Unavailable(frame.LocalSerial, 2, 1),
		"bootstrapping": {Code: 0x1002, Message: "Cannot read from a bootstrapping node"},
		"unauthorized":  {Code: 0x2100, Message: "User has no MODIFY permission"},
	} {
		op := uuid.New()
		p.Decide(cqlproxy.Always(isCommit(op), cqlproxy.Refuse(e)))
		_, err := s.Commit(t.Context(), c.held, persistence.Batch{OpID: op})
		if !errors.Is(err, job.ErrUnavailable) || errors.Is(err, persistence.ErrInDoubt) {
			t.Errorf("%s: got error %v, want ErrUnavailable", what, err)
		}
		next, err := s.Commit(t.Context(), c.held, persistence.Batch{OpID: uuid.New()})
		c.must("commit after "+what, err)
		c.held = next
	}
}

// TestInvalidIsTheContentOrTheTable: the database calls a batch invalid; when it
// takes other writes, the batch is to blame, and when it does not, it is not.
func TestInvalidIsTheContentOrTheTable(t *testing.T) {
	b := setup(t)
	s, p := b.proxied()
	c := newChain(t, s, 0)
	invalid := cqlproxy.Refuse(&frame.Error{Code: 0x2200, Message: "Batch too large"})
	op := uuid.New()
	p.Decide(cqlproxy.Always(isCommit(op), invalid))
	_, err := s.Commit(t.Context(), c.held, persistence.Batch{OpID: op})
	var refused *persistence.RowRefused
	if !errors.As(err, &refused) {
		t.Errorf("an invalid batch: got error %v, want RowRefused", err)
	}
	p.Decide(cqlproxy.Always(cqlproxy.Request.Conditional, invalid))
	_, err = s.Commit(t.Context(), c.held, persistence.Batch{OpID: uuid.New()})
	if errors.As(err, &refused) || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("every write is invalid: got error %v, want ErrUnavailable", err)
	}
	p.Decide(cqlproxy.PassAll)
	huge := persistence.Row{JobID: "huge", Status: job.Active, State: make([]byte, maxBatchBytes)}
	if err := c.commit(persistence.Batch{Rows: []persistence.Row{huge}}); !errors.As(err, &refused) {
		t.Errorf("a huge row: got error %v, want RowRefused", err)
	}
	c.must("commit afterwards", c.commit(persistence.Batch{}))
}

// TestZombieWriteIsDead: a batch that is held up on its way and reaches the
// database after the barrier changes nothing.
func TestZombieWriteIsDead(t *testing.T) {
	b := setup(t).impatient()
	behind, p := b.proxied()
	s := b.open()
	warm(t, behind)
	c := newChain(t, behind, 3)
	p.Pause()
	op := uuid.New()
	_, err := behind.Commit(t.Context(), c.held, persistence.Batch{OpID: op, Rows: []persistence.Row{{JobID: "zombie", Status: job.Active}}})
	if !errors.Is(err, persistence.ErrInDoubt) {
		t.Fatalf("got error %v, want a doubt", err)
	}
	c.s = s // the barrier goes another way
	applied, err := c.settle(op)
	if err != nil || applied {
		t.Fatalf("settle: %v, %v", applied, err)
	}
	p.Resume()
	late, err := behind.ReadFence(t.Context(), 3) // comes after the batch, on either connection or not
	if err != nil || late != c.held {
		t.Errorf("the fence is %+v, %v, want %+v", late, err, c.held)
	}
	c.must("commit", c.commit(persistence.Batch{Rows: []persistence.Row{{JobID: "zombie", Status: job.Paused}}}))
	if got, err := s.Get(t.Context(), 3, 0, "zombie", ""); err != nil || got.Status != job.Paused {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestAcquireSettlesItself: an acquire whose answer is lost is asked again under
// its own name, and a rival that came in between is told from it.
func TestAcquireSettlesItself(t *testing.T) {
	b := setup(t)
	s, p := b.proxied()
	rival := b.open()
	for i := range 10 {
		seen, err := s.ReadFence(t.Context(), int32(i))
		if err != nil {
			t.Fatal(err)
		}
		op, by := uuid.New(), persistence.Owner{Node: "a", Incarnation: uuid.New()}
		mine := func(r cqlproxy.Request) bool { return r.Conditional() && r.Carries(op[:]) }
		p.Decide(cqlproxy.Once(mine, cqlproxy.Cut()))
		if _, err = s.Acquire(t.Context(), seen, by, op); !errors.Is(err, persistence.ErrInDoubt) {
			t.Fatalf("acquire: got error %v, want a doubt", err)
		}
		var won persistence.Fence
		if i%2 == 1 {
			won = newChain(t, rival, int32(i)).held
		}
		got, err := s.Acquire(t.Context(), seen, by, op)
		for errors.Is(err, job.ErrUnavailable) {
			got, err = s.Acquire(t.Context(), seen, by, op) // the connection is being made again
		}
		var fenced *persistence.Fenced
		switch {
		case i%2 == 0 && (err != nil || got.OpID != op):
			t.Errorf("acquire again: got %+v, %v", got, err)
		case i%2 == 1 && (!errors.As(err, &fenced) || fenced.Holder != won):
			t.Errorf("acquire behind a rival: got error %v, want fenced by %+v", err, won)
		}
	}
}

// TestFightsUnderFaultsAreLinearizable: four owners fight for a partition through
// two proxies that lose one answer in ten. With the conditions switched off the
// same fight is found out, every time.
//
// BELFRY_FENCE_HISTORIES sets how many histories there are (10, and 4 without the
// conditions; of these never more than 10).
func TestFightsUnderFaultsAreLinearizable(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, unfenced := range []bool{false, true} {
		t.Run(fmt.Sprintf("unfenced=%v", unfenced), func(t *testing.T) { fights(t, seed, unfenced) })
	}
}
