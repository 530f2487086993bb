package chaos

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Build compiles the command into a directory and returns its path.
func Build(dir string) (string, error) {
	bin := filepath.Join(dir, "belfry")
	out, err := exec.Command("go", "build", "-o", bin, "github.com/belfry-scheduler/belfry/cmd/belfry").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build belfry: %w\n%s", err, out)
	}
	return bin, nil
}

// Process is a node that can be killed and started again on the same data.
type Process struct {
	Bin     string
	DataDir string
	Listen  string
	Args    []string

	cmd  *exec.Cmd
	log  tail
	done chan error
}

// URL is where its API is.
func (p *Process) URL() string { return "http://" + p.Listen }

// Start starts the process and returns when it is ready.
func (p *Process) Start() error {
	args := []string{"server", "--listen", p.Listen, "--allow-targets", "127.0.0.0/8"}
	if p.DataDir != "" {
		args = append(args, "--data-dir", p.DataDir)
	}
	args = append(args, p.Args...)
	p.cmd = exec.Command(p.Bin, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan error) { done <- cmd.Wait() }(p.cmd, p.done)
	return p.waitReady(60 * time.Second)
}

// waitReady asks /readyz until it says yes.
func (p *Process) waitReady(within time.Duration) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(within)
	for {
		select {
		case err := <-p.done:
			p.done <- err
			return fmt.Errorf("the node ended: %v\n%s", err, p.Log())
		case <-limit:
			return fmt.Errorf("the node is not ready after %s\n%s", within, p.Log())
		case <-tick.C:
		}
		resp, err := http.Get(p.URL() + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
}

// Kill ends the process as a power button does, and waits until it is gone. One
// that has ended is left alone.
func (p *Process) Kill() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	p.done <- <-p.done
}

// Terminate asks the process to drain and returns how it ended.
func (p *Process) Terminate() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	err := <-p.done
	p.done <- err
	return err
}

// Log is the end of what the process has printed.
func (p *Process) Log() string { return p.log.String() }

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytes = 64 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if over := t.buf.Len() - tailBytes; over > 0 {
		t.buf.Next(over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
