package embedded

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// failing tells which operations fail once the disk is broken.
func failing(file func(name string) bool, kinds ...errorfs.OpKind) func(errorfs.Op) bool {
	return func(op errorfs.Op) bool {
		for _, k := range kinds {
			if op.Kind == k && file(op.Path) {
				return true
			}
		}
		return false
	}
}

func ends(suffix string) func(string) bool {
	return func(name string) bool { return strings.HasSuffix(name, suffix) }
}

func manifest(name string) bool { return strings.Contains(name, "MANIFEST") }

var syncs = []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}

// TestFailedDisk fails one kind of operation for good while four partitions are
// written. The store must say so and stay so, acknowledge nothing more, let go
// of every caller, and leave a directory that holds all it has acknowledged.
func TestFailedDisk(t *testing.T) {
	for name, fails := range map[string]func(errorfs.Op) bool{
		"log sync":        failing(ends(".log"), syncs...),
		"log write":       failing(ends(".log"), errorfs.OpFileWrite),
		"log rotation":    failing(ends(".log"), errorfs.OpCreate),
		"manifest write":  failing(manifest, errorfs.OpFileWrite),
		"manifest sync":   failing(manifest, syncs...),
		"table creation":  failing(ends(".sst"), errorfs.OpCreate),
		"table write":     failing(ends(".sst"), errorfs.OpFileWrite),
		"table sync":      failing(ends(".sst"), syncs...),
		"directory sync":  failing(ends("data"), syncs...),
		"everything":      func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite },
		"everything once": failOnce(),
	} {
		t.Run(name, func(t *testing.T) { failDisk(t, fails) })
	}
}

// noReuse makes a new log where pebble would write over an old one: errorfs lets
// the files alone that are opened to be used again.
type noReuse struct{ vfs.FS }

func (fs noReuse) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.Remove(oldname); err != nil {
		return nil, err
	}
	return fs.Create(newname, category)
}

// failOnce is a disk that fails one sync and then works again.
func failOnce() func(errorfs.Op) bool {
	var once sync.Once
	return func(op errorfs.Op) (fails bool) {
		if failing(ends(".log"), syncs...)(op) {
			once.Do(func() { fails = true })
		}
		return fails
	}
}

func failDisk(t *testing.T, fails func(errorfs.Op) bool) {
	sc := newScript(t)
	disk := vfs.NewCrashableMem()
	broken := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fails(op) {
			return errorfs.ErrInjected
		}
		return nil
	})}
	s := openMem(t, noReuse{errorfs.Wrap(disk, broken)})

	var p progress
	for partition, err := range sc.run(t.Context(), s, &p, func() bool {
		n := p.acknowledged[0].Load()
		if n == 20 {
			broken.On()
		}
		return n < 2000 // long before that, every file has been written
	}) {
		if !errors.Is(err, job.ErrUnavailable) || !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("partition %d ends with error %v", partition, err)
		}
	}
	broken.Off() // a disk that works again changes nothing
	if err := s.Healthy(); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("healthy: got error %v, want the cause", err)
	}
	refusesEverything(t, s, sc.fence(0, p.acknowledged[0].Load()))
	mustClose(t, s)

	lo, hi := load(&p.acknowledged), load(&p.begun)
	for name, fs := range map[string]vfs.FS{"the disk": disk, "the disk after a power cut": disk.CrashClone(vfs.CrashCloneCfg{})} {
		s := openMem(t, fs)
		if _, err := sc.verifyAll(t.Context(), s, lo, hi); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		mustClose(t, s)
	}
}

// TestFailureEndsStall breaks the disk while commits wait for a flush: they
// have to be let go.
func TestFailureEndsStall(t *testing.T) {
	sc := newScript(t)
	disk := vfs.NewMem()
	waiting := &listener{text: stalled, heard: make(chan struct{})}
	cfg := small(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".sst") && op.Kind == errorfs.OpFileWrite {
			<-waiting.heard
			return errorfs.ErrInjected
		}
		return nil
	})))
	cfg.Logger = slog.New(waiting)
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var p progress
	for partition, err := range sc.run(t.Context(), s, &p, func() bool { return true }) {
		if !errors.Is(err, job.ErrUnavailable) || !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("partition %d ends with error %v", partition, err)
		}
	}
	mustClose(t, s)
	s = openMem(t, disk)
	if _, err := sc.verifyAll(t.Context(), s, load(&p.acknowledged), load(&p.begun)); err != nil {
		t.Error(err)
	}
}

