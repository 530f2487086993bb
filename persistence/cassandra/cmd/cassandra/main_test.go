package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// nodeVariable makes the test binary a node that answers OPTIONS and STARTUP at
// the address that it names; with "fails" behind, it ends after the first.
const nodeVariable = "BELFRY_FAKE_NODE"

func TestMain(m *testing.M) {
	if at := os.Getenv(nodeVariable); at != "" {
		addr, ends := strings.CutSuffix(at, " fails")
		node(addr, ends)
	}
	goleak.VerifyTestMain(m)
}

func node(addr string, ends bool) {
	l, err := net.Listen("tcp", addr)
	for err == nil {
		var c net.Conn
		if c, err = l.Accept(); err == nil {
			answer(c)
		}
		if ends {
			err = fmt.Errorf("out of luck")
		}
	}
	fmt.Println(err)
	os.Exit(3)
}

func answer(c net.Conn) {
	defer c.Close()
	for {
		f, err := frame.Read(c)
		if err != nil {
			return
		}
		a := frame.Frame{Version: frame.Version, Answer: true, Stream: f.Stream, Opcode: frame.OpReady}
		if f.Opcode == frame.OpOptions {
			a.Opcode = frame.OpSupported
		}
		if a.Write(c) != nil {
			return
		}
	}
}

// machine is one where java is the fake node and the jars are there already. It
// answers with the network of the node.
func machine(t *testing.T, how string) string {
	t.Helper()
	bin := t.TempDir()
	network := fmt.Sprintf("127.255.%d", os.Getpid()%256)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	java := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = -version ]; then echo 'version \"17.0.1\"' >&2; exit; fi\n%s='%s.1:9042%s' exec '%s'\n", nodeVariable, network, how, exe)
	mvn := "#!/bin/sh\n"
	for name, text := range map[string]string{"java": java, "mvn": mvn} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("JAVA_HOME", "")
	t.Setenv("BELFRY_CACHE", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(cassandra.HostsVariable, "")
	return network
}

// output is what a command prints while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	last chan struct{} // closed when the last line of the greeting is there
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if bytes.Contains(b, []byte("Ctrl-C")) {
		close(o.last)
	}
	return o.text.Write(b)
}

// It prints the command for a server, and ends without an error when asked to.
func TestRun(t *testing.T) {
	network := machine(t, "")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &output{last: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"-network", network}, out, io.Discard) }()
	select {
	case <-out.last:
	case err := <-done:
		t.Fatalf("it ended: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("it says nothing")
	}
	interrupt()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want := "bin/belfry server --store cql --cql-hosts " + network + ".1:9042 --cql-keyspace belfry --cql-local-dc datacenter1\n"
	if !strings.Contains(out.text.String(), want) {
		t.Errorf("it said:\n%s", out.text.String())
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// A node that ends by itself is an error with the end of its log, and the log
// stays.
func TestNodeEnds(t *testing.T) {
	network := machine(t, " fails")
	err := run(t.Context(), []string{"-network", network}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("it ended: %v", err)
	}
	if logs, _ := filepath.Glob(filepath.Join(os.TempDir(), "*", "node1.log")); len(logs) != 1 {
		t.Errorf("logs: %v", logs)
	}
}

func TestRefusals(t *testing.T) {
	machine(t, "")
	for name, c := range map[string]struct {
		args []string
		env  string
		says string
	}{
		"an argument":    {args: []string{"up"}, says: "up"},
		"unknown flag":   {args: []string{"-nodes"}, says: "not defined"},
		"another runs":   {env: "10.0.0.1", says: cassandra.HostsVariable},
		"nothing needed": {args: []string{"-need"}},
		"help":           {args: []string{"-h"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(cassandra.HostsVariable, c.env)
			err := run(t.Context(), c.args, io.Discard, io.Discard)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("run: %v, want %q", err, c.says)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	if err := run(t.Context(), []string{"-need"}, io.Discard, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "missing: java 17") {
		t.Errorf("need: %v", err)
	}
}
