package embedded

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard stands between pebble and the disk. The first operation that fails
// breaks the store and freezes the directory as a power cut would: later
// writes, syncs, renames and removals do not reach it.
//
// Pebble cannot live with a failed write of its log or manifest: it calls
// Fatalf, or panics while it holds locks that every other commit waits for. So
// it is not told. The commit that depends on the write learns of it from the
// fault, which is set before the operation returns. A failed write of a data
// file it is told, since it would read the file back; the flush is repeated, and
// then goes to a file in memory, as all files do that are made after the freeze.
// So commits that wait for the flush come to their end, and pebble can be closed.
//
// Until arm is called errors are returned as they are, and Open fails on them.
type guard struct {
	vfs.FS
	fault *fault
	armed atomic.Bool
	void  *vfs.MemFS // the files made after the freeze, by their base names
}

func newGuard(fs vfs.FS, f *fault) *guard {
	return &guard{FS: fs, fault: f, void: vfs.NewMem()}
}

func (g *guard) arm() { g.armed.Store(true) }

// frozen tells whether nothing may be changed any more.
func (g *guard) frozen() bool { return g.armed.Load() && g.fault.err() != nil }

// do runs an operation that changes the directory. told says whether pebble
// hears of its failure.
func (g *guard) do(told bool, what, name string, op func() error) error {
	if !g.armed.Load() {
		return op()
	}
	err := g.fault.err()
	if err == nil {
		if err = op(); err == nil {
			return nil
		}
		err = fmt.Errorf("%s %s: %w", what, name, err)
		g.fault.fail(err)
	}
	if told {
		return err
	}
	return nil
}

// make is do for the operations that make a file, or open one to change it.
func (g *guard) make(what, name string, op func() (vfs.File, error)) (vfs.File, error) {
	if g.frozen() {
		return g.void.Create(g.PathBase(name), vfs.WriteCategoryUnspecified)
	}
	f, err := op()
	if err != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		if !g.armed.Load() {
			return nil, err
		}
		g.fault.fail(fmt.Errorf("%s %s: %w", what, name, err))
		return g.void.Create(g.PathBase(name), vfs.WriteCategoryUnspecified)
	}
	data := strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
	return &guardFile{File: f, guard: g, name: name, data: data}, nil
}

// Open is part of vfs.FS.
func (g *guard) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if g.frozen() {
		if f, err := g.void.Open(g.PathBase(name), opts...); err == nil {
			return f, nil
		}
	}
	return g.FS.Open(name, opts...)
}

// Stat is part of vfs.FS.
func (g *guard) Stat(name string) (vfs.FileInfo, error) {
	if g.frozen() {
		if info, err := g.void.Stat(g.PathBase(name)); err == nil {
			return info, nil
		}
	}
	return g.FS.Stat(name)
}

// Create is part of vfs.FS. A manifest is in its directory for good before it
// is returned: pebble names it in a marker file next, and after a power cut that
// kept the marker and not the manifest the store could not be opened.
func (g *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.make("create", name, func() (vfs.File, error) {
		f, err := g.FS.Create(name, category)
		if err == nil && strings.HasPrefix(g.PathBase(name), "MANIFEST-") {
			err = g.syncDirectory(g.PathDir(name))
		}
		return f, err
	})
}

func (g *guard) syncDirectory(name string) error {
	dir, err := g.FS.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// OpenReadWrite is part of vfs.FS.
func (g *guard) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.make("open", name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, category, opts...) })
}

// ReuseForWrite is part of vfs.FS.
func (g *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.make("reuse", newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, category) })
}

// OpenDir is part of vfs.FS. The directory is opened to be synced.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	return g.make("open", name, func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

// Link is part of vfs.FS.
func (g *guard) Link(oldname, newname string) error {
	return g.do(false, "link", newname, func() error { return g.FS.Link(oldname, newname) })
}

// Rename is part of vfs.FS.
func (g *guard) Rename(oldname, newname string) error {
	return g.do(false, "rename", newname, func() error { return g.FS.Rename(oldname, newname) })
}

// Remove is part of vfs.FS. What cannot be removed takes room and does no harm.
func (g *guard) Remove(name string) error {
	if g.frozen() {
		return nil
	}
	return g.FS.Remove(name)
}

// RemoveAll is part of vfs.FS.
func (g *guard) RemoveAll(name string) error {
	if g.frozen() {
		return nil
	}
	return g.FS.RemoveAll(name)
}

// Unwrap is part of vfs.FS.
func (g *guard) Unwrap() vfs.FS { return g.FS }

// guardFile is a file, or a directory, that was opened to be changed.
type guardFile struct {
	vfs.File
	guard *guard
	name  string
	data  bool
}

func (f *guardFile) do(what string, op func() error) error {
	return f.guard.do(f.data, what, f.name, op)
}

// Write is part of vfs.File. A write that is kept from the disk is a success of
// full length, or else pebble would hear of it.
func (f *guardFile) Write(p []byte) (int, error) {
	err := f.do("write", func() error {
		_, err := f.File.Write(p)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteAt is part of vfs.File.
func (f *guardFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.do("write", func() error {
		_, err := f.File.WriteAt(p, off)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Sync is part of vfs.File.
func (f *guardFile) Sync() error { return f.do("sync", f.File.Sync) }

// SyncData is part of vfs.File.
func (f *guardFile) SyncData() error { return f.do("sync", f.File.SyncData) }

// SyncTo is part of vfs.File.
func (f *guardFile) SyncTo(length int64) (full bool, err error) {
	err = f.do("sync", func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Close is part of vfs.File. The descriptor is given back in any case.
func (f *guardFile) Close() error {
	if f.guard.frozen() {
		_ = f.File.Close()
		return nil
	}
	return f.do("close", f.File.Close)
}
