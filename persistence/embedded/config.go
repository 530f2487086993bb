package embedded

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Defaults of a Config.
const (
	DefaultCacheBytes    = 64 << 20
	DefaultMemTableBytes = 64 << 20
	DefaultReserveBytes  = 256 << 20
)

const (
	minMemTableBytes = 256 << 10
	memTableCount    = 4 // memtables at most, the one being written included; then commits wait for a flush
	stalled          = "commits wait: the disk does not keep up"
	bytesPerSync     = 1 << 20 // written back in pieces of this size, so that an fsync finds little to do
)

// Config says where a store lies and what it may use. Dir is required; the
// zero value of every other field means its default.
type Config struct {
	// Dir is the data directory. It is created if need be, and it belongs to
	// one process at a time.
	Dir string
	// FS is where Dir lies. nil: the disk.
	FS vfs.FS
	// CacheBytes bounds the cache of blocks read from disk.
	// 0: DefaultCacheBytes.
	CacheBytes int64
	// MemTableBytes is what is collected in memory (and in the write-ahead log)
	// before it is flushed to a sorted file. 0: DefaultMemTableBytes.
	MemTableBytes int64
	// ReserveBytes of free disk space are left alone: below them writes are
	// refused until there is room, so that what has been accepted can still be
	// flushed and compacted. 0: DefaultReserveBytes, which is a memtable, its
	// log and a compaction; negative: no reserve.
	ReserveBytes int64
	// Logger receives what the store has to say: warnings of a slow disk, and
	// the error that ends it. nil: slog.Default().
	Logger *slog.Logger
}

// Validate names the first field that cannot be used.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("embedded store: Dir is empty: name the data directory")
	case c.CacheBytes < 0:
		return fmt.Errorf("embedded store: CacheBytes is %d: 0 for the default of %d, or more", c.CacheBytes, DefaultCacheBytes)
	case c.MemTableBytes != 0 && c.MemTableBytes < minMemTableBytes:
		return fmt.Errorf("embedded store: MemTableBytes is %d: 0 for the default of %d, or at least %d", c.MemTableBytes, DefaultMemTableBytes, minMemTableBytes)
	case c.MemTableBytes > 1<<30:
		return fmt.Errorf("embedded store: MemTableBytes is %d: at most %d", c.MemTableBytes, 1<<30)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.MemTableBytes == 0 {
		c.MemTableBytes = DefaultMemTableBytes
	}
	if c.ReserveBytes == 0 {
		c.ReserveBytes = DefaultReserveBytes
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// options are pebble's: all that is not named here is its default.
func (c Config) options(f *fault, fs vfs.FS, lock *pebble.Lock) *pebble.Options {
	o := &pebble.Options{
		FS:                          fs,
		Lock:                        lock,
		Logger:                      f,
		CacheSize:                   c.CacheBytes,
		MemTableSize:                uint64(c.MemTableBytes),
		MemTableStopWritesThreshold: memTableCount,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               64 << 20,
		BytesPerSync:                bytesPerSync,
		WALBytesPerSync:             bytesPerSync,
		MaxOpenFiles:                1024,
		CompactionConcurrencyRange:  func() (int, int) { return 1, max(1, runtime.GOMAXPROCS(0)/2) },
		// Named, not "newest": a newer library must not silently make a
		// directory that the previous release cannot open.
		FormatMajorVersion: pebble.FormatWALSyncChunks,
		EventListener: &pebble.EventListener{
			BackgroundError: f.background,
			WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
				c.Logger.Warn(stalled, "dir", c.Dir, "reason", info.Reason)
			},
			DataCorruption: func(info pebble.DataCorruptionInfo) { f.Fatalf("%s", info) },
		},
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}
