package cassandra

import (
	"os"
	"path/filepath"
)

// home is the directory of one run: a folder a node, and the nodes' logs. Its
// lock file says that the run lives.
type home struct {
	dir    string
	kept   bool // belongs to the user: data and logs stay
	unlock func()
}

const (
	homePrefix = "belfry-cassandra-"
	lockName   = "running"
	logExt     = ".log"
)

// openHome makes the directory of a run: dir, or a new one that goes with it.
func openHome(dir string) (*home, error) {
	if dir == "" {
		sweepHomes()
		return newHome()
	}
	abs, err := filepath.Abs(dir) // the server runs elsewhere
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return nil, err
	}
	return &home{dir: abs, kept: true, unlock: func() {}}, nil
}

// newHome locks the file before it has the name that the sweep looks for.
func newHome() (*home, error) {
	dir, err := os.MkdirTemp("", homePrefix)
	if err != nil {
		return nil, err
	}
	first := filepath.Join(dir, "starting")
	unlock, err := lockFile(first)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(first, filepath.Join(dir, lockName)); err != nil {
		unlock()
		return nil, err
	}
	return &home{dir: dir, unlock: unlock}, nil
}

// sweepHomes removes what runs left that were killed. Logs that were kept for
// somebody have no lock file beside them and stay.
func sweepHomes() {
	locks, err := filepath.Glob(filepath.Join(os.TempDir(), homePrefix+"*", lockName))
	if err != nil {
		return
	}
	for _, path := range locks {
		unlock, err := tryLockFile(path)
		if err != nil {
			continue // it lives, or is another user's
		}
		_ = os.RemoveAll(filepath.Dir(path)) // the next sweep tries again
		unlock()
	}
}

// close removes the data, and the logs too unless somebody will read them.
func (h *home) close(keepLogs bool) error {
	defer h.unlock()
	if h.kept {
		return nil
	}
	if !keepLogs {
		return os.RemoveAll(h.dir)
	}
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == logExt {
			continue
		}
		if err := os.RemoveAll(filepath.Join(h.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (h *home) nodeDir(name string) string { return filepath.Join(h.dir, name) }
func (h *home) logPath(name string) string { return filepath.Join(h.dir, name+logExt) }
