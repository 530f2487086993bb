package cql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
)

// valve holds up the copying of history while it is shut.
type valve struct{ shut atomic.Bool }

var errShut = errors.New("the valve is shut")

func (v *valve) seam(c *Config) {
	c.seams.copying = func() error {
		if v.shut.Load() {
			return errShut
		}
		return nil
	}
}

var today = job.DayOf(time.Now())

// line is the summary of one execution of job "j".
func line(n int) persistence.HistoryRow {
	return persistence.HistoryRow{
		Day: today, JobID: "j", ScheduledFor: today.Time().UnixMilli() + int64(n), ExecutionID: fmt.Sprintf("e%03d", n),
		Decision: int64(n), Epoch: 1, Record: fmt.Appendf(nil, "record %d", n),
	}
}

// record commits lines one batch each.
func (c *chain) record(from, to int) {
	c.Helper()
	for n := from; n < to; n++ {
		c.must("commit", c.commit(persistence.Batch{History: []persistence.HistoryRow{line(n)}}))
	}
}

// lines are those that a store shows of job "j", oldest first.
func lines(t testing.TB, s *Store, partition int32) []persistence.HistoryRow {
	t.Helper()
	rows, err := s.Executions(context.Background(), partition, today, "j", nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(rows)
	return rows
}

// eventually waits until done is true.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		if err := pause(context.Background(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func sameLines(t testing.TB, got []persistence.HistoryRow, from, to int) {
	t.Helper()
	var want []persistence.HistoryRow
	for n := from; n < to; n++ {
		want = append(want, line(n))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("history (-want +got):\n%s", d)
	}
}

// die ends a store as a killed process would: nothing is waited for.
func die(s *Store) {
	s.cancel()
	s.working.Wait()
}

// TestHistoryOutlivesItsOwner: a process dies between the commit and the copy;
// the next owner copies what is in the ring, once and for all.
func TestHistoryOutlivesItsOwner(t *testing.T) {
	b := setup(t)
	var v valve
	first := b.openAs(v.seam)
	c := newChain(t, first, 5)
	c.record(0, 3)
	eventually(t, "three lines are copied", func() bool { idle, _ := first.outbox(5).idle(); return idle })
	v.shut.Store(true)
	c.record(3, 20)
	second := b.open()
	for _, s := range []*Store{first, second} { // in whatever process
		sameLines(t, lines(t, s, 5), 0, 20)
		attempts, err := s.Attempts(t.Context(), 5, today, "j", line(19).ScheduledFor, line(19).ExecutionID)
		if err != nil {
			t.Fatal(err)
		}
		sameLines(t, attempts, 19, 20)
	}
	die(first)

	if n := b.count(second); n != 3 {
		t.Fatalf("the table has %d rows before the next owner, want 3", n)
	}
	next := newChain(t, second, 5)
	eventually(t, "the ring is copied", func() bool { return b.count(second) == 20 })
	sameLines(t, lines(t, second, 5), 0, 20)
	next.record(20, 30)
	stored := b.count(second)
	for range 3 { // every takeover copies a little again, and nothing changes
		s := b.open()
		newChain(t, s, 5).record(0, 0)
		eventually(t, "the ring is known", func() bool { return s.outbox(5).isKnown() })
		eventually(t, "it is copied again", func() bool { idle, _ := s.outbox(5).idle(); return idle })
		sameLines(t, lines(t, s, 5), 0, 30)
	}
	if n := b.count(second); n != stored || n != 30 {
		t.Errorf("the table has %d rows, then %d, want 30", stored, n)
	}
}

func (o *outbox) isKnown() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known
}

