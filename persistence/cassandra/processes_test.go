package cassandra

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

func sleeper(n *node) *exec.Cmd { return exec.Command(n.java) }

// Two processes have databases at the same time and do not collide; when one is
// killed, its database dies with it and its directory is swept by the next.
func TestTwoProcesses(t *testing.T) {
	if othersServer(t) {
		return
	}
	ours := Start(t, 1).Hosts()[0]
	cmd := again(t, "database")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child: %v", errors.Join(err, cmd.Wait()))
	}
	var theirs, dir string
	var pid int
	if _, err := fmt.Sscanf(line, "ready: %s %d %s", &theirs, &pid, &dir); err != nil {
		t.Fatalf("the child says %q", line)
	}
	if theirs == ours {
		t.Errorf("both at %s", ours)
	}
	for _, host := range []string{ours, theirs} {
		mustSay(t, host, frame.One, "SELECT key FROM system.local")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	noLater(t, "the child's database dies", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the directory of a killed run: %v", err)
	}
	sweepHomes()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory after a sweep: %v", err)
	}
}

// A child without Maven and without jars says in one line what is missing.
func TestChildWithoutMaven(t *testing.T) {
	cmd := again(t, "no maven")
	bin := t.TempDir()
	script(t, bin, "java", `echo 'openjdk version "17.0.1"' >&2`)
	cmd.Env = append(cmd.Env, "PATH="+bin, "JAVA_HOME=", "BELFRY_CACHE="+t.TempDir(), HostsVariable+"=")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("it ended with %v", err)
	}
	if got := string(out); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "error: missing: mvn") {
		t.Errorf("it said %q", got)
	}
}
