//go:build unix

package outside

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an API: it hands out what is claimed, and notes what it is told.
type server struct {
	claims    chan *api.Claimed
	heartbeat func() error
	complete  func(api.CompleteRequest) error

	mu        sync.Mutex
	completed []api.CompleteRequest
}

func (s *server) Claim(ctx context.Context, _ api.ClaimRequest) (*api.Claimed, error) {
	select {
	case c := <-s.claims:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *server) Heartbeat(context.Context, string, api.HeartbeatRequest) error {
	if s.heartbeat == nil {
		return nil
	}
	return s.heartbeat()
}

func (s *server) Complete(_ context.Context, _ string, req api.CompleteRequest) error {
	if s.complete != nil {
		if err := s.complete(req); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.completed = append(s.completed, req)
	return nil
}

// bench is a worker at work.
type bench struct {
	*server
	t          *testing.T
	out        *lines
	stop, kill context.CancelFunc
	done       chan error
}

// lines receives what a command prints.
type lines struct{ ch chan string }

func (l *lines) Write(p []byte) (int, error) {
	l.ch <- string(p)
	return len(p), nil
}

// start has a worker run a shell script for one execution.
func start(t *testing.T, script string, change ...func(*api.Claimed, *server)) *bench {
	t.Helper()
	b := &bench{server: &server{claims: make(chan *api.Claimed, 1)}, t: t, out: &lines{make(chan string, 100)}, done: make(chan error, 1)}
	c := &api.Claimed{
		ExecutionID: "a~1~20260101T000000.000Z", Lease: "1-1", JobID: "a", Queue: "q", Key: "k", Attempt: 1, Payload: []byte(`"text"`),
		LeaseDuration: api.Duration(time.Minute), Timeout: api.Duration(time.Hour),
	}
	for _, f := range change {
		f(c, b.server)
	}
	b.claims <- c
	var ctx, kill context.Context
	ctx, b.stop = context.WithCancel(context.Background())
	kill, b.kill = context.WithCancel(context.Background())
	go func() {
		b.done <- Run(ctx, kill, Config{
			API: b.server, Queue: "q", Name: "w", Concurrency: 1, Lease: time.Minute, Command: []string{"sh", "-c", script},
			Environ: os.Environ(), Stdout: b.out, Stderr: io.Discard, Note: t.Logf,
		})
	}()
	t.Cleanup(func() {
		b.stop()
		b.kill()
	})
	return b
}

// wait ends the worker and returns what was completed.
func (b *bench) wait() []api.CompleteRequest {
	b.t.Helper()
	b.stop()
	if err := <-b.done; err != nil {
		b.t.Fatal(err)
	}
	return b.completed
}

// child is the process that the script says it has started.
func (b *bench) child() int {
	b.t.Helper()
	text := <-b.out.ch
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		b.t.Fatalf("it printed %q", text)
	}
	return pid
}

// gone waits for the end of a process.
func gone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); ; {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("process %d goes on", pid)
		}
	}
}

// zombie tells that a process has ended, and its parent has not asked how.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, ok := strings.Cut(string(stat), ") ")
	return err == nil && ok && strings.HasPrefix(after, "Z")
}

// withChild starts a child that outlasts it, says which, and waits.
const withChild = `sleep 1000 & echo $!; wait`

func want(t *testing.T, got []api.CompleteRequest, status, text string) {
	t.Helper()
	if len(got) != 1 || got[0].Status != status || got[0].Lease != "1-1" || !strings.Contains(got[0].Error, text) {
		t.Errorf("completed as %+v, want one %s: %s", got, status, text)
	}
}

func TestWhatACommandReadsAndSays(t *testing.T) {
	t.Parallel()
	b := start(t, `read -r line; echo "$line $BELFRY_EXECUTION_ID $BELFRY_JOB_ID $BELFRY_QUEUE $BELFRY_ATTEMPT $BELFRY_IDEMPOTENCY_KEY $BELFRY_SCHEDULED_FOR"`,
		func(c *api.Claimed, _ *server) { c.Payload = []byte(`{"a":1}`) })
	const line = `{"a":1} a~1~20260101T000000.000Z a q 1 k 0001-01-01T00:00:00Z` + "\n"
	if got := <-b.out.ch; got != line {
		t.Errorf("it printed %q", got)
	}
	got := b.wait()
	want(t, got, "succeeded", "")
	if got[0].Output != line {
		t.Errorf("the output is %q", got[0].Output)
	}
}