// count is how many rows the history table has.
func (b *bench) count(s *Store) (n int) {
	b.Helper()
	s.drain(10 * time.Second)
	if err := s.db.Query("SELECT count(*) FROM history", nil).Get(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// TestRingIsNotOverwrittenBeforeItIsCopied: with the copies held up, commits
// with history wait as soon as the ring is full, and others go on.
func TestRingIsNotOverwrittenBeforeItIsCopied(t *testing.T) {
	b := setup(t)
	var v valve
	v.shut.Store(true)
	s := b.openAs(v.seam)
	c := newChain(t, s, 0)
	c.record(0, ringSlots)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := s.Commit(ctx, c.held, persistence.Batch{OpID: uuid.New(), History: []persistence.HistoryRow{line(ringSlots)}})
	if !errors.Is(err, job.ErrUnavailable) || errors.Is(err, persistence.ErrInDoubt) {
		t.Fatalf("a full ring: got error %v, want ErrUnavailable", err)
	}
	sameLines(t, lines(t, s, 0), 0, ringSlots)
	v.shut.Store(false)
	c.record(ringSlots, 2*ringSlots+3)
	sameLines(t, lines(t, s, 0), 0, 2*ringSlots+3)

	v.shut.Store(true)
	c.record(100, 101)
	for range ringSlots - 1 { // batches without history use no slot, but a seq
		c.must("commit", c.commit(persistence.Batch{}))
	}
	die(s)
	again := newChain(t, b.open(), 0)
	again.record(101, 103)
	eventually(t, "all is copied", func() bool { return b.count(again.s) == 2*ringSlots+6 })
}

// TestRingIsNobodysRow: what a store keeps for itself is not loaded or listed.
func TestRingIsNobodysRow(t *testing.T) {
	b := setup(t)
	s := b.open()
	if _, err := s.Cluster(t.Context(), persistence.Cluster{Partitions: 16, Hash: job.HashName, Format: 1}); err != nil {
		t.Fatal(err)
	}
	c := newChain(t, s, 0)
	c.record(0, 5)
	c.must("load", s.Load(t.Context(), 0, -5, 1000, func(r persistence.Row) error { return fmt.Errorf("loaded %+v", r) }))
	if rows, _, done, err := s.List(t.Context(), persistence.Position{}, 10); err != nil || len(rows) != 0 || !done {
		t.Errorf("list: %v, %v, %v", rows, done, err)
	}
	if _, err := s.Get(t.Context(), 0, ownSlice, ringJob, ringItem(2)); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	var refused *persistence.RowRefused
	if err := c.commit(persistence.Batch{Rows: []persistence.Row{{Slice: ownSlice, JobID: "x"}}}); !errors.As(err, &refused) {
		t.Errorf("a row in the store's slice: got error %v, want RowRefused", err)
	}
}

// TestDoubtfulHistory: the history of a batch in doubt is copied when the batch
// turns out to be applied, and only then.
func TestDoubtfulHistory(t *testing.T) {
	b := setup(t).impatient()
	s, p := b.proxied()
	warm(t, s)
	c := newChain(t, s, 2)
	for n, action := range []cqlproxy.Action{cqlproxy.Swallow(), cqlproxy.Drop(), cqlproxy.Swallow()} {
		op := uuid.New()
		p.Decide(cqlproxy.Once(isCommit(op), action))
		_, err := s.Commit(t.Context(), c.held, persistence.Batch{OpID: op, History: []persistence.HistoryRow{line(n)}})
		if !errors.Is(err, persistence.ErrInDoubt) {
			t.Fatalf("got error %v, want a doubt", err)
		}
		shown := lines(t, s, 2)
		applied, err := c.settle(op)
		if err != nil || applied != (n != 1) {
			t.Fatalf("settle %d: %v, %v", n, applied, err)
		}
		if !applied {
			sameLines(t, shown, 0, n) // nothing is shown that is not applied
			c.record(n, n+1)          // its rows again, under the next epoch
		}
		sameLines(t, lines(t, s, 2), 0, n+1)
	}
}

// TestHandedOver: a fence that another store acquired is used by this one, which
// reads the ring first.
func TestHandedOver(t *testing.T) {
	b := setup(t)
	var v valve
	v.shut.Store(true)
	first := b.openAs(v.seam)
	c := newChain(t, first, 1)
	c.record(0, 4)
	die(first)
	c.s = b.open()
	c.record(4, 6)
	eventually(t, "all is copied", func() bool { return b.count(c.s) == 6 })
	sameLines(t, lines(t, c.s, 1), 0, 6)
}

// TestCopiesLiveAsLongAsTheFirst: a copy that is made later does not live longer.
func TestCopiesLiveAsLongAsTheFirst(t *testing.T) {
	b := setup(t)
	b.cfg.Retention = 10 * time.Hour
	s := b.open()
	old := &entry{seq: 5, at: time.Now().Add(-4 * time.Hour).Unix(), rows: []persistence.HistoryRow{line(1)}}
	gone := &entry{seq: 6, at: time.Now().Add(-11 * time.Hour).Unix(), rows: []persistence.HistoryRow{line(2)}}
	if err := s.copyAll(0, []*entry{old, gone}); err != nil {
		t.Fatal(err)
	}
	sameLines(t, lines(t, s, 0), 1, 2)
	var ttl int
	if err := s.db.Query("SELECT TTL(record) FROM history", nil).Get(&ttl); err != nil {
		t.Fatal(err)
	}
	if left := time.Duration(ttl) * time.Second; left < 6*time.Hour-time.Minute || left > 6*time.Hour {
		t.Errorf("a copy of a line that is 4 h old lives for %s of 10 h", left)
	}
}

func TestRingCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zä~/]{0,20}`)
		rows := rapid.SliceOf(rapid.Custom(func(t *rapid.T) persistence.HistoryRow {
			return persistence.HistoryRow{
				Day: job.Day(rapid.Int32().Draw(t, "day")), JobID: text.Draw(t, "job"), ScheduledFor: rapid.Int64().Draw(t, "at"),
				ExecutionID: text.Draw(t, "execution"), Attempt: rapid.Int32().Draw(t, "attempt"), Decision: rapid.Int64().Draw(t, "decision"),
				Epoch: rapid.Int64().Draw(t, "epoch"), Record: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "record"),
			}
		})).Draw(t, "rows")
		e := entry{seq: rapid.Int64Min(0).Draw(t, "seq"), copied: rapid.Int64Min(0).Draw(t, "copied"), at: rapid.Int64Min(0).Draw(t, "at")}
		got, err := decodeHeader(e.header())
		if err != nil || got.seq != e.seq || got.copied != e.copied || got.at != e.at {
			t.Fatalf("header: %+v, %v, want %+v", got, err, e)
		}
		blob := encodeHistory(rows)
		back, err := decodeHistory(blob)
		if d := cmp.Diff(rows, back); err != nil || d != "" && len(rows) > 0 {
			t.Fatalf("%v\n%s", err, d)
		}
		for cut := range len(blob) { // no part of it may be read as a whole
			if rest, err := decodeHistory(blob[:cut]); err == nil && len(rest) >= len(rows) && len(rows) > 0 {
				t.Fatalf("%d of %d bytes are read as %d rows", cut, len(blob), len(rest))
			}
		}
	})
}
