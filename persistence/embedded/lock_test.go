package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/belfry-scheduler/belfry/persistence"
)

// holderEnv makes the test binary a process that holds a data directory.
const holderEnv = "BELFRY_TEST_HOLD_DIRECTORY"

// holdDirectory opens the store of a directory, says how that went, and keeps
// it open until its standard input ends.
func holdDirectory(dir string) {
	s, err := Open(Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	f, err := s.ReadFence(context.Background(), 7)
	if err == nil {
		_, err = s.Acquire(context.Background(), f, persistence.Owner{Node: "holder"}, [16]byte{7})
	}
	fmt.Println("held:", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println("closed:", s.Close())
}

// holder is another process that holds a directory.
type holder struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  *bufio.Reader
}

func startHolder(t *testing.T, dir string) *holder {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{cmd: exec.Command(self)}
	h.cmd.Env = append(os.Environ(), holderEnv+"="+dir)
	h.cmd.Stderr = os.Stderr
	in, inErr := h.cmd.StdinPipe()
	out, outErr := h.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, h.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	h.stdin, h.said = in, bufio.NewReader(out)
	return h
}

func (h *holder) line(t *testing.T) string {
	t.Helper()
	line, err := h.said.ReadString('\n')
	if err != nil {
		t.Fatalf("the other process said %q: %v", line, err)
	}
	return strings.TrimSpace(line)
}

func inUse(t *testing.T, dir string, err string) {
	t.Helper()
	for _, part := range []string{dir, "another belfry process"} {
		if !strings.Contains(err, part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	h := startHolder(t, dir)
	if said := h.line(t); said != "held: <nil>" {
		t.Fatalf("the other process said %q", said)
	}
	_, err := Open(Config{Dir: dir})
	if !errors.Is(err, ErrInUse) {
		t.Fatalf("open: got error %v, want ErrInUse", err)
	}
	inUse(t, dir, err.Error())

	// Killed, it has let go, and what it was answered is there.
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.ReadFence(t.Context(), 7)
	if err != nil || f.Owner != "holder" || f.Epoch != 1 {
		t.Errorf("fence: got %v, %v", f, err)
	}

	// And the other way round, until we close.
	h = startHolder(t, dir)
	inUse(t, dir, h.line(t))
	_ = h.cmd.Wait()
	mustClose(t, s)
	h = startHolder(t, dir)
	if said := h.line(t); !strings.HasPrefix(said, "held:") {
		t.Errorf("the other process said %q after we closed", said)
	}
	_ = h.stdin.Close()
	if said := h.line(t); said != "closed: <nil>" {
		t.Errorf("the other process said %q", said)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTwoStoresOfOneProcess(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("open: got error %v, want ErrInUse", err)
	}
}

func TestOpenWhereNothingCanBeMade(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: file + "/data"}); err == nil || errors.Is(err, ErrInUse) || !contains(err, file) {
		t.Errorf("open: got error %v", err)
	}
}