func TestAFailure(t *testing.T) {
	t.Parallel()
	b := start(t, `echo begun; i=0; while [ $i -lt 200 ]; do echo "line $i of what it prints"; i=$((i+1)); done >&2; exit 3`)
	<-b.out.ch
	got := b.wait()
	want(t, got, "failed", "exit status 3")
	// Stdout and stderr are two pipes: what was printed first may be read last.
	if out := got[0].Output; len(out) != tailBytes || !strings.Contains(out, "line 199 of what it prints\n") {
		t.Errorf("the output has %d bytes and ends with %q", len(out), out[max(0, len(out)-40):])
	}
}

func TestKilledAtTheTimeoutWithItsChildren(t *testing.T) {
	t.Parallel()
	b := start(t, withChild, func(c *api.Claimed, _ *server) { c.Timeout = api.Duration(500 * time.Millisecond) })
	pid := b.child()
	gone(t, pid)
	want(t, b.wait(), "failed", "did not end within the job's timeout")
}

// A lease that the server says is over: the command is killed, and nobody is told
// what came of it.
func TestKilledWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	b := start(t, withChild, func(c *api.Claimed, s *server) {
		c.LeaseDuration = api.Duration(300 * time.Millisecond)
		s.heartbeat = func() error { return &api.Problem{Status: 409, Code: api.CodeLeaseLost} }
	})
	gone(t, b.child())
	if got := b.wait(); len(got) != 0 {
		t.Errorf("completed as %+v under a lost lease", got)
	}
}

// Heartbeats without an answer: the lease is over when it would have ended.
func TestKilledWhenTheServerIsSilent(t *testing.T) {
	t.Parallel()
	b := start(t, withChild, func(c *api.Claimed, s *server) {
		c.LeaseDuration = api.Duration(300 * time.Millisecond)
		s.heartbeat = func() error { return errors.New("connection refused") }
	})
	gone(t, b.child())
	if got := b.wait(); len(got) != 0 {
		t.Errorf("completed as %+v under a lost lease", got)
	}
}

// Heartbeats that are answered keep it running for longer than its lease.
func TestHeartbeatsKeepTheLease(t *testing.T) {
	t.Parallel()
	beats := make(chan struct{}, 100)
	b := start(t, withChild, func(c *api.Claimed, s *server) {
		c.LeaseDuration = api.Duration(300 * time.Millisecond)
		s.heartbeat = func() error { beats <- struct{}{}; return nil }
	})
	for range 6 { // two leases
		<-beats
	}
	b.kill()
	want(t, b.wait(), "failed", "the worker was stopped")
}

// The first signal lets what runs finish, the second kills it.
func TestTheEndOfAWorker(t *testing.T) {
	t.Parallel()
	gate := t.TempDir() + "/gate"
	b := start(t, `echo begun; while [ ! -e `+gate+` ]; do sleep 0.02; done; echo ended`)
	<-b.out.ch
	b.stop()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, b.wait(), "succeeded", "")

	b = start(t, withChild)
	pid := b.child()
	b.stop()
	b.kill()
	gone(t, pid)
	want(t, b.wait(), "failed", "the worker was stopped")
}

// A completion is repeated until it is answered.
func TestACompletionIsRepeated(t *testing.T) {
	t.Parallel()
	tries := 0
	b := start(t, "echo done", func(_ *api.Claimed, s *server) {
		s.complete = func(api.CompleteRequest) error {
			if tries++; tries < 3 {
				return errors.New("connection refused")
			}
			return nil
		}
	})
	<-b.out.ch
	want(t, b.wait(), "succeeded", "")
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
}

// A request that the server will not have ends the worker.
func TestARefusedClaimEndsTheWorker(t *testing.T) {
	t.Parallel()
	refusal := &api.Problem{Status: 400, Code: api.CodeInvalid, Detail: "body.queue: no"}
	err := Run(context.Background(), context.Background(), Config{
		API: refusing{refusal}, Concurrency: 3, Lease: time.Minute, Command: []string{"true"}, Note: t.Logf,
	})
	if !errors.Is(err, refusal) {
		t.Errorf("it ended with %v", err)
	}
}

type refusing struct{ error }

func (r refusing) Claim(context.Context, api.ClaimRequest) (*api.Claimed, error) { return nil, r.error }
func (r refusing) Heartbeat(context.Context, string, api.HeartbeatRequest) error { return r.error }
func (r refusing) Complete(context.Context, string, api.CompleteRequest) error   { return r.error }
