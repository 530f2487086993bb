package cql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// What others ran into, as tests. The names are those of the collection of
// cases, area G: storage and ambiguous outcomes.

// TestC114NoBlindRepeat: a write whose answer is lost is sent once; repeated by
// its caller it is told from a rival's by its own name.
func TestC114NoBlindRepeat(t *testing.T) {
	b := setup(t).impatient()
	s, p := b.proxied()
	rival := b.open()
	warm(t, s)
	for i, action := range []cqlproxy.Action{
		cqlproxy.Swallow(),
		cqlproxy.Replace(cqlproxy.WriteTimeout(frame.LocalSerial, 1, 2, cqlproxy.WriteCAS)),
		cqlproxy.Replace(cqlproxy.CASWriteUnknown(frame.LocalSerial, 1, 2)),
		cqlproxy.Replace(cqlproxy.Overloaded()),
	} {
		c := newChain(t, s, int32(i))
		var sent atomic.Int32
		p.Decide(func(r cqlproxy.Request) cqlproxy.Action {
			if r.Op == frame.OpBatch && sent.Add(1) == 1 {
				return action
			}
			return cqlproxy.Pass()
		})
		batch := persistence.Batch{OpID: uuid.New(), Rows: []persistence.Row{{JobID: "j", Status: job.Active}}}
		if _, err := s.Commit(t.Context(), c.held, batch); outcome(err) != "doubt" || sent.Load() != 1 {
			t.Fatalf("case %d: %v after %d requests, want a doubt after one", i, err, sent.Load())
		}
		next, err := s.Commit(t.Context(), c.held, batch)
		if err != nil || next.OpID != batch.OpID {
			t.Errorf("case %d: repeated with its own name: %v", i, err)
		}
		won := newChain(t, rival, int32(i)).held
		_, err = s.Commit(t.Context(), next, batch)
		var fenced *persistence.Fenced
		if !errors.As(err, &fenced) || fenced.Holder != won {
			t.Errorf("case %d: behind a rival: got error %v, want fenced by %+v", i, err, won)
		}
	}
}

// TestC115TimedOutAndThen: a write that timed out was applied, or was not, or is
// applied later with a rival's in between. Claim, renewal and completion are
// commits here, and creation is the acquire before the first one.
func TestC115TimedOutAndThen(t *testing.T) {
	b := setup(t).impatient()
	direct := b.open()
	behind, p := b.proxied()
	warm(t, behind)
	row := func(v string) []persistence.Row {
		return []persistence.Row{{JobID: "j", Status: job.Active, State: []byte(v)}}
	}
	for i, rivalComes := range []bool{false, true} {
		partition := int32(i)
		c := newChain(t, behind, partition)
		c.must("commit", c.commit(persistence.Batch{Rows: row("first")}))
		p.Pause()
		op := uuid.New()
		if _, err := behind.Commit(t.Context(), c.held, persistence.Batch{OpID: op, Rows: row("late")}); outcome(err) != "doubt" {
			t.Fatalf("got error %v, want a doubt", err)
		}
		if rivalComes {
			r := newChain(t, direct, partition)
			r.must("commit of the rival", r.commit(persistence.Batch{Rows: row("rival")}))
		} else {
			c.s = direct
			if applied, err := c.settle(op); err != nil || applied {
				t.Fatalf("settle: %v, %v", applied, err)
			}
		}
		p.Resume() // now it arrives
		if rivalComes {
			if _, err := c.settle(op); outcome(err) != "fenced" {
				t.Errorf("settle behind a rival: got error %v, want fenced", err)
			}
		}
		want := map[bool]string{false: "first", true: "rival"}[rivalComes]
		c.must("read", c.s.Load(t.Context(), partition, 0, 1, func(r persistence.Row) error {
			if string(r.State) != want {
				t.Errorf("the row holds %q, want %q", r.State, want)
			}
			return nil
		}))
	}
}

// TestC116ReleasedAndTaken: a partition that is released and taken again at once
// by another has one holder each time. Nothing is written to it without a
// condition, and no time is sent along. A round waits for the database's log, and
// sixteen partitions wait together.
func TestC116ReleasedAndTaken(t *testing.T) {
	t.Parallel()
	const rounds, partitions = 1008, 16
	b := setup(t)
	p := cqlproxy.Start(t, b.db.Hosts()[0])
	b.cfg.seams.dial = cqlproxy.Via(p).DialContext
	stores := []*Store{b.open(), b.open()}
	var writes atomic.Int32
	p.Decide(func(r cqlproxy.Request) cqlproxy.Action {
		if r.Op == frame.OpPrepare || !r.Mentions("INTO partitions") && !r.Mentions("UPDATE partitions") && !r.Mentions("FROM partitions") {
			return cqlproxy.Pass()
		}
		if reads := strings.HasPrefix(r.Statements[0], "SELECT"); !reads && !r.Conditional() {
			t.Errorf("a write without a condition: %q", r.Statements)
		}
		if carriesTime(r) {
			t.Errorf("a client's time goes along with %q", r.Statements)
		}
		writes.Add(1)
		return cqlproxy.Pass()
	})
	var wg sync.WaitGroup
	for partition := range int32(partitions) {
		wg.Go(func() {
			if err := releaseAndTake(t, stores, partition, rounds/partitions); err != nil {
				t.Errorf("partition %d: %v", partition, err)
			}
		})
	}
	wg.Wait()
	if writes.Load() < 4*rounds {
		t.Errorf("%d requests were looked at, and there were more than %d", writes.Load(), 4*rounds)
	}
}

