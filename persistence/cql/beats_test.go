package cql

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
	"github.com/belfry-scheduler/belfry/persistence/cassandra"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
	"github.com/belfry-scheduler/belfry/persistence/storetest"
)

func TestBeats(t *testing.T) {
	t.Parallel()
	s := setup(t).open()
	storetest.RunBeats(t, func(t *testing.T) persistence.Beats { return s })
}

func newBeat(n int64) persistence.Beat {
	return persistence.Beat{Owner: persistence.Owner{Node: "n-" + uuid.NewString(), Incarnation: uuid.New()}, N: n, Address: "127.0.0.1:7420"}
}

// storedBeat is the number of a node's row; 0: it has none.
func storedBeat(t *testing.T, s *Store, o persistence.Owner) int64 {
	t.Helper()
	rows, err := s.Beats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(rows, func(b persistence.Beat) bool { return b.Owner == o })
	if i < 0 {
		return 0
	}
	return rows[i].N
}

// TestBeatInDoubt: whatever becomes of the answer to a beat, the caller hears
// that it may have moved, and the same number sent again moves it once.
func TestBeatInDoubt(t *testing.T) {
	b := setup(t)
	truth := b.open()
	s, p := b.proxied()
	for _, fate := range fates {
		for _, first := range []int64{1, 2} {
			beat := newBeat(1)
			if first == 2 {
				if err := truth.Beat(t.Context(), beat); err != nil {
					t.Fatal(err)
				}
				beat.N = 2
			}
			mine := func(r cqlproxy.Request) bool { return r.Conditional() && r.Carries(beat.Incarnation[:]) }
			p.Decide(cqlproxy.Once(mine, fate.action()))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := s.Beat(ctx, beat)
			cancel()
			if !errors.Is(err, job.ErrUnavailable) || errors.Is(err, persistence.ErrInDoubt) {
				t.Errorf("%s, beat %d: got error %v, want ErrUnavailable and no doubt to settle", fate.name, beat.N, err)
			}
			if moved := storedBeat(t, truth, beat.Owner) == beat.N; moved != fate.done {
				t.Errorf("%s, beat %d: it has moved: %v, want %v", fate.name, beat.N, moved, fate.done)
			}
			if err := s.Beat(t.Context(), beat); err != nil {
				t.Errorf("%s, beat %d again: %v", fate.name, beat.N, err)
			}
			if n := storedBeat(t, truth, beat.Owner); n != beat.N {
				t.Errorf("%s: the beat is at %d, want %d", fate.name, n, beat.N)
			}
		}
	}
}

