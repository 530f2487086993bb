package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// TestCommitsShareAnFsync holds the fsync of one commit until seven others, of
// other partitions, have written what they have: one more fsync serves them all.
func TestCommitsShareAnFsync(t *testing.T) {
	const owners = 8
	gate := &syncGate{FS: vfs.NewMem(), held: make(chan struct{}), release: make(chan struct{})}
	s := openMem(t, gate)
	chains := make([]*chain, owners)
	for i := range chains {
		chains[i] = newChain(t, s, int32(i))
	}
	errs := make([]error, owners)
	var wg sync.WaitGroup
	commit := func(i int) {
		wg.Go(func() {
			row := persistence.Row{Slice: 1, JobID: "x", Status: job.Active, State: []byte("x")}
			errs[i] = chains[i].commit(persistence.Batch{Rows: []persistence.Row{row}})
		})
	}
	gate.hold()
	commit(0)
	<-gate.held
	for i := 1; i < owners; i++ {
		commit(i)
	}
	for i := range owners { // written, and seen by readers, before it is on disk
		for errors.Is(visible(t, s, i), job.ErrNotFound) {
			runtime.Gosched()
		}
	}
	close(gate.release)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := gate.count(); n > 3 {
		t.Errorf("%d commits took %d fsyncs", owners, n)
	}
}

func visible(t *testing.T, s *Store, partition int) error {
	_, err := s.Get(t.Context(), int32(partition), 1, "x", "")
	return err
}

// TestSlowDisk has a caller wait for a partition whose commit hangs in its
// fsync. Its context ends the wait, and nothing of it is written.
func TestSlowDisk(t *testing.T) {
	gate := &syncGate{FS: vfs.NewMem(), held: make(chan struct{}), release: make(chan struct{})}
	s := openMem(t, gate)
	c := newChain(t, s, 0)
	gate.hold()
	slow := make(chan error)
	go func() { slow <- c.commit(persistence.Batch{}) }()
	<-gate.held
	ctx, cancel := context.WithCancel(t.Context())
	impatient := make(chan error)
	go func() {
		_, err := s.Acquire(ctx, persistence.Fence{}, persistence.Owner{Node: "b"}, uuid.New())
		impatient <- err
	}()
	cancel()
	if err := <-impatient; !errors.Is(err, job.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("acquire: got error %v, want ErrUnavailable and the context's", err)
	}
	close(gate.release)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	if f, err := s.ReadFence(t.Context(), 0); err != nil || f != c.held {
		t.Errorf("fence: got %v, %v, want %v", f, err, c.held)
	}
}

// syncGate counts the syncs of the log from hold on, and keeps the first of
// them waiting until it is released.
type syncGate struct {
	vfs.FS
	held, release chan struct{}

	mu       sync.Mutex
	counting bool
	syncs    int
}

func (g *syncGate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counting = true
}

func (g *syncGate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.syncs
}

func (g *syncGate) pass() {
	g.mu.Lock()
	first := false
	if g.counting {
		g.syncs++
		first = g.syncs == 1
	}
	g.mu.Unlock()
	if first {
		close(g.held)
		<-g.release
	}
}

func (g *syncGate) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	return &gatedFile{f, g}, nil
}

type gatedFile struct {
	vfs.File
	gate *syncGate
}

func (f *gatedFile) Sync() error     { f.gate.pass(); return f.File.Sync() }
func (f *gatedFile) SyncData() error { f.gate.pass(); return f.File.SyncData() }

// TestStateWritesLeaveSpecsAlone counts the keys that a change of state writes.
func TestStateWritesLeaveSpecsAlone(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	p := s.partition(0)
	state := persistence.Row{Slice: 1, JobID: "x", Status: job.Active, State: []byte("s")}
	full := state
	full.Spec, full.Labels = []byte("spec"), map[string]string{"a": "b"}
	for want, row := range map[uint32]persistence.Row{1: state, 3: full} {
		b, err := s.encode(p, &persistence.Batch{Rows: []persistence.Row{row}})
		if err != nil || b.Count() != want {
			t.Errorf("%v: %d keys, %v, want %d", row, b.Count(), err, want)
		}
	}
}

// TestExpireDropsTheDays reads nothing of the days before, and everything of
// the others, also after the files are compacted.
func TestExpireDropsTheDays(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	c, other := newChain(t, s, 1), newChain(t, s, 2)
	var history []persistence.HistoryRow
	for day := job.Day(-2); day < 8; day++ {
		for i := range 5 {
			history = append(history, persistence.HistoryRow{
				Day: day, JobID: "x", ScheduledFor: day.Time().UnixMilli(), ExecutionID: fmt.Sprint("e", i), Record: []byte("r"),
			})
		}
	}
	for _, c := range []*chain{c, other} {
		if err := c.commit(persistence.Batch{History: history}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(partition int32, kept job.Day) {
		t.Helper()
		for day := job.Day(-2); day < 8; day++ {
			rows, err := s.Executions(t.Context(), partition, day, "x", nil, 10)
			want := 5
			if day < kept {
				want = 0
			}
			if err != nil || len(rows) != want {
				t.Errorf("partition %d day %d: %d rows, %v, want %d", partition, day, len(rows), err, want)
			}
		}
	}
	check(1, -2)
	kept := job.Day(-2)
	for _, before := range []job.Day{-2, 0, 3, 3, 1} {
		if err := s.Expire(t.Context(), 1, before); err != nil {
			t.Fatal(err)
		}
		kept = max(kept, before)
		check(1, kept)
	}
	check(2, -2)
	if err := errors.Join(s.db.Flush(), s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false)); err != nil {
		t.Fatal(err)
	}
	check(1, 3)
	check(2, -2)
	if f, err := s.ReadFence(t.Context(), 1); err != nil || f != c.held {
		t.Errorf("fence: got %v, %v, want %v", f, err, c.held)
	}
}

// TestExpireOfNothingWritesNothing is called once an hour for each partition.
func TestExpireOfNothingWritesNothing(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	c := newChain(t, s, 1)
	h := persistence.HistoryRow{Day: 5, JobID: "x", ExecutionID: "e"}
	if err := c.commit(persistence.Batch{History: []persistence.HistoryRow{h}}); err != nil {
		t.Fatal(err)
	}
	before := s.db.Metrics().WAL.BytesIn
	if err := s.Expire(t.Context(), 1, 5); err != nil {
		t.Fatal(err)
	}
	if after := s.db.Metrics().WAL.BytesIn; after != before {
		t.Errorf("%d bytes were written", after-before)
	}
}
