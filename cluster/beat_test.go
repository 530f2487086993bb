package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// fate is what becomes of a request to a store.
type fate struct {
	takes time.Duration // until the answer
	lost  bool          // nothing is carried out
	mute  bool          // no answer comes
}

// beatStore is a store of beats in memory, whose requests meet a fate.
type beatStore struct {
	mu     sync.Mutex
	rows   map[persistence.Owner]persistence.Beat
	fate   func() fate
	sent   []time.Time // of beats
	flying int
	most   int // beats under way at once
}

func newBeatStore() *beatStore {
	return &beatStore{rows: map[persistence.Owner]persistence.Beat{}, fate: func() fate { return fate{takes: 5 * time.Millisecond} }}
}

func (s *beatStore) meet(f fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fate = func() fate { return f }
}

func (s *beatStore) draw() fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fate()
}

// away is the store that nothing reaches.
var away = fate{lost: true, mute: true}

func (s *beatStore) Beat(ctx context.Context, b persistence.Beat) error {
	s.mu.Lock()
	s.sent = append(s.sent, time.Now())
	s.flying++
	s.most = max(s.most, s.flying)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.flying--
		s.mu.Unlock()
	}()
	return s.carry(ctx, func() error {
		if row := s.rows[b.Owner]; row.N == b.N-1 {
			s.rows[b.Owner] = b
		} else if row.N != b.N {
			return persistence.ErrBeatLost
		}
		return nil
	})
}

func (s *beatStore) Beats(ctx context.Context, _ ...string) (rows []persistence.Beat, err error) {
	err = s.carry(ctx, func() error {
		for _, row := range s.rows {
			rows = append(rows, row)
		}
		return nil
	})
	return rows, err
}

func (s *beatStore) Forget(ctx context.Context, o persistence.Owner) error {
	return s.carry(ctx, func() error {
		delete(s.rows, o)
		return nil
	})
}

// carry carries a request out, as its fate is.
func (s *beatStore) carry(ctx context.Context, request func() error) (err error) {
	f := s.draw()
	if !f.lost {
		s.mu.Lock()
		err = request()
		s.mu.Unlock()
	}
	answered := make(<-chan time.Time)
	if !f.mute {
		answered = time.After(f.takes)
	}
	select {
	case <-answered:
		if f.lost {
			return job.ErrUnavailable
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", job.ErrUnavailable, ctx.Err())
	}
}

func (s *beatStore) row(o persistence.Owner) persistence.Beat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[o]
}

// heart is a beater in a bubble, with a store.
type heart struct {
	*testing.T
	*Beater
	store *beatStore
	reg   *prometheus.Registry
	slept atomic.Int64 // of the BOOTTIME clock, beside the time of the bubble
}

// beating runs a test in a bubble with a beater that has begun.
func beating(t *testing.T, ttl time.Duration, test func(h *heart)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHeart(t, ttl)
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(h)
		h.store.meet(fate{})
		if err := h.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
		if row := h.store.row(h.self()); row.N != 0 {
			t.Errorf("the row of a stopped node is %+v, want none", row)
		}
		if h.Alive() {
			t.Error("a stopped node is alive")
		}
	})
}