// releaseAndTake has two stores take a partition in turn, each at once after the
// other has released it.
func releaseAndTake(t *testing.T, stores []*Store, partition int32, rounds int) error {
	held, err := stores[0].ReadFence(t.Context(), partition)
	if err != nil {
		return err
	}
	for i := range rounds {
		s, other, by := stores[i%2], stores[(i+1)%2], persistence.Owner{Node: "n", Incarnation: uuid.New()}
		var took, now persistence.Fence
		op := uuid.New()
		if err := answered(func() error { took, err = s.Acquire(t.Context(), held, by, op); return err }); err != nil {
			return fmt.Errorf("round %d: acquire: %w", i, err)
		}
		op = uuid.New()
		if err := answered(func() error { _, err := other.Acquire(t.Context(), held, by, op); return err }); outcome(err) != "fenced" {
			return fmt.Errorf("round %d: a second holder: got error %v, want fenced", i, err)
		}
		op = uuid.New()
		if err := answered(func() error { return s.Release(t.Context(), took, op) }); err != nil {
			return fmt.Errorf("round %d: release: %w", i, err)
		}
		held = follows(took, op)
		held.Owner, held.Incarnation = "", uuid.Nil
		err := answered(func() error { now, err = other.ReadFence(t.Context(), partition); return err })
		if err != nil || now != held {
			return fmt.Errorf("round %d: the fence is %+v, want %+v; error %v", i, now, held, err)
		}
	}
	return nil
}

// answered repeats a call, which has a name of its own, until it is answered: a
// busy machine is no fault.
func answered(call func() error) error {
	for {
		if err := call(); outcome(err) != "doubt" && outcome(err) != "unavailable" || errors.Is(err, context.Canceled) {
			return err
		}
	}
}

// carriesTime tells whether a request has the flag for a default timestamp.
func carriesTime(r cqlproxy.Request) bool {
	const timestamp = 0x20
	body := r.Body
	switch r.Op {
	case frame.OpExecute:
		return body[2+int(binary.BigEndian.Uint16(body))+2]&timestamp != 0
	case frame.OpQuery:
		return body[4+int(binary.BigEndian.Uint32(body))+2]&timestamp != 0
	}
	return body[len(body)-3] != 0x10 // a batch ends with the flag of a serial level and the level
}

// TestC119HotPartition: many who want one partition get it one after another,
// nobody tries for ever, and nothing but the known outcomes is seen.
func TestC119HotPartition(t *testing.T) {
	t.Parallel()
	const claimers = 64
	b := setup(t).impatient()
	s, p := b.proxied()
	slow := rand.New(rand.NewPCG(rand.Uint64(), 1))
	p.Decide(cqlproxy.Drawn(slow, cqlproxy.Request.Conditional,
		cqlproxy.Weighted{Weight: 99, Action: cqlproxy.Pass()}, cqlproxy.Weighted{Weight: 1, Action: cqlproxy.Delay(time.Second)}))
	var wg sync.WaitGroup
	var mu sync.Mutex
	refused, most := 0, 0
	for range claimers {
		wg.Go(func() {
			tries := claim(t, s)
			mu.Lock()
			defer mu.Unlock()
			refused, most = refused+tries-1, max(most, tries)
		})
	}
	wg.Wait()
	now, err := s.ReadFence(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d claims, %d refusals, %d tries at most", now.Epoch, refused, most)
	if now.Epoch < claimers {
		t.Errorf("the partition was taken %d times, want at least %d", now.Epoch, claimers)
	}
}

// claim tries to take partition 0 until it does, and tells how often.
func claim(t *testing.T, s *Store) (tries int) {
	for tries = 1; ; tries++ {
		seen, err := s.ReadFence(context.Background(), 0)
		if err == nil {
			_, err = s.Acquire(context.Background(), seen, persistence.Owner{Node: "n", Incarnation: uuid.New()}, uuid.New())
		}
		switch o := outcome(err); o {
		case "applied":
			return tries
		case "fenced", "doubt", "unavailable":
		default:
			t.Errorf("a claim: %v", err)
			return tries
		}
		if pause(context.Background(), backoff(tries)) != nil {
			return tries
		}
	}
}

// TestC119ClaimsThroughOneOwner: five thousand at once go through one owner in
// batches, and none fails.
func TestC119ClaimsThroughOneOwner(t *testing.T) {
	const claims = 5000
	s := setup(t).open()
	c := newChain(t, s, 0)
	begun := time.Now()
	for n := 0; n < claims; n += 200 {
		var batch persistence.Batch
		for i := range 200 {
			batch.Rows = append(batch.Rows, benchRow(0, n+i))
		}
		c.must("commit", c.commit(batch))
	}
	t.Logf("%d rows in %s", claims, time.Since(begun))
	rows := 0
	c.must("load", s.Load(t.Context(), 0, 0, 64, func(persistence.Row) error { rows++; return nil }))
	if rows != claims {
		t.Errorf("%d rows are stored, want %d", rows, claims)
	}
}
