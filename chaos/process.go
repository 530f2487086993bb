package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// builds are the commands that this process has compiled, by the flags that
// they were built with.
var builds = struct {
	sync.Mutex
	dir   string
	paths map[string]string
}{paths: map[string]string{}}

// Built compiles the command with flags of go build, the first time that it is
// asked for with these, and returns its path. RemoveBuilds ends its life.
func Built(flags ...string) (string, error) {
	builds.Lock()
	defer builds.Unlock()
	name := strings.Join(flags, " ")
	if bin, ok := builds.paths[name]; ok {
		return bin, nil
	}
	if builds.dir == "" {
		dir, err := os.MkdirTemp("", "belfry-builds-")
		if err != nil {
			return "", err
		}
		builds.dir = dir
	}
	bin := filepath.Join(builds.dir, fmt.Sprint("belfry-", len(builds.paths)))
	args := append(append([]string{"build", "-o", bin}, flags...), "github.com/belfry-scheduler/belfry/cmd/belfry")
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build belfry: %w\n%s", err, out)
	}
	builds.paths[name] = bin
	return bin, nil
}

// RemoveBuilds removes all that Built made.
func RemoveBuilds() {
	builds.Lock()
	defer builds.Unlock()
	_ = os.RemoveAll(builds.dir) // of the temporary directory, at the worst it stays there
	builds.dir, builds.paths = "", map[string]string{}
}

// Process is a node that can be killed and started again on the same data. Its
// verbs are for one goroutine.
type Process struct {
	Bin     string
	DataDir string
	Listen  string
	Args    []string
	// Env is more of the environment.
	Env []string
	// Spawn starts the command somewhere else than in the test's own
	// namespaces, on the thread that it is called on; nil: there.
	Spawn func(start func() error) error
	// Line is told each line of the log, in order; nil: nobody.
	Line func([]byte)

	cmd  *exec.Cmd
	log  tail
	done chan struct{} // closed when it has been waited for
	err  error         // how it ended, once done is closed
}

// URL is where its API is.
func (p *Process) URL() string { return "http://" + p.Listen }

// readyWithin is how long a node may take to be ready.
const readyWithin = time.Minute

// Start starts the process and returns when it is ready.
func (p *Process) Start() error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.WaitReady(readyWithin)
}

// Launch starts the process, and does not wait.
func (p *Process) Launch() error {
	args := []string{"server", "--listen", p.Listen, "--allow-targets", "127.0.0.0/8"}
	if p.DataDir != "" {
		args = append(args, "--data-dir", p.DataDir)
	}
	args = append(args, p.Args...)
	cmd := exec.Command(p.Bin, args...)
	cmd.SysProcAttr = childAttributes()
	cmd.Env = append(os.Environ(), p.Env...)
	p.log.line = p.Line
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	started, done := make(chan error, 1), make(chan struct{})
	go p.hold(cmd, started, done)
	if err := <-started; err != nil {
		return err
	}
	p.cmd, p.done = cmd, done
	return nil
}

// hold starts the child and waits for its end, all on one thread: where a child
// dies with its parent, it is the thread that counts.
func (p *Process) hold(cmd *exec.Cmd, started chan<- error, done chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := cmd.Start
	if p.Spawn != nil {
		start = func() error { return p.Spawn(cmd.Start) }
	}
	err := start()
	started <- err
	if err != nil {
		return
	}
	p.err = cmd.Wait()
	close(done)
}

// WaitReady asks /readyz until it says yes.
func (p *Process) WaitReady(within time.Duration) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(within)
	for {
		select {
		case <-p.done:
			return fmt.Errorf("the node ended: %v\n%s", p.err, p.Log())
		case <-limit:
			return fmt.Errorf("the node is not ready after %s\n%s", within, p.Log())
		case <-tick.C:
		}
		if p.Ready() {
			return nil
		}
	}
}

// Ready is what /readyz says now; a node that does not answer within a second
// is not ready.
func (p *Process) Ready() bool {
	resp, err := probe.Get(p.URL() + "/readyz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Why is what /readyz says of a node that is not ready; "" when it is.
func (p *Process) Why() string {
	resp, err := probe.Get(p.URL() + "/readyz")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return ""
	}
	text, _ := io.ReadAll(resp.Body) // what came of it is enough
	return string(text)
}

// probe never waits for a connection that a paused node keeps open.
var probe = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Running tells whether it was started and has not ended. A paused one runs.
func (p *Process) Running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends the process as a power button does, and waits until it is gone. One
// that has ended is left alone.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Pause stops the process where it stands, with its sockets open; Resume lets
// it go on.
func (p *Process) Pause() error  { return p.Signal(syscall.SIGSTOP) }
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Terminate asks the process to drain and returns how it ended: nil is exit 0.
func (p *Process) Terminate() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.Wait(2 * time.Minute)
}

// Wait waits for the end of the process: nil is exit 0.
func (p *Process) Wait(within time.Duration) error {
	select {
	case <-p.done:
		return p.err
	case <-time.After(within):
		return fmt.Errorf("the node still runs after %s\n%s", within, p.Log())
	}
}

// ExitCode is how an ended process ended; -1: by a signal, or not yet.
func (p *Process) ExitCode() int {
	var exit *exec.ExitError
	switch {
	case p.Running():
		return -1
	case errors.As(p.err, &exit):
		return exit.ExitCode()
	}
	return 0
}

// Log is the end of what the process has printed.
func (p *Process) Log() string { return p.log.String() }

// tail keeps the last bytes written to it.
type tail struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	line    func([]byte)
	partial []byte
}

const tailBytes = 64 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(b)
	t.buf.Write(b)
	if over := t.buf.Len() - tailBytes; over > 0 {
		t.buf.Next(over)
	}
	return len(b), nil
}

// tell passes whole lines on.
func (t *tail) tell(b []byte) {
	if t.line == nil {
		return
	}
	t.partial = append(t.partial, b...)
	for {
		line, rest, whole := bytes.Cut(t.partial, []byte("\n"))
		if !whole {
			return
		}
		t.line(line)
		t.partial = rest
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