func newHeart(t *testing.T, ttl time.Duration) *heart {
	h := &heart{T: t, store: newBeatStore(), reg: prometheus.NewRegistry()}
	self := Member{Node: "a", Incarnation: uuid.New(), Address: "127.0.0.1:7420", Roles: Roles{Gateway, Scheduler}}
	b, err := NewBeater(BeatConfig{
		Beats: h.store, Self: self, Settings: Settings{TTL: ttl}, Metrics: NewBeatMetrics(h.reg),
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	b.now = func() time.Duration { return time.Hour + time.Since(began) + time.Duration(h.slept.Load()) }
	h.Beater = b
	return h
}

func (h *heart) self() persistence.Owner { return h.cfg.Self.Owner() }

// pass lets time pass, and waits until everything that is due has been done.
func (h *heart) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// await lets time pass, a millisecond at a time, until something is so.
func (h *heart) await(what string, is func() bool) {
	h.Helper()
	for begun := time.Now(); !is(); h.pass(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			h.Fatalf("for a minute it has not come to pass that %s", what)
		}
	}
}

// beats waits until the row has moved.
func (h *heart) beats() {
	h.Helper()
	n := h.store.row(h.self()).N
	h.await("the row moves", func() bool { return h.store.row(h.self()).N != n })
}

// nextBeat waits until a beat has just been acknowledged.
func (h *heart) nextBeat() {
	h.beats()
	h.pass(5 * time.Millisecond)
}

func (h *heart) wantAlive(what string, want bool) {
	h.Helper()
	if got := h.Alive(); got != want {
		h.Errorf("%s: alive is %v, want %v", what, got, want)
	}
}

func TestBeaterBeats(t *testing.T) {
	beating(t, 3*time.Second, func(h *heart) {
		h.wantAlive("after the first beat", true)
		h.pass(30 * time.Second)
		row := h.store.row(h.self())
		if row.N < 60 || row.N > 62 {
			t.Errorf("after 30 s it is at beat %d, want 61", row.N)
		}
		if row.Address != "127.0.0.1:7420" || len(row.Roles) != 2 || row.Roles[0] != "gateway" {
			t.Errorf("the row is %+v", row)
		}
		if len(h.store.sent) != int(row.N) {
			t.Errorf("%d beats took %d sendings", row.N, len(h.store.sent))
		}
	})
}

// TestBlipsDoNotFence: a lease of 15 s survives a store that is away for up to
// 14 s, and one that is away for 16 s ends it before a peer may start (quartznet
// #3777).
func TestBlipsDoNotFence(t *testing.T) {
	for _, gone := range []time.Duration{3, 7, 14, 16} {
		t.Run(fmt.Sprint(gone*time.Second), func(t *testing.T) {
			beating(t, 15*time.Second, func(h *heart) {
				h.nextBeat()
				h.store.meet(away)
				moved := time.Now() // as a peer sees it, at the earliest
				h.store.mu.Lock()
				h.store.sent = nil
				h.store.mu.Unlock()
				kept := gone * time.Second
				for time.Since(moved) < kept {
					h.pass(50 * time.Millisecond)
					h.wantAlive(fmt.Sprint(time.Since(moved), " into it"), time.Since(moved) < 15*time.Second-Margin-10*time.Millisecond)
				}
				last := moved
				for _, at := range append(h.store.sent, time.Now()) {
					if pause := at.Sub(last); pause > 2505*time.Millisecond {
						t.Errorf("for %s nothing was tried", pause)
					}
					last = at
				}
				h.store.meet(fate{takes: 5 * time.Millisecond})
				h.pass(2500 * time.Millisecond)
				h.wantAlive("with the store back", true)
			})
		})
	}
}

// TestAnswerLost: a beat whose answer is lost is sent again 300 ms later, and its
// trust counts from the first sending, which may have moved it.
func TestAnswerLost(t *testing.T) {
	beating(t, 3*time.Second, func(h *heart) {
		h.nextBeat()
		h.store.meet(fate{mute: true})
		h.beats()
		first := h.now()
		h.pass(250 * time.Millisecond)
		h.store.meet(fate{takes: 20 * time.Millisecond})
		h.pass(80 * time.Millisecond)
		h.store.meet(away)
		until := time.Duration(h.until.Load())
		if got := until - first; got < 2749*time.Millisecond || got > 2751*time.Millisecond {
			t.Errorf("a beat that was answered at its second sending is trusted for %s from the first, want 2.75 s", got)
		}
		h.pass(until - h.now() - time.Millisecond)
		h.wantAlive("before the end", true)
		h.pass(time.Millisecond)
		h.wantAlive("at the end", false)
	})
}

// TestLateBeatProvesNothing: an answer after the time that the beat is trusted
// for does not make the node alive; the next beat does.
func TestLateBeatProvesNothing(t *testing.T) {
	beating(t, 3*time.Second, func(h *heart) {
		h.nextBeat()
		h.store.meet(away)
		h.pass(10 * time.Second)
		h.wantAlive("after 10 s", false)
		var drawn atomic.Int64
		h.store.mu.Lock()
		h.store.fate = func() fate {
			if drawn.Add(1) == 1 {
				return fate{takes: time.Millisecond}
			}
			return fate{takes: 40 * time.Millisecond}
		}
		h.store.mu.Unlock()
		h.await("the next beat is sent", func() bool { // at once
			h.wantAlive("after the late answer", false)
			return drawn.Load() == 2
		})
		h.pass(41 * time.Millisecond)
		h.wantAlive("after the next beat", true)
	})
}

// TestSlowStore: a store that takes longer than a beat may be unanswered, for
// every request, is no reason to stop.
func TestSlowStore(t *testing.T) {
	beating(t, 3*time.Second, func(h *heart) {
		h.store.meet(fate{takes: 1200 * time.Millisecond})
		for range 600 {
			h.pass(50 * time.Millisecond)
			h.wantAlive("with a slow store", true)
		}
		if h.store.most > maxFlying {
			t.Errorf("%d beats were under way at once", h.store.most)
		}
	})
}

// TestSilentStore: attempts go on at a bounded number and rate.
func TestSilentStore(t *testing.T) {
	beating(t, 3*time.Second, func(h *heart) {
		h.store.meet(away)
		h.pass(time.Minute)
		if h.store.most != maxFlying {
			t.Errorf("%d beats were under way at once, want %d", h.store.most, maxFlying)
		}
		if n := len(h.store.sent); n < 118 || n > 123 {
			t.Errorf("%d beats were sent in a minute", n)
		}
	})
}

// TestSuspendEndsTrust: a machine that slept, or a process that stood still, knows
// it at once, without asking. Gossip may have lost it before its lease is over.
func TestSuspendEndsTrust(t *testing.T) {
	for ttl, most := range map[time.Duration]time.Duration{time.Second: time.Second - Margin, 3 * time.Second: stall, time.Minute: stall} {
		beating(t, ttl, func(h *heart) {
			h.nextBeat()
			lease := h.Lease()
			h.slept.Add(int64(most - 20*time.Millisecond))
			h.wantAlive("just before gossip can have lost it", true)
			h.slept.Add(int64(20 * time.Millisecond))
			h.wantAlive("after that", false)
			h.await("it is alive again", h.Alive)
			if lease.Valid() {
				t.Error("what it relied on before still holds")
			}
		})
	}
}

// TestStallInMidBeat: the beat was carried out before the process stood still, and
// its answer is read afterwards, within the trust that it would have given.
func TestStallInMidBeat(t *testing.T) {
	beating(t, 3*time.Second, func(h *heart) {
		h.store.meet(fate{takes: 100 * time.Millisecond})
		h.beats()
		h.slept.Add(int64(2 * time.Second))
		h.pass(101 * time.Millisecond)
		h.wantAlive("after the answer", false)
		h.pass(200 * time.Millisecond)
		h.wantAlive("after the next", true)
	})
}

// TestSuspendInMidBeat: the answer that lay waiting while the machine slept
// proves nothing.
func TestSuspendInMidBeat(t *testing.T) {
	beating(t, 3*time.Second, func(h *heart) {
		h.store.meet(fate{takes: 100 * time.Millisecond})
		h.beats()
		h.slept.Add(int64(time.Hour))
		h.pass(101 * time.Millisecond)
		h.wantAlive("after the answer", false)
		h.pass(200 * time.Millisecond)
		h.wantAlive("after the next", true)
	})
}

// TestLostBeat: when the row is gone, or moved by another, the node is not alive
// until a beat that follows what stands there is acknowledged.
func TestLostBeat(t *testing.T) {
	for what, harm := range map[string]func(rows map[persistence.Owner]persistence.Beat, o persistence.Owner){
		"gone": func(rows map[persistence.Owner]persistence.Beat, o persistence.Owner) { delete(rows, o) },
		"moved": func(rows map[persistence.Owner]persistence.Beat, o persistence.Owner) {
			rows[o] = persistence.Beat{Owner: o, N: 7000}
		},
	} {
		t.Run(what, func(t *testing.T) {
			beating(t, 3*time.Second, func(h *heart) {
				h.pass(5 * time.Second)
				h.store.mu.Lock()
				harm(h.store.rows, h.self())
				was := h.store.rows[h.self()].N
				h.store.mu.Unlock()
				h.await("it trusts nothing", func() bool { return !h.Alive() })
				if n := h.store.row(h.self()).N; n != was {
					t.Errorf("it trusted nothing when its row was at %d, want %d", n, was)
				}
				h.await("it is alive again", h.Alive)
				if n := h.store.row(h.self()).N; n != was+1 {
					t.Errorf("it goes on with beat %d, want %d", n, was+1)
				}
				h.pass(10 * time.Second)
				h.wantAlive("afterwards", true)
			})
		})
	}
}

// TestFirstBeatIsWaitedFor: a node does not begin before its row is there, and
// does not go on when it gives up.
func TestFirstBeatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeart(t, 3*time.Second)
		h.store.meet(fate{lost: true})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := h.Start(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("start: got error %v, want that of the context", err)
		}
		sent := len(h.store.sent)
		h.pass(time.Minute)
		if len(h.store.sent) != sent {
			t.Error("it goes on")
		}
		h.wantAlive("after it gave up", false)
	})
}