// listener is a log handler that waits for a message.
type listener struct {
	text  string
	heard chan struct{}
	once  sync.Once
}

func (l *listener) Enabled(context.Context, slog.Level) bool { return true }
func (l *listener) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *listener) WithGroup(string) slog.Handler            { return l }

func (l *listener) Handle(_ context.Context, r slog.Record) error {
	if r.Message == l.text {
		l.once.Do(func() { close(l.heard) })
	}
	return nil
}

// TestFrozenDirectory checks that nothing reaches the disk after a failure, not
// even by the shutdown.
func TestFrozenDirectory(t *testing.T) {
	disk := vfs.NewMem()
	s := openMem(t, disk)
	c := newChain(t, s, 0)
	sc := newScript(t)
	for n := int64(2); n < 9; n++ {
		if err := c.commit(sc.batch(0, n)); err != nil {
			t.Fatal(err)
		}
	}
	before := disk.String()
	s.fault.fail(syscall.EIO)
	mustClose(t, s)
	if after := disk.String(); after != before {
		t.Errorf("the directory has changed:\n%s\nit was:\n%s", after, before)
	}
}

func TestFatalOfPebbleIsNoExit(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	c := newChain(t, s, 0)
	s.fault.Fatalf("cannot go on: %v", syscall.EIO)
	s.fault.background(syscall.ENOSPC) // the first cause stays
	if err := s.Healthy(); err == nil || !contains(err, "cannot go on") {
		t.Errorf("healthy: got error %v", err)
	}
	refusesEverything(t, s, c.held)
}

// TestFailureUnderWay breaks the store in the middle of a commit's fsync: the
// caller may not take it for refused.
func TestFailureUnderWay(t *testing.T) {
	disk := vfs.NewMem()
	var s *Store
	armed := false
	s = openMem(t, &syncHook{FS: disk, hook: func(string) {
		if armed {
			s.fault.fail(syscall.EIO)
		}
	}})
	c := newChain(t, s, 0)
	armed = true
	err := c.commit(persistence.Batch{})
	if !errors.Is(err, job.ErrUnavailable) || !errors.Is(err, persistence.ErrInDoubt) || !errors.Is(err, syscall.EIO) {
		t.Errorf("commit: got error %v, want ErrUnavailable, ErrInDoubt and the cause", err)
	}
	refusesEverything(t, s, c.held)
}

// TestCorruptTable reads a file whose bytes have changed: an error, no panic
// and no row.
func TestCorruptTable(t *testing.T) {
	disk := vfs.NewMem()
	s := openMem(t, disk)
	sc := newScript(t)
	for n := int64(1); n < 30; n++ {
		if err := sc.play(t.Context(), s, 0, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	names, err := disk.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			data := readFile(t, disk, "data/"+name)
			for i := range len(data) / 2 { // its end is its footer
				data[i] ^= 0x55
			}
			writeFile(t, disk, "data/"+name, data)
		}
	}
	s, err = Open(small(disk))
	if err != nil {
		return // refused at once: as good
	}
	defer mustClose(t, s)
	err = s.Load(t.Context(), 0, 0, 192, func(persistence.Row) error { return nil })
	if !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("load: got error %v, want ErrUnavailable", err)
	}
}

// TestFailureEndsLoad breaks the store under a load, which must end, and let
// the shutdown of pebble go on.
func TestFailureEndsLoad(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	c := newChain(t, s, 0)
	for n := range 3 {
		if err := c.commit(registrations(0, n)); err != nil {
			t.Fatal(err)
		}
	}
	rows := 0
	err := s.Load(t.Context(), 0, 0, 64, func(r persistence.Row) error {
		if rows++; rows == 1 {
			// A call from within a load is let in, and refused once broken.
			if _, err := s.Get(context.Background(), 0, r.Slice, r.JobID, ""); err != nil {
				t.Error(err)
			}
			s.fault.fail(syscall.EIO)
		}
		return nil
	})
	if !errors.Is(err, job.ErrUnavailable) || rows > lookEvery {
		t.Errorf("load: got error %v after %d rows", err, rows)
	}
	if _, err := s.Acquire(t.Context(), c.held, persistence.Owner{}, uuid.New()); !errors.Is(err, syscall.EIO) {
		t.Errorf("acquire: got error %v, want the cause", err)
	}
}
