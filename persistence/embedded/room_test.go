package embedded

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/belfry-scheduler/belfry/messages/job"
	"github.com/belfry-scheduler/belfry/persistence"
)

// TestFullDisk refuses writes below the reserve, reads on, and goes on as soon
// as there is room.
func TestFullDisk(t *testing.T) {
	disk := vfs.NewMem()
	s := openMem(t, disk)
	c := newChain(t, s, 0)
	row := persistence.Row{Slice: 1, JobID: "x", Status: job.Active, State: []byte("1")}
	write := func() error { return c.commit(persistence.Batch{Rows: []persistence.Row{row}}) }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	free := func(bytes uint64) {
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: bytes, TotalBytes: 1 << 40})
		s.room.mu.Lock()
		s.room.looked = time.Time{} // as if its last look were long ago
		s.room.mu.Unlock()
	}

	free(DefaultReserveBytes - 1)
	row.State = []byte("2")
	_, acquireErr := s.Acquire(t.Context(), c.held, persistence.Owner{Node: "b"}, uuid.New())
	for what, err := range map[string]error{"commit": write(), "acquire": acquireErr, "healthy": s.Healthy()} {
		if !errors.Is(err, job.ErrUnavailable) || errors.Is(err, persistence.ErrInDoubt) || !contains(err, "full") {
			t.Errorf("%s: got error %v, want a full disk", what, err)
		}
	}
	got, err := s.Get(t.Context(), 0, 1, "x", "")
	if err != nil || string(got.State) != "1" {
		t.Errorf("get: got %q, %v", got.State, err)
	}
	if f, err := s.ReadFence(t.Context(), 0); err != nil || f != c.held {
		t.Errorf("fence: got %v, %v, want %v", f, err, c.held)
	}

	free(DefaultReserveBytes)
	if err := errors.Join(s.Healthy(), write()); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
