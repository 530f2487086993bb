package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// crashPointsEnv sets how many power cuts are tried.
const crashPointsEnv = "BELFRY_CRASH_POINTS"

const defaultCrashPoints = 200

// number is an environment variable's, or what it is by default.
func number(env string, byDefault int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil && n > 0 {
		return n
	}
	return byDefault / raceSlowdown
}

// TestPowerCut cuts the power before and after the syncs of every file while
// four partitions are written, with a random part of the unsynced data on disk.
// Of the log's syncs, which are most of them, it takes some.
func TestPowerCut(t *testing.T) {
	cuts := newPowerCuts(t, number(crashPointsEnv, defaultCrashPoints))
	s := openMem(t, &syncHook{FS: cuts.disk, hook: cuts.cut})
	for _, err := range cuts.script.run(t.Context(), s, &cuts.progress, cuts.more) {
		if err != nil {
			t.Error(err)
		}
	}
	if missed := cuts.end(t); missed > 0 {
		t.Errorf("%d power cuts were not come to", missed)
	}
	flushes := s.db.Metrics().Flush.Count
	t.Logf("%d power cuts over %v steps, %d flushes, %d compactions", cuts.tried,
		load(&cuts.progress.acknowledged), flushes, s.db.Metrics().Compact.Count)
	if flushes == 0 {
		t.Error("no flush was among them")
	}
}

// TestPowerCutWhileOpening cuts the power while a store is made, and while it is
// opened again, with little in it.
func TestPowerCutWhileOpening(t *testing.T) {
	tried := 0
	for range 8 / raceSlowdown {
		cuts := newPowerCuts(t, 1<<20)
		for n := int64(1); n <= 4; n++ {
			s, err := Open(small(&syncHook{FS: cuts.disk, hook: cuts.cut}))
			if err != nil {
				t.Fatal(err)
			}
			cuts.progress.begun[0].Store(n)
			if err := cuts.script.play(t.Context(), s, 0, n); err != nil {
				t.Error(err)
			}
			cuts.progress.acknowledged[0].Store(n)
			mustClose(t, s)
		}
		cuts.end(t)
		tried += cuts.tried
	}
	t.Logf("%d power cuts", tried)
}

// powerCut is what one has left, and what is known about it.
type powerCut struct {
	number, kept int
	disk         *vfs.MemFS
	lo, hi       [scriptPartitions]int64
}

type powerCuts struct {
	script   script
	ctx      context.Context
	disk     *vfs.MemFS
	progress progress
	made     chan powerCut // closed after the last one
	found    chan error    // the first losses
	checkers sync.WaitGroup

	mu    sync.Mutex
	rng   *rand.Rand
	left  int
	tried int
}

func newPowerCuts(t *testing.T, number int) *powerCuts {
	c := &powerCuts{
		script: newScript(t), ctx: t.Context(), disk: vfs.NewCrashableMem(), left: number,
		made: make(chan powerCut, 8), found: make(chan error, 10),
	}
	c.rng = rand.New(rand.NewPCG(c.script.seed, 1))
	for range 2 {
		c.checkers.Go(c.check)
	}
	return c
}

func (c *powerCuts) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left > 0 && c.progress.begun[0].Load() < 50*int64(c.tried+c.left)
}

// end waits for the checks; it returns how many power cuts were left.
func (c *powerCuts) end(t *testing.T) int {
	t.Helper()
	c.mu.Lock()
	left := c.left
	c.left = 0
	c.mu.Unlock()
	close(c.made)
	c.checkers.Wait()
	close(c.found)
	for err := range c.found {
		t.Error(err)
	}
	return left
}

// cut is called at a sync. What was acknowledged before it must survive, and
// nothing can be there that was not begun after it.
func (c *powerCuts) cut(file string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 || (strings.HasSuffix(file, ".log") && c.rng.IntN(6) > 0) {
		return
	}
	c.left--
	c.tried++
	cut := powerCut{number: c.tried, kept: []int{0, 0, 30, 60, 90, 100}[c.rng.IntN(6)]}
	cut.lo = load(&c.progress.acknowledged)
	cut.disk = c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: cut.kept, RNG: c.rng})
	cut.hi = load(&c.progress.begun)
	c.made <- cut
}

// check tries what the power cuts have left.
func (c *powerCuts) check() {
	for cut := range c.made {
		if err := c.recover(cut.disk, cut.lo, cut.hi, cut.number%4 == 0); err != nil {
			select {
			case c.found <- fmt.Errorf("power cut %d, %d %% of the unsynced data kept: %w", cut.number, cut.kept, err):
			default:
			}
		}
	}
}

// recover opens what a power cut has left and checks it; with again, it goes on
// for some steps and cuts the power once more.
func (c *powerCuts) recover(disk *vfs.MemFS, lo, hi [scriptPartitions]int64, again bool) (err error) {
	s, err := Open(small(disk))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	found, err := c.script.verifyAll(c.ctx, s, lo, hi)
	if err != nil || !again {
		return err
	}
	for partition := range int32(scriptPartitions) {
		for range 3 {
			found[partition]++
			if err := c.script.play(c.ctx, s, partition, found[partition]); err != nil {
				return err
			}
		}
	}
	return c.recover(disk.CrashClone(vfs.CrashCloneCfg{}), found, found, false)
}

// syncHook calls hook before and after every sync.
type syncHook struct {
	vfs.FS
	hook func(file string)
}

func (h *syncHook) file(name string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		return &hookedFile{File: f, hook: func() { h.hook(name) }}, nil
	}
}

func (h *syncHook) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return h.file(name)(h.FS.Create(name, category))
}

func (h *syncHook) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return h.file(newname)(h.FS.ReuseForWrite(oldname, newname, category))
}

func (h *syncHook) OpenDir(name string) (vfs.File, error) { return h.file(name)(h.FS.OpenDir(name)) }

type hookedFile struct {
	vfs.File
	hook func()
}

func (f *hookedFile) around(sync func() error) error {
	f.hook()
	defer f.hook()
	return sync()
}

func (f *hookedFile) Sync() error     { return f.around(f.File.Sync) }
func (f *hookedFile) SyncData() error { return f.around(f.File.SyncData) }

func (f *hookedFile) SyncTo(length int64) (full bool, err error) {
	err = f.around(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}