// TestForgetInDoubt: a removal whose answer is lost is asked for again.
func TestForgetInDoubt(t *testing.T) {
	b := setup(t)
	s, p := b.proxied()
	beat := newBeat(1)
	if err := s.Beat(t.Context(), beat); err != nil {
		t.Fatal(err)
	}
	p.Decide(cqlproxy.Once(cqlproxy.Request.Conditional, cqlproxy.Swallow()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.Forget(ctx, beat.Owner); !errors.Is(err, job.ErrUnavailable) || errors.Is(err, persistence.ErrInDoubt) {
		t.Errorf("forget: got error %v, want ErrUnavailable", err)
	}
	if err := s.Forget(t.Context(), beat.Owner); err != nil {
		t.Errorf("forget again: %v", err)
	}
	if n := storedBeat(t, s, beat.Owner); n != 0 {
		t.Errorf("the beat is at %d, want no row", n)
	}
}

// TestDeadRowsExpire: every beat gives its row a day from then on.
func TestDeadRowsExpire(t *testing.T) {
	b := setup(t)
	s := b.open()
	beat := newBeat(1)
	for range 2 {
		if err := s.Beat(t.Context(), beat); err != nil {
			t.Fatal(err)
		}
		var left int
		q := s.db.ContextQuery(t.Context(), "SELECT TTL(beat) FROM nodes WHERE node = ?", nil).Bind(beat.Node)
		if err := q.GetRelease(&left); err != nil || left < 86000 || left > 86400 {
			t.Errorf("beat %d lives another %d s, %v, want a day", beat.N, left, err)
		}
		beat.N++
	}
}

// TestBeatsAreReadByName: a reading of all rows that has no answer is overtaken
// by one of the nodes that are known, from an earlier reading or by the caller,
// and that one by another.
func TestBeatsAreReadByName(t *testing.T) {
	b := setup(t)
	s, p := b.proxied()
	all := func(r cqlproxy.Request) bool {
		return r.Mentions("FROM nodes") && !r.Mentions("WHERE") && !r.Mentions("system")
	}
	named := cqlproxy.Once(func(r cqlproxy.Request) bool {
		return r.Op == frame.OpExecute && r.Mentions("FROM nodes WHERE node IN")
	}, cqlproxy.Drop())
	read, given := newBeat(1), newBeat(1)
	if err := s.Beat(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	if n := storedBeat(t, s, read.Owner); n != 1 {
		t.Fatalf("the beat is at %d, want 1", n)
	}
	p.Decide(func(r cqlproxy.Request) cqlproxy.Action {
		if all(r) {
			return cqlproxy.Drop()
		}
		return named(r)
	})
	if err := s.Beat(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Beats(t.Context(), given.Node, "unheard of")
	if err != nil || len(rows) != 2 {
		t.Errorf("the beats are %+v, %v, want both nodes'", rows, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	s.nodes.Store(nil)
	if rows, err := s.Beats(ctx); err == nil {
		t.Errorf("with no node known the beats are %+v, want an error", rows)
	}
}

// TestBeatGoesThroughAnotherServer: whichever of three servers falls silent, a
// beat that met it is sent again while it is unanswered, and is answered then,
// and the beats of nodes that are known can be read. Who waits for the silent
// server waits 20 s, and a server that waits for it 10 s; without waiting, half a
// second will do. The limits are between, for a machine that has much else to do.
func TestBeatGoesThroughAnotherServer(t *testing.T) {
	t.Parallel()
	db := cassandra.Start(t, 3)
	b := &bench{TB: t, db: db, cfg: setupConfig(t, db)}
	s := b.openAs(func(c *Config) { c.Timeout = 20 * time.Second })
	beat := newBeat(0)
	for range 2 { // both statements are prepared
		beat.N++
		if err := s.Beat(t.Context(), beat); err != nil {
			t.Fatal(err)
		}
	}
	if n := storedBeat(t, s, beat.Owner); n != 2 {
		t.Errorf("the beat is at %d, want 2", n)
	}
	readings := []struct {
		what  string
		read  *[]string
		names []string
	}{
		{"read before", &[]string{beat.Node}, nil},
		{"named", nil, []string{beat.Node}},
		{"named again", nil, []string{beat.Node}}, // which server is asked is chance
		{"named and read before", &[]string{beat.Node}, []string{beat.Node}},
	}
	met := 0
	for server := range 3 { // one of them is asked first about this node
		s.route.forgive()
		db.Pause(server)
		beat.N++
		took, sendings := resent(t, s, beat)
		if sendings > 1 {
			met++
		}
		t.Logf("server %d silent: answered at sending %d, after %s", server, sendings, took)
		if took > 8*time.Second {
			t.Errorf("with server %d silent a beat took %s", server, took)
		}
		for _, c := range readings {
			s.route.forgive()
			s.nodes.Store(c.read)
			begun := time.Now()
			rows, err := s.Beats(t.Context(), c.names...)
			took := time.Since(begun)
			t.Logf("  the beats of nodes %s were read after %s", c.what, took)
			if err != nil || len(rows) != 1 || rows[0].N != beat.N {
				t.Errorf("with server %d silent the beats of nodes %s are %+v, %v, want %d", server, c.what, rows, err, beat.N)
			}
			if took > 5*time.Second {
				t.Errorf("with server %d silent the beats of nodes %s took %s", server, c.what, took)
			}
		}
		db.Resume(server)
	}
	if n := storedBeat(t, s, beat.Owner); n != beat.N {
		t.Errorf("the beat is at %d, want %d", n, beat.N)
	}
	if met == 0 {
		t.Error("no beat met the silent server: nothing was tried")
	}
}

// resent sends a beat every 300 ms until one of the sendings is answered.
func resent(t *testing.T, s *Store, beat persistence.Beat) (took time.Duration, sendings int) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answers := make(chan error, 100)
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	for {
		sendings++
		go func() { answers <- s.Beat(ctx, beat) }()
		for waiting := true; waiting; {
			select {
			case <-again.C:
				waiting = false
			case err := <-answers:
				if err == nil {
					return time.Since(begun), sendings
				}
				if ctx.Err() != nil {
					t.Fatalf("no answer: %v", err)
				}
			}
		}
	}
}

// forgive has every node asked in the usual order again.
func (d *detour) forgive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.late)
}
