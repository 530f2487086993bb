package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Checkpoint is the file beside an imported file that says how far an import
// came. It is there only while one is under way or was broken off.
type Checkpoint struct {
	path string
	what mark
}

// mark is what a checkpoint is about: another file, a changed one, or another
// server starts from the beginning.
type mark struct {
	Server  string    `json:"server"`
	Options string    `json:"options,omitzero"`
	Size    int64     `json:"size"`
	Changed time.Time `json:"changed"`
}

// saved is the content of the file.
type saved struct {
	mark
	Progress Progress `json:"progress"`
}

// OpenCheckpoint is the checkpoint of a file that is imported to a server.
func OpenCheckpoint(file, server, options string) (*Checkpoint, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{
		path: file + ".progress",
		what: mark{Server: server, Options: options, Size: info.Size(), Changed: info.ModTime().UTC()},
	}, nil
}

// Path is the checkpoint's own file.
func (c *Checkpoint) Path() string { return c.path }

// Load is how far an earlier import came; the zero Progress when there was none
// or it was about something else.
func (c *Checkpoint) Load() (Progress, error) {
	text, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return Progress{}, nil
	}
	var s saved
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return Progress{}, fmt.Errorf("read the progress of the last import: %w", err)
	}
	if s.mark != c.what {
		return Progress{}, nil
	}
	return s.Progress, nil
}

// Save replaces the file whole: a crash leaves the old one or the new one.
func (c *Checkpoint) Save(p Progress) error {
	text, err := json.Marshal(saved{c.what, p})
	if err != nil {
		return err
	}
	next := c.path + ".new"
	if err := os.WriteFile(next, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.path)
}

// Done removes the file.
func (c *Checkpoint) Done() error {
	if err := os.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
