package cassandra

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// put makes a node's folder and log in a home.
func put(t *testing.T, h *home) {
	t.Helper()
	if err := os.MkdirAll(h.nodeDir("node1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.logPath("node1"), []byte("log"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// What stays of a run: nothing, its logs, or all of it.
func TestHomeClosed(t *testing.T) {
	for name, c := range map[string]struct {
		dir, keepLogs, data, log bool
	}{
		"passed":          {},
		"failed":          {keepLogs: true, log: true},
		"the user's":      {dir: true, data: true, log: true},
		"user's, failing": {dir: true, keepLogs: true, data: true, log: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			dir := ""
			if c.dir {
				dir = t.TempDir()
			}
			h, err := openHome(dir)
			if err != nil {
				t.Fatal(err)
			}
			put(t, h)
			if err := h.close(c.keepLogs); err != nil {
				t.Fatal(err)
			}
			sweepHomes() // kept logs stay also then
			if data, log := exists(t, h.nodeDir("node1")), exists(t, h.logPath("node1")); data != c.data || log != c.log {
				t.Errorf("data stays: %v, log stays: %v", data, log)
			}
		})
	}
}

// A sweep takes the directories of runs that ended, not of those that live.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	living, err := openHome("")
	if err != nil {
		t.Fatal(err)
	}
	defer living.close(false)
	killed, err := openHome("")
	if err != nil {
		t.Fatal(err)
	}
	put(t, killed)
	killed.unlock() // what the kernel does
	sweepHomes()
	if !exists(t, filepath.Join(living.dir, lockName)) || exists(t, killed.dir) {
		t.Errorf("living: %v, killed: %v", exists(t, living.dir), exists(t, killed.dir))
	}
}
