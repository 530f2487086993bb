package embedded

import (
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// roomAge is how old a look at the free space may be.
const roomAge = 200 * time.Millisecond

// room refuses writes while the disk is nearly full.
type room struct {
	fs      vfs.FS
	dir     string
	reserve int64

	mu     sync.Mutex
	looked time.Time
	err    error
}

// check is nil while there is room, and while the file system cannot tell.
func (r *room) check() error {
	if r.reserve < 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.looked.IsZero() || now.Sub(r.looked) >= roomAge {
		r.looked = now
		r.err = r.look()
	}
	return r.err
}

func (r *room) look() error {
	usage, err := r.fs.GetDiskUsage(r.dir)
	if err != nil || usage.AvailBytes >= uint64(r.reserve) {
		return nil
	}
	return fmt.Errorf("%w: the disk of %s is full: %d bytes are free, and %d are kept in reserve",
		job.ErrUnavailable, r.dir, usage.AvailBytes, r.reserve)
}
