package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/client"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/echo"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/spawn"
	"github.com/belfry-scheduler/belfry/gateway/api"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"belfry": main})
}

// TestScripts runs the scripts of testdata/script: what a user types and what
// comes of it. Beside the commands of testscript there are
//
//	exits N CMD…     run a command that ends with code N
//	server [ARG…]    start a server on $WORK/data and name it in $BELFRY_SERVER
//	stop             end that server by SIGTERM, and fail unless it drains and exits 0
//	until RE CMD…    repeat a command until its output matches
//	target           start an echo target and name it in $TARGET
func TestScripts(t *testing.T) {
	t.Parallel()
	running := &servers{of: map[string]*spawn.Server{}}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(scriptLimit),
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("NO_COLOR", "1")
			env.Setenv("YESTERDAY", time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly))
			pipeline, err := os.ReadFile("../../docs/pipeline/nightly.yaml")
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(env.WorkDir, "nightly.yaml"), pipeline, 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "until": until, "server": running.start, "stop": running.stop, "target": startTarget,
		},
	})
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// scriptLimit is far more than all scripts need together.
const scriptLimit = 3 * time.Minute

func until(ts *testscript.TestScript, _ bool, args []string) {
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(startLimit); time.Now().Before(end); <-tick.C {
		if ts.Exec(args[1], args[2:]...) == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("the output never matched %q", args[0])
}

// startLimit is far more than a server needs to start or to drain here.
const startLimit = time.Minute

// servers are the running servers of scripts, by working directory.
type servers struct {
	mu sync.Mutex
	of map[string]*spawn.Server
}

func (r *servers) put(dir string, s *spawn.Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[dir] = s
}

func (r *servers) take(dir string) *spawn.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of[dir]
	delete(r.of, dir)
	return s
}

func (r *servers) start(ts *testscript.TestScript, _ bool, args []string) {
	binary, err := exec.LookPath("belfry")
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	s, err := spawn.Start(ctx, spawn.Config{
		Binary: binary, DataDir: filepath.Join(ts.Getenv("WORK"), "data"),
		Args: append([]string{"--allow-targets", "127.0.0.0/8", "--partitions", "16"}, args...),
	})
	ts.Check(err)
	ts.Setenv("BELFRY_SERVER", s.URL())
	r.put(ts.Getenv("WORK"), s)
	ts.Defer(func() {
		if s := r.take(ts.Getenv("WORK")); s != nil {
			s.Kill()
		}
	})
}

func (r *servers) stop(ts *testscript.TestScript, _ bool, _ []string) {
	s := r.take(ts.Getenv("WORK"))
	if s == nil {
		ts.Fatalf("no server is running")
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	ts.Check(s.Stop(ctx))
}

func startTarget(ts *testscript.TestScript, _ bool, _ []string) {
	target, err := echo.Start("127.0.0.1:0")
	ts.Check(err)
	ts.Setenv("TARGET", target.URL())
	ts.Defer(func() { ts.Check(target.Stop(context.Background())) })
}

// child is this program as a process whose output is read line by line.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, args ...string) *child {
	t.Helper()
	binary, err := exec.LookPath("belfry")
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.CommandContext(t.Context(), binary, args...)}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stdout = c.cmd.Stderr
	c.lines = bufio.NewScanner(stderr)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// saw reads the output up to a line with a text in it.
func (c *child) saw(text string) string {
	c.t.Helper()
	for c.lines.Scan() {
		if strings.Contains(c.lines.Text(), text) {
			return c.lines.Text()
		}
	}
	c.t.Fatalf("its output ended without %q", text)
	return ""
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// code waits for the end.
func (c *child) code() int {
	for c.lines.Scan() {
	}
	_ = c.cmd.Wait() // the code says it
	return c.cmd.ProcessState.ExitCode()
}

// serverURL is the URL in a line of a server's log.
func serverURL(t *testing.T, line string) string {
	t.Helper()
	var entry struct{ URL string }
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		t.Fatal(err)
	}
	return entry.URL
}

func TestAnInterruptedCommandExitsWith130(t *testing.T) {
	t.Parallel()
	server := start(t, "server", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--partitions", "16")
	url := serverURL(t, server.saw(spawn.Listening))
	server.saw("ready")
	watch := start(t, "executions", "watch", "--after", "unknown", "--server", url)
	watch.saw("some events are missing") // it follows
	watch.signal(os.Interrupt)
	if code := watch.code(); code != exitInterrupted {
		t.Errorf("watch: exit code %d", code)
	}
	server.signal(syscall.SIGTERM)
	if code := server.code(); code != exitOK {
		t.Errorf("server: exit code %d", code)
	}
}

func TestASecondSignalEndsAServerAtOnce(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 8)
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called <- struct{}{}
		<-r.Context().Done()
	}))
	defer hung.Close()
	server := start(t, "server", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--partitions", "16", "--allow-targets", "127.0.0.0/8")
	url := serverURL(t, server.saw(spawn.Listening))
	server.saw("ready")
	for _, args := range [][]string{
		{"jobs", "create", "hung", "--schedule", "@yearly", "--url", hung.URL, "--server", url},
		{"jobs", "trigger", "hung", "--server", url},
	} {
		if code := start(t, args...).code(); code != exitOK {
			t.Fatalf("%v: exit code %d", args, code)
		}
	}
	<-called
	server.signal(syscall.SIGTERM)
	server.saw("draining")
	server.signal(syscall.SIGTERM)
	if code := server.code(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
}

func TestDevShowsItsJobsAndGoesOnAfterAStop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	var before api.Job
	for run := range 2 {
		dev := start(t, "dev", "--data-dir", dir, "--listen", "127.0.0.1:0")
		url := strings.TrimSuffix(strings.Fields(dev.saw("  API "))[1], "/v1/jobs")
		dev.saw("/openapi.json")
		dev.saw("Echo")
		dev.saw("loopback addresses are allowed here")
		dev.saw("curl -s " + url)
		line := dev.saw("demo-heartbeat")
		if !strings.Contains(line, "succeeded") || !strings.Contains(line, "ms late  attempt 1") {
			t.Errorf("line = %q", line)
		}
		if strings.Contains(line, "\x1b") {
			t.Errorf("colours went to a pipe: %q", line)
		}
		c, err := client.New(client.Config{Server: url})
		if err != nil {
			t.Fatal(err)
		}
		j, err := c.Get(t.Context(), "demo-heartbeat")
		c.Close()
		if err != nil {
			t.Fatal(err)
		}
		if now := j.Value; run == 1 && (now.Generation != before.Generation || now.Counts.Succeeded <= before.Counts.Succeeded || now.Counts.Failed > 0) {
			t.Errorf("the job was %+v, and after a restart %+v", before.Counts, now.Counts)
		}
		before = j.Value
		dev.signal(os.Interrupt)
		dev.saw("stopped")
		if code := dev.code(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
	}
}
