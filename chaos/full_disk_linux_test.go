package chaos

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDiskFull: the disk of a node fills up. It refuses what it could not keep,
// with 503; when there is room again it goes on, and what it had promised is
// there.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=400m"); err != nil {
		t.Fatalf("mount a small disk, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	node, l := alone(t, &Process{DataDir: filepath.Join(dir, "data"), Args: []string{"--partitions", "16"}})
	l.add("tick", 50, time.Second, l.ledger.URL)
	l.seconds(2)
	l.history.OnTime, l.history.Recovery = slow(t, time.Second), slow(t, RecoveryBound)

	ballast := filepath.Join(dir, "ballast")
	f := Fault{Kind: Shaken, At: time.Now()}
	if err := os.WriteFile(ballast, make([]byte, 200<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	yearly := map[string]any{"schedule_expr": "0 0 1 1 *", "target": "https://example.com/"}
	register := func() error { return node.Post("/v1/jobs", yearly, http.StatusCreated) }
	var err error
	eventually(t, "a job is refused while the disk is full", func() bool {
		err = register()
		return err != nil
	})
	if !strings.Contains(err.Error(), "503") {
		t.Errorf("with a full disk the answer is %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a job is taken when there is room again", func() bool { return register() == nil })
	f.End = time.Now()
	l.history.Faults = append(l.history.Faults, f)
	l.seconds(2)
	node.Kill()
	f = Fault{Kind: Killed, At: time.Now(), End: time.Now()}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	l.history.Faults = append(l.history.Faults, f)
	l.seconds(2)
	l.finish()
}
