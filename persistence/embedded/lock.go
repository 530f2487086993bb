package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrInUse is Open's answer when the directory belongs to another process.
var ErrInUse = errors.New("another belfry process uses this data directory: stop that one, or give this one a directory of its own")

// lockDirectory makes the directory and takes its lock, which ends with the
// process at the latest.
func lockDirectory(dir string, disk vfs.FS) (*pebble.Lock, error) {
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := pebble.LockDirectory(dir, disk)
	if err == nil {
		return lock, nil
	}
	if held(err) {
		return nil, fmt.Errorf("%w (%w)", ErrInUse, err)
	}
	return nil, fmt.Errorf("lock: %w", err)
}

// held tells a lock that somebody has from one that cannot be had at all.
func held(err error) bool {
	var path *fs.PathError // the lock file itself could not be made
	if errors.As(err, &path) {
		return false
	}
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) ||
		strings.Contains(err.Error(), "lock held by current process")
}
