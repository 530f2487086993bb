package cassandra

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// patience bounds every wait of a test for something that must come.
const patience = 30 * time.Second

// childVariable makes the test binary start a database and wait for the end of
// its input.
const childVariable = "BELFRY_CASSANDRA_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
		return
	}
	goleak.VerifyTestMain(Tests(m))
}

// child tells where its database is, or what went wrong, in one line.
func child() {
	c, end, err := StartMain(1)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	n := c.Server().nodes[0]
	fmt.Println("ready:", n.host, n.proc.os.Pid, c.Server().Dir())
	_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end too
	end()
}

// again is the test binary as a child.
func again(t *testing.T, mode string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVariable+"="+mode)
	return cmd
}

// say has a node carry out a statement.
func say(t *testing.T, host, statement string, level frame.Consistency) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return ask(ctx, host, frame.Query(statement, level))
}

func mustSay(t *testing.T, host string, level frame.Consistency, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if err := say(t, host, s, level); err != nil {
			t.Fatalf("%s at %s: %v", s, host, err)
		}
	}
}

// noLater asks until it is so.
func noLater(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := poll(ctx, nil, func(context.Context) error {
		if so() {
			return nil
		}
		return fmt.Errorf("not yet: %s", what)
	})
	if err != nil {
		t.Fatal(err)
	}
}
