package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/echo"
	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/spawn"
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
//	target           start an echo target and name it in $TARGET
func TestScripts(t *testing.T) {
	t.Parallel()
	running := &servers{of: map[string]*spawn.Server{}}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("NO_COLOR", "1")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "server": running.start, "stop": running.stop, "target": startTarget,
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

// belfry is this program as a command, without settings of whoever runs the
// tests.
func belfry(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := exec.LookPath("belfry")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	return cmd
}