// TestBeatMetrics: what was beaten, what failed, and whether trust has ended.
func TestBeatMetrics(t *testing.T) {
	beating(t, 3*time.Second, func(h *heart) {
		h.pass(3 * time.Second)
		m := h.cfg.Metrics
		if n := testutil.CollectAndCount(m.took); n != 1 || testutil.ToFloat64(m.fenced) != 0 || testutil.ToFloat64(m.failed) != 0 {
			t.Errorf("while all is well: fenced %v, failed %v", testutil.ToFloat64(m.fenced), testutil.ToFloat64(m.failed))
		}
		h.store.meet(fate{lost: true})
		h.pass(5 * time.Second)
		if testutil.ToFloat64(m.fenced) != 1 || testutil.ToFloat64(m.failed) < 10 {
			t.Errorf("with the store away: fenced %v, failed %v", testutil.ToFloat64(m.fenced), testutil.ToFloat64(m.failed))
		}
	})
}

// TestAlone: a store for one process needs no beats.
func TestAlone(t *testing.T) {
	b, err := NewBeater(BeatConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !b.Alive() {
			t.Error("it is not alive")
		}
		if err := b.Start(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	for ttl, ok := range map[time.Duration]bool{
		0: true, time.Second: true, 3 * time.Second: true, time.Minute: true,
		time.Second - 1: false, time.Minute + 1: false, -time.Second: false,
	} {
		if err := (Settings{TTL: ttl}).Validate(); (err == nil) != ok {
			t.Errorf("TTL %s: %v", ttl, err)
		}
		if _, err := NewBeater(BeatConfig{Settings: Settings{TTL: ttl}}); (err == nil) != ok {
			t.Errorf("a beater with TTL %s: %v", ttl, err)
		}
	}
	if s := (Settings{}); s.Every() != 500*time.Millisecond || s.Trust() != 2750*time.Millisecond {
		t.Errorf("by default a beat comes every %s and is trusted for %s", s.Every(), s.Trust())
	}
}

func BenchmarkAlive(b *testing.B) {
	beater, err := NewBeater(BeatConfig{Beats: newBeatStore()})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		beater.Alive()
	}
}
